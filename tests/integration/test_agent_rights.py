"""The agent on a remote host and its processes have given up capabilities that they do not need."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from switchmark.host.kernel.capabilities import NEEDED
from tests.integration.bench_rights import GIVEN_UP, sets_of
from tests.integration.hosts_bench import begin_traffic
from tests.integration.two_hosts import TwoHosts, missing
from tests.places import needs_namespaces

pytestmark = [
    pytest.mark.integration,
    needs_namespaces,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


def test_agent_and_children_dropped_unneeded_capabilities(hosts: TwoHosts, engine: Path) -> None:
    bench = begin_traffic(hosts, engine)
    try:
        programs = hosts.right.programs()
        threads = {pid: sets_of(pid) for pid in programs}
        for pid, found in threads.items():
            for capabilities in found:
                assert not any(value & GIVEN_UP for value in capabilities.values()), programs[pid]
        for capabilities in threads[hosts.right.agent()]:
            assert all(capabilities["CapEff"] >> number & 1 for number in NEEDED.values())
        assert len([capabilities for capabilities in threads.values() if capabilities]) > 1, (
            "it has started others"
        )
    finally:
        bench.send_signal(signal.SIGTERM)
        bench.communicate(timeout=60)
    assert hosts.right.remains() == []
