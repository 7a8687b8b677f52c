"""The limits of real control groups as a process in them reads them, and real throttling."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.host.cores.cpu_limit import find_hierarchy
from switchmark.host.kernel import cgroups
from switchmark.host.kernel.mounts import read_mounts
from switchmark.host.place import Facility
from switchmark.record import GroupQuota
from tests.integration.main_job import SHORT, Bench, need, settings, went_well
from tests.places import reason_to_skip

pytestmark = pytest.mark.integration

# The bench, in the control groups that GROUPS names.
IN_GROUPS = (
    "import os, runpy\n"
    "for group in os.environ['GROUPS'].split(':'):\n"
    "    open(group + '/cgroup.procs', 'w').write('0')\n"
    "runpy.run_module('switchmark.cli.main', run_name='__main__')\n"
)
NAME = f"smlimits{os.getpid()}"
MIB = 1 << 20
# Burns CPU time until the group has been stopped or a bound is reached, then prints.
PROGRAM = """
import json, sys, time
from dataclasses import asdict
for group in sys.argv[1:]:
    open(group + "/cgroup.procs", "w").write("0")
from switchmark.host.cores.throttling import OwnThrottling
from switchmark.host.place.limits import read_limits
before = OwnThrottling.read()
deadline = time.monotonic() + 20
while time.monotonic() < deadline and not OwnThrottling.read().since(before).throttled_s:
    pass
found = OwnThrottling.read().since(before)
print(json.dumps([asdict(read_limits()), found.throttled_periods, found.seconds]))
"""


def hierarchy_of(controller: str) -> Path | None:
    """Return a folder where the controller can limit groups, in a hierarchy of either version."""
    for mount in read_mounts():
        if mount.kind == "cgroup" and controller in mount.options:
            return Path(mount.point)
        listed = Path(mount.point) / "cgroup.subtree_control"
        if mount.kind == "cgroup2" and controller in listed.read_text().split():
            return Path(mount.point)
    return None


def hand_on(group: Path) -> None:
    """Enable the controllers for groups in this group, which version 2 needs."""
    control = group / "cgroup.subtree_control"
    if control.exists():
        available = (group / "cgroup.controllers").read_text().split()
        enabled = [name for name in ("cpu", "memory", "pids") if name in available]
        control.write_text(" ".join(f"+{name}" for name in enabled))


def write(group: Path, files: dict[str, str]) -> None:
    for name, value in files.items():
        if (group / name).exists():
            (group / name).write_text(value)


@pytest.fixture
def groups() -> Iterator[list[str]]:
    """Nested groups with a CPU quota of 0.2 on the outer one, and limits of memory and tasks."""
    cpu = find_hierarchy()
    if cpu is None or reason_to_skip(Facility.CONTROL_GROUPS) is not None:
        pytest.skip("no control group with a CPU quota can be made here")
    found = dict.fromkeys(
        root / NAME / "inner"
        for root in (cpu.root, hierarchy_of("memory"), hierarchy_of("pids"))
        if root is not None
    )
    try:
        for inner in found:
            inner.parent.mkdir()
            hand_on(inner.parent)
            inner.mkdir()
            quota = {"cpu.cfs_quota_us": "20000", "cpu.max": "20000 100000"}
            write(inner.parent, {**quota, "pids.max": "50"})
            limit = str(300 * MIB)
            write(inner, {"memory.limit_in_bytes": limit, "memory.max": limit})
        yield [str(one) for one in found]
    except PermissionError:
        pytest.skip("control groups cannot be changed here")
    finally:
        for inner in found:
            if inner.parent.is_dir():
                cgroups.remove_tree(inner.parent)


def set_quota(groups: list[str], cpus: float | None) -> None:
    """Set the quota of the outer groups."""
    quota_us = None if cpus is None else round(cpus * 100_000)
    for group in groups:
        files = {"cpu.cfs_quota_us": str(quota_us or -1), "cpu.max": f"{quota_us or 'max'} 100000"}
        write(Path(group).parent, files)


@pytest.fixture
def limited(bench: Bench, groups: list[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench in these groups."""
    need(("linux-bridge",), ("netns",))
    monkeypatch.setenv("GROUPS", ":".join(groups))
    bench.program = ("-c", IN_GROUPS)
    return bench


BRIDGE = (
    "trial", "linux-bridge", "--environment", "netns", "--no-baseline",
    *settings(*SHORT, "idle=auto"),
)  # fmt: skip


def test_a_quota_of_less_than_one_cpu_is_refused(limited: Bench, groups: list[str]) -> None:
    set_quota(groups, 0.8)
    message = "needs at least 1 CPU, and the CPU quota is 0.8; raise the quota"
    code, _, err = limited.run(*BRIDGE)
    assert code == 3 and message in err
    code, _, err = limited.run("plan", "(V=linux-bridge, environment=netns)")
    assert (
        code == 0
        and "run would refuse this campaign here: (V=linux-bridge" not in err
        and message in err
    )


def test_a_quota_below_the_cpus_is_not_used_up(limited: Bench, groups: list[str]) -> None:
    """Everything is on one CPU and uses at most 1 of 1.2 CPUs."""
    set_quota(groups, 1.2)
    code, _, err = limited.run(*BRIDGE, "--duration", "1s")
    assert went_well(code, err), err
    for record in limited.records():
        if record.status == "failed":
            continue  # it got no core
        assert record.placement is not None and record.verdict is not None
        assert len(record.placement.only_cores) == 1 and record.placement.oversubscribed
        assert record.group_quota == GroupQuota(cpus=1.2, throttled_periods=0, throttled_s=0.0)
        assert "throttled" not in record.verdict.marks


def test_a_throttled_trial_is_marked_and_not_valid(limited: Bench, groups: list[str]) -> None:
    """The quota is set while frames flow; before, the trial would be refused."""
    set_quota(groups, None)
    job = limited.start(*BRIDGE, "--duration", "3s")
    try:
        job.wait_session()
        job.wait_measuring()
        set_quota(groups, 0.1)
        code, _, err = job.end()
    finally:
        set_quota(groups, None)
        job.process.kill() if job.process.poll() is None else None
    assert went_well(code, err), err
    (record,) = limited.records()
    assert record.group_quota is not None and record.verdict is not None, record.message
    assert record.group_quota.cpus == 0.1
    assert record.group_quota.throttled_periods > 0 and record.group_quota.throttled_s > 0
    assert "throttled" in record.verdict.marks and not record.verdict.valid


def test_a_trial_that_does_not_fit_into_memory_is_refused(
    limited: Bench, groups: list[str]
) -> None:
    if hierarchy_of("memory") is None:
        pytest.skip("no control group here limits memory")
    set_quota(groups, None)
    code, _, err = limited.run(*BRIDGE, "--pairs", "20")
    assert code == 3
    assert "needs 320 MiB of memory, and " in err and "is 300 MiB); raise the limit" in err


def test_a_process_reads_its_groups_and_their_throttling(groups: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *groups],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    limits, periods, throttled_s = json.loads(done.stdout)
    assert limits["cpu_quota"] == 0.2, "the parent's quota"
    assert periods > 0 and throttled_s > 0
    if hierarchy_of("memory") is not None:
        assert limits["memory_bytes"] == 300 * MIB
        assert 100 * MIB < limits["memory_left_bytes"] < 300 * MIB, "minus the memory of Python"
    if hierarchy_of("pids") is not None:
        assert (limits["tasks"], limits["tasks_left"]) == (50, 49)
