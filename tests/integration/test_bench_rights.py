"""A running bench and its processes have dropped unneeded capabilities; the main job works in every
environment without them."""

from __future__ import annotations

import pytest

from switchmark.host.kernel.capabilities import NEEDED
from tests.integration.bench_rights import GIVEN_UP, sets_of
from tests.integration.machine import needs_root
from tests.integration.main_job import (
    SHORT,
    Bench,
    need,
    pids_of_session,
    settings,
    went_well,
)

pytestmark = [pytest.mark.integration, needs_root]


@pytest.mark.parametrize(
    ("switch", "environment", "inside"),
    [
        ("linux-bridge", "netns", "host"),
        ("linux-bridge", "docker", "host"),
        ("ovs-netdev", "lxc", "lxc"),
        pytest.param("ovs-netdev", "docker", "docker", marks=pytest.mark.slow),
        ("ovs-dpdk", "bare", "host"),
        ("xdp-redirect", "netns", "host"),
    ],
)
def test_main_job_works_without_unneeded_capabilities(
    bench: Bench, switch: str, environment: str, inside: str
) -> None:
    need((switch,), (environment,))
    places = [f"environment={environment}", f"switch_environment={inside}", "duration=1s"]
    chosen = settings("packet_size=64", "rate=1000", *places, *SHORT)
    job = bench.start("trial", switch, *chosen, "--no-baseline", "--quiet")
    session = job.wait_session()
    job.until(lambda: len(job.pids_of("switchmark-traffic")) >= 2, "both engines")
    found = {pid: sets_of(pid) for pid in (job.process.pid, *pids_of_session(session))}
    code, _, err = job.end()
    assert went_well(code, err), err
    for capabilities in (capabilities for threads in found.values() for capabilities in threads):
        assert not any(value & GIVEN_UP for value in capabilities.values())
    bench_threads = found.pop(job.process.pid)
    assert bench_threads and all(
        capabilities["CapEff"] >> number & 1
        for capabilities in bench_threads
        for number in NEEDED.values()
    )
    assert any(found.values()), "it has started others"
