"""The limits that the place sets to this process and to all that it starts.

They are read from the control groups of this process and all their parents (version 1, version 2
or both; in a container, as far as the container sees them) and from its resource limits. A program
that needs more is stopped for a part of each period (CPU quota) or killed (memory), so they are
read before a trial starts.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from switchmark.host.kernel import cgroups

SHARED_MEMORY = Path("/dev/shm")
MEMINFO = Path("/proc/meminfo")
_Amount = TypeVar("_Amount", int, float)
_UNLIMITED_BYTES = 1 << 60  # version 1 writes "no limit" as a number close to 2^63


@dataclass(frozen=True, slots=True)
class PlaceLimits:
    """The limits of this process at one moment; None: no limit, or none that is visible."""

    cpu_quota: float | None  # CPU seconds a second, of the narrowest group
    allowed_cpus: tuple[int, ...]  # by the CPU mask and the cpuset
    memory_bytes: int | None  # the limit of the narrowest group
    memory_left_bytes: int | None  # until the first group is full; page cache counts as free
    available_bytes: int | None  # free memory of the machine, including the page cache
    tasks: int | None  # processes and threads together, of the narrowest group
    tasks_left: int | None
    locked_memory_bytes: int | None
    open_files: int | None  # for each process
    processes: int | None  # for each user; root and CAP_SYS_RESOURCE are exempt
    shared_memory_bytes: int | None  # size of /dev/shm; None: it is absent
    shared_memory_free_bytes: int | None

    @property
    def cpus(self) -> float:
        """The CPUs that all programs together may use."""
        allowed = float(len(self.allowed_cpus))
        return allowed if self.cpu_quota is None else min(allowed, self.cpu_quota)


def read_limits(
    memberships: bytes | None = None,
    mountinfo: bytes | None = None,
    shared: Path = SHARED_MEMORY,
    meminfo: Path = MEMINFO,
) -> PlaceLimits:
    """Read the limits of this process. `memberships` and `mountinfo` replace the contents of its
    files /proc/self/cgroup and /proc/self/mountinfo."""

    def groups(controller: str) -> list[Path]:
        with suppress(OSError):
            return cgroups.own_groups(controller, memberships, mountinfo)
        return []

    memory, pids = groups("memory"), groups("pids")
    size, free = _shared_memory(shared)
    return PlaceLimits(
        cpu_quota=_least(map(quota_of, groups("cpu"))),
        allowed_cpus=tuple(sorted(os.sched_getaffinity(0))),
        memory_bytes=_least(map(_memory_limit, memory)),
        memory_left_bytes=_least(map(_memory_left, memory)),
        available_bytes=_available_bytes(meminfo),
        tasks=_least(_number(one / "pids.max") for one in pids),
        tasks_left=_least(map(_tasks_left, pids)),
        locked_memory_bytes=_own(resource.RLIMIT_MEMLOCK),
        open_files=_own(resource.RLIMIT_NOFILE),
        processes=_own(resource.RLIMIT_NPROC),
        shared_memory_bytes=size,
        shared_memory_free_bytes=free,
    )


def quota_of(group: Path) -> float | None:
    """The CPU quota of a group in CPUs; None if it has none."""
    with suppress(OSError, ValueError):
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    with suppress(OSError, ValueError):
        quota_us = int((group / "cpu.cfs_quota_us").read_text())
        return None if quota_us < 0 else quota_us / int((group / "cpu.cfs_period_us").read_text())
    return None


def _memory_limit(group: Path) -> int | None:
    """The smaller one of a group's hard limit and of the one beyond which it is slowed down."""
    return _least(
        found
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes")
        if (found := _number(group / name)) is not None and found < _UNLIMITED_BYTES
    )


def _memory_left(group: Path) -> int | None:
    """Memory that a group can still allocate. Inactive file pages count as free, since the kernel
    drops them before it kills a process."""
    limit = _memory_limit(group)
    used = _least([_number(group / "memory.current"), _number(group / "memory.usage_in_bytes")])
    if limit is None or used is None:
        return limit
    given_up = _statistic(group, ("total_inactive_file", "inactive_file"))
    return max(0, limit - max(0, used - given_up))


def _available_bytes(meminfo: Path) -> int | None:
    with suppress(OSError, ValueError, StopIteration):
        lines = meminfo.read_text().splitlines()
        line = next(one for one in lines if one.startswith("MemAvailable:"))
        return int(line.split()[1]) << 10
    return None


def _statistic(group: Path, names: Sequence[str]) -> int:
    """The first of these values in the group's memory.stat; 0 without any."""
    with suppress(OSError, ValueError):
        lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
        values = {name: int(value) for name, value in lines}
        return next((values[name] for name in names if name in values), 0)
    return 0


def _tasks_left(group: Path) -> int | None:
    most, used = _number(group / "pids.max"), _number(group / "pids.current")
    return None if most is None else max(0, most - (used or 0))


def _number(path: Path) -> int | None:
    """The number in a control file; None for `max`, and for a file that cannot be read."""
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def _least(values: Iterable[_Amount | None]) -> _Amount | None:
    return min((one for one in values if one is not None), default=None)


def _own(kind: int) -> int | None:
    soft = resource.getrlimit(kind)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _shared_memory(folder: Path) -> tuple[int | None, int | None]:
    with suppress(OSError):
        found = os.statvfs(folder)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    return None, None
