"""A bench that may use only one core, by affinity mask or cpuset: all threads of switches,
applications and helpers stay on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from switchmark.certify.support.rig import plan_for
from switchmark.host.cores.affinity import restricted_to
from switchmark.host.host import Session
from switchmark.host.kernel import procfs
from switchmark.trial.deployment import Deployment
from tests.integration.machine import needs_root
from tests.integration.switch_rig import EXCLUSIVE, REAL, available

pytestmark = [
    pytest.mark.integration,
    needs_root,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="no core could be left out"),
]
CPUSETS = Path("/sys/fs/cgroup/cpuset")  # cgroup version 1
CORE = max(os.sched_getaffinity(0))  # the first core is the default of many programs


def threads_elsewhere(session: Session) -> dict[str, set[int]]:
    """Return the threads of the session's processes that may run on other cores than CORE."""
    found = {}
    for thread in procfs.threads_of(one.pid for one in procfs.session_processes(session.id)):
        with suppress(OSError):  # the process has ended
            allowed = os.sched_getaffinity(thread)
            if allowed != {CORE}:
                found[Path(f"/proc/{thread}/comm").read_text().strip()] = allowed
    return found


@contextmanager
def in_cpuset() -> Iterator[None]:
    """Move this process into a cpuset of CORE for a time."""
    if not (CPUSETS / "cpuset.cpus").exists():
        pytest.skip("no cpuset hierarchy of cgroup version 1 is mounted")
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    current = next(line.rpartition(":")[2] for line in lines if line.split(":")[1] == "cpuset")
    group, home = CPUSETS / f"smtest{os.getpid()}", CPUSETS / current.lstrip("/")
    group.mkdir()
    try:
        (group / "cpuset.mems").write_text((home / "cpuset.mems").read_text())
        (group / "cpuset.cpus").write_text(str(CORE))
        before = os.sched_getaffinity(0)
        (group / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (home / "cgroup.procs").write_text(str(os.getpid()))
            for thread in procfs.threads_of([os.getpid()]):
                os.sched_setaffinity(thread, before)
    finally:
        group.rmdir()


@pytest.mark.parametrize("limit", ["mask", "cpuset"])
@pytest.mark.parametrize("name", [name for name in REAL if name not in EXCLUSIVE])
def test_every_thread_stays_on_the_allowed_core(name: str, limit: str, session: Session) -> None:
    switch = available(name)
    if limit == "cpuset" and not (switch.capabilities.polling or name.startswith("ovs")):
        pytest.skip("this switch chooses no cores; the mask is sufficient")
    with restricted_to([CORE]) if limit == "mask" else in_cpuset():
        plan = plan_for(switch)
        used = {core for own in plan.placement.application_cores.values() for core in own}
        assert used | set(plan.placement.switch_cores) == {CORE}
        with Deployment(session, plan) as deployment:
            assert deployment.switch.alive() is None
            assert threads_elsewhere(session) == {}
