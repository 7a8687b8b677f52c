"""What the agent on a far host, and all that it starts there, may never do."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from switchmark.testbed.kernel.capabilities import NEEDED, NEVER
from tests.integration.hosts_bench import begin_traffic
from tests.integration.main_job import SHORT, Bench, need, settings, went_well
from tests.integration.two_hosts import TwoHosts, missing

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="hosts of namespaces need root"),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

GIVEN_UP = sum(1 << one for one in NEVER.values())


def sets_of(pid: int) -> list[dict[str, int]]:
    """The capabilities of each thread (some end while they are looked at)."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):
            told = re.findall(r"^(Cap\w+):\t(\w+)$", path.read_text(), re.M)
            found.append({name: int(value, 16) for name, value in told})
    return found


def words_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # (it has ended)
        return b""


def test_agent_and_children_have_given_up_what_no_bench_uses(hosts: TwoHosts, engine: Path) -> None:
    bench = begin_traffic(hosts, engine)
    try:
        programs = hosts.right.programs()
        (agent,) = (pid for pid in programs if b"memfd_create" in words_of(pid))
        threads = {pid: sets_of(pid) for pid in programs}
        for pid, found in threads.items():
            for one in found:
                assert not any(value & GIVEN_UP for value in one.values()), programs[pid]
        for one in threads[agent]:
            assert all(one["CapEff"] >> number & 1 for number in NEEDED.values())
        assert len([one for one in threads.values() if one]) > 1, "it has started others"
    finally:
        bench.send_signal(signal.SIGTERM)
        bench.communicate(timeout=60)
    assert hosts.right.remains() == []


# A bench without what an agent gives up: the two hosts have no control groups for containers.
BENCH = """
import sys
from switchmark.cli import main
from switchmark.testbed.kernel import capabilities
capabilities.give_up_unused()
sys.exit(main.run(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("switch", "environment", "inside"),
    [
        ("ovs-netdev", "lxc", "lxc"),
        pytest.param("ovs-netdev", "docker", "docker", marks=pytest.mark.slow),
        ("ovs-dpdk", "bare", "host"),
        ("xdp-redirect", "netns", "host"),
    ],
)
def test_nothing_lacks_it(bench: Bench, switch: str, environment: str, inside: str) -> None:
    need((switch,), (environment,))
    wanted = [f"environment={environment}", f"switch_environment={inside}", "duration=1s"]
    bench.program = ("-c", BENCH)
    chosen = settings("packet_size=64", "rate=1000", *wanted, *SHORT)
    code, _, err = bench.run("trial", switch, *chosen, "--no-baseline", "--quiet")
    assert went_well(code, err), err
