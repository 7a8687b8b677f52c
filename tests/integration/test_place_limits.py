"""The limits of real control groups, as a process in them reads them, and real throttling."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.testbed.cores.cpu_limit import find_hierarchy
from switchmark.testbed.kernel import cgroups
from switchmark.testbed.kernel.mounts import mounted

pytestmark = pytest.mark.integration

NAME = f"smlimits{os.getpid()}"
MIB = 1 << 20
# Burns CPU time until the group has been stopped or a bound is reached, then prints.
PROGRAM = """
import json, sys, time
from dataclasses import asdict
for group in sys.argv[1:]:
    open(group + "/cgroup.procs", "w").write("0")
from switchmark.testbed.cores.throttling import OwnThrottling
from switchmark.testbed.place.limits import read_limits
before = OwnThrottling.read()
deadline = time.monotonic() + 20
while time.monotonic() < deadline and not OwnThrottling.read().since(before).throttled_periods:
    pass
found = OwnThrottling.read().since(before)
print(json.dumps([asdict(read_limits()), found.throttled_periods, found.seconds]))
"""


def hierarchy_of(controller: str) -> Path | None:
    """Where the controller can limit groups here, in a hierarchy of either version."""
    for one in mounted():
        if one.kind == "cgroup" and controller in one.options:
            return Path(one.point)
        listed = Path(one.point) / "cgroup.subtree_control"
        if one.kind == "cgroup2" and controller in listed.read_text().split():
            return Path(one.point)
    return None


def write(group: Path, files: dict[str, str]) -> None:
    for name, value in files.items():
        if (group / name).exists():
            (group / name).write_text(value)


@pytest.fixture
def groups() -> Iterator[list[str]]:
    """Nested groups with a CPU quota of 0.2 on the outer one, and limits of memory and tasks."""
    cpu = find_hierarchy()
    if cpu is None or os.geteuid() != 0:
        pytest.skip("no control group with a CPU quota can be made here")
    found = dict.fromkeys(
        root / NAME / "inner"
        for root in (cpu.root, hierarchy_of("memory"), hierarchy_of("pids"))
        if root is not None
    )
    try:
        for inner in found:
            inner.mkdir(parents=True)
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


def test_a_process_reads_its_groups_and_their_throttling(groups: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *groups],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    limits, periods, throttled_s = json.loads(done.stdout)
    assert limits["cpu_quota"] == 0.2, "of the parent"
    assert periods > 0 and throttled_s > 0
    if hierarchy_of("memory") is not None:
        assert limits["memory_bytes"] == 300 * MIB
        assert 100 * MIB < limits["memory_left_bytes"] < 300 * MIB, "less what Python takes"
    if hierarchy_of("pids") is not None:
        assert (limits["tasks"], limits["tasks_left"]) == (50, 49)
