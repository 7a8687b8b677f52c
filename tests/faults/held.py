"""Resources that a running bench holds on the machine: its own, those of its agents and engines,
and of the kernel. A private host of a bench is seen through its processes."""

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
# The next trial may have made its own by then, so the lowest values are compared.
COUNTS = (
    "threads", "descriptors", "files in the state folder", "files in shared folders", "namespaces",
    "devices", "cgroups", "mounts", "unix sockets", "BPF programs in the kernel",
)  # fmt: skip


def held_resources(job: Job, own_folder: Path) -> dict[str, float]:
    """Return the numbers by kind. `own_folder` is the folder of the caller."""
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
        "files in shared folders": float(sum(_shared_files(pid, own_folder) for pid in places)),
        "namespaces": float(sum(_entries(f"/proc/{pid}/root/run/netns") for pid in places)),
        "devices": float(sum(_lines(f"/proc/{pid}/net/dev") - 2 for pid in places)),
        "cgroups": float(_cgroups(job.session)),
        "mounts": float(sum(_lines(f"/proc/{pid}/mountinfo") for pid in places)),
        "unix sockets": float(sum(_lines(f"/proc/{pid}/net/unix") for pid in places)),
        "BPF programs in the kernel": float(bpf_programs()),
        SPENT: process_cpu_s(bench),
    }


def far_programs(job: Job) -> list[int]:
    """Return the agents: programs of the bench on the other host except engines."""
    if not job.hosts:
        return []
    engines = set(job.engines())
    return [pid for pid in job.hosts.right.programs() if pid not in engines]


def memory_mb(pids: Iterable[int]) -> float:
    """Return the resident memory of all of them."""
    pages = 0
    for pid in pids:
        with suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def bpf_programs() -> int:
    """Return the number of the kernel's BPF programs, which have no namespace; 0 if unknown."""
    number = BPF_CALL.get(platform.machine())
    if number is None:
        return 0
    ids = (ctypes.c_uint32 * 3)()  # start, next, flags
    libc, found = ctypes.CDLL(None, use_errno=True), 0
    while libc.syscall(number, BPF_PROG_GET_NEXT_ID, ctypes.byref(ids), ctypes.sizeof(ids)) == 0:
        ids[0] = ids[1]
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


def _shared_files(pid: int, own_folder: Path) -> int:
    """Return the number of files in shared folders of a host, without other mounts in them."""
    found = 0
    for name in SHARED:
        top = f"/proc/{pid}/root/{name}"
        for folder, folders, files in os.walk(top):
            folders[:] = [
                one
                for one in folders
                if Path("/", name, os.path.relpath(f"{folder}/{one}", top)) != own_folder
                and not os.path.ismount(f"{folder}/{one}")
            ]
            found += len(folders) + len(files)
    return found


def _cgroups(session: str) -> int:
    """Return the number of groups by the session's name, as other programs have groups there."""
    if not session:
        return 0
    return sum(session in one for _, folders, _ in os.walk("/sys/fs/cgroup") for one in folders)
