"""Faults by exhausted resources: processes, memory, descriptors, hugepages."""

from __future__ import annotations

import random
import resource
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.faults.bench import Job
from tests.faults.undo import Undo, for_good, run

CGROUPS = Path("/sys/fs/cgroup")
FREE_HUGEPAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")


def no_more_processes(job: Job, rng: random.Random) -> Undo | None:
    """Limit processes to a few more than exist."""
    return _limit("pids", "pids.max", lambda used: used + rng.randrange(3), job)


def no_more_memory(job: Job, _rng: random.Random) -> Undo | None:
    """Limit memory to a share of the bench's memory."""
    return _limit("memory", "memory.limit_in_bytes", lambda used: 4096 + used // 2, job)


def _limit(kind: str, knob: str, limit: Callable[[int], int], job: Job) -> Undo | None:
    """Move the bench and its processes into a group and lower its limit."""
    if not (CGROUPS / kind).is_dir() or not job.running:
        return None
    group = (
        CGROUPS / kind / f"faults-{secrets.token_hex(4)}"
    )  # another matrix may run at the same time
    group.mkdir()
    job.groups.append(group)
    for pid in [job.process.pid, *(pid for pid, _ in job.processes())]:
        with suppress(OSError):
            (group / "cgroup.procs").write_text(str(pid))
    used = _tasks(group) if kind == "pids" else _resident(job)
    try:
        (group / knob).write_text(str(limit(used)))
    except OSError:
        return None
    return partial(_unlimit, group, knob)


def _unlimit(group: Path, knob: str) -> None:
    with suppress(OSError):
        (group / knob).write_text("max" if knob == "pids.max" else "-1")


def _tasks(group: Path) -> int:
    return int((group / "pids.current").read_text())


def _resident(job: Job) -> int:
    """Return the resident bytes of the bench; later allocations count in its new group."""
    with suppress(OSError):
        pages = int(Path(f"/proc/{job.process.pid}/statm").read_text().split()[1])
        return pages * 4096 // 8
    return 1 << 24


def no_more_descriptors(job: Job, rng: random.Random) -> Undo | None:
    """Limit descriptors to a few more than the bench has open."""
    pid = job.process.pid
    try:
        used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + rng.randrange(4), 4096))
    except OSError:
        return None
    return for_good


def hugepages_used_up(job: Job, _rng: random.Random) -> Undo | None:
    """Hide free hugepages from this host, as other programs of the machine also need them."""
    few = job.places.campaign.with_name("free_hugepages")
    few.write_text("3\n")
    if not run("mount", "--bind", str(few), str(FREE_HUGEPAGES)):
        return None
    return partial(run, "umount", "-l", str(FREE_HUGEPAGES))
