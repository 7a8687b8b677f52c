"""What a bench that runs holds of the machine: itself, its agents and engines, and what the kernel
has of it. Where it is in a host of its own, that host is seen through its processes."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from switchmark.host.cores.cpu_time import process_cpu_s
from tests.faults.bench import Job

BPF_PROG_GET_NEXT_ID = 11
BPF_CALL = {"x86_64": 321, "aarch64": 280}
SHARED = ("tmp", "var/tmp", "dev/shm", "run")
SPENT = "CPU time of the bench (s), until now"
ENGINES = "memory of engines (MB)"
# The next trial may have made its own by then: of these the fewest are compared.
COUNTS = (
    "threads", "descriptors", "files in the state folder", "files in shared folders", "namespaces",
    "devices", "cgroups", "mounts", "unix sockets", "BPF programs in the kernel",
)  # fmt: skip


def held(job: Job, ours: Path) -> dict[str, float]:
    """By what it is. `ours` is the folder of whoever looks."""
    bench = job.process.pid
    agents = far_programs(job)
    places = [bench, *([job.hosts.right.pid] if job.hosts else [])]
    return {
        "memory of the bench (MB)": memory_mb([bench]),
        "memory of agents (MB)": memory_mb(agents),
        ENGINES: memory_mb(job.engines()),
        "threads": float(sum(_entries(f"/proc/{pid}/task") for pid in (bench, *agents))),
        "descriptors": float(sum(_entries(f"/proc/{pid}/fd") for pid in (bench, *agents))),
        "files in the state folder": float(sum(1 for _ in job.places.state.rglob("*"))),
        "files in shared folders": float(sum(_shared_files(pid, ours) for pid in places)),
        "namespaces": float(sum(_entries(f"/proc/{pid}/root/run/netns") for pid in places)),
        "devices": float(sum(_lines(f"/proc/{pid}/net/dev") - 2 for pid in places)),
        "cgroups": float(_cgroups(job.session)),
        "mounts": float(sum(_lines(f"/proc/{pid}/mountinfo") for pid in places)),
        "unix sockets": float(sum(_lines(f"/proc/{pid}/net/unix") for pid in places)),
        "BPF programs in the kernel": float(bpf_programs()),
        SPENT: process_cpu_s(bench),
    }


def far_programs(job: Job) -> list[int]:
    """The agents: what the bench has on another host that is no engine."""
    if not job.hosts:
        return []
    engines = set(job.engines())
    return [pid for pid in job.hosts.right.programs() if pid not in engines]


def memory_mb(pids: Iterable[int]) -> float:
    """Resident, of all of them."""
    pages = 0
    for pid in pids:
        with suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def bpf_programs() -> int:
    """All that the kernel has: programs have no namespace. 0 where it does not tell."""
    number = BPF_CALL.get(platform.machine())
    if number is None:
        return 0
    words = (ctypes.c_uint32 * 3)()  # from which, the next one, flags
    libc, found = ctypes.CDLL(None, use_errno=True), 0
    while (
        libc.syscall(number, BPF_PROG_GET_NEXT_ID, ctypes.byref(words), ctypes.sizeof(words)) == 0
    ):
        words[0] = words[1]
        found += 1
    return found


def _entries(folder: str) -> int:
    with suppress(OSError):
        return sum(1 for _ in Path(folder).iterdir())
    return 0


def _lines(file: str) -> int:
    with suppress(OSError):
        return len(Path(file).read_bytes().splitlines())
    return 2


def _shared_files(pid: int, ours: Path) -> int:
    """Of one host; what else is mounted in such a folder is not in it."""
    found = 0
    for name in SHARED:
        top = f"/proc/{pid}/root/{name}"
        for folder, folders, files in os.walk(top):
            folders[:] = [
                one
                for one in folders
                if Path("/", name, os.path.relpath(f"{folder}/{one}", top)) != ours
                and not os.path.ismount(f"{folder}/{one}")
            ]
            found += len(folders) + len(files)
    return found


def _cgroups(session: str) -> int:
    """By its name: others have groups there, too."""
    if not session:
        return 0
    return sum(session in one for _, folders, _ in os.walk("/sys/fs/cgroup") for one in folders)
