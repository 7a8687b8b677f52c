"""What the agent on a far host, and all that it starts there, may never do."""

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


def test_agent_and_children_have_given_up_what_no_bench_uses(hosts: TwoHosts, engine: Path) -> None:
    bench = begin_traffic(hosts, engine)
    try:
        programs = hosts.right.programs()
        threads = {pid: sets_of(pid) for pid in programs}
        for pid, found in threads.items():
            for one in found:
                assert not any(value & GIVEN_UP for value in one.values()), programs[pid]
        for one in threads[hosts.right.agent()]:
            assert all(one["CapEff"] >> number & 1 for number in NEEDED.values())
        assert len([one for one in threads.values() if one]) > 1, "it has started others"
    finally:
        bench.send_signal(signal.SIGTERM)
        bench.communicate(timeout=60)
    assert hosts.right.remains() == []
