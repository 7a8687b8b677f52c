"""Processes by identity: a PID together with its start time, which no later process shares.

All signals to processes go through this module, so that a reused PID is never hit.
"""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SESSION_VARIABLE = "SWITCHMARK_SESSION"  # in the environment of every program that the bench starts
KILLED_S = 30.0  # a killed process ends after the kernel has freed its memory
_KERNEL_THREAD, _EXITING = 0x00200000, 0x00000004  # flags of processes without an environment
_IN_EXEC_S, _POLL_S = 10.0, 0.0005


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A pid and the start time of its process, in clock ticks after boot."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Return the identity of a live process; None if it has ended or is a zombie."""
        fields = _stat_fields(pid)
        if fields is None or fields[0] in ("Z", "X"):
            return None
        return cls(pid, int(fields[19]))

    def alive(self) -> bool:
        """Return True if this process, and not a later process of its PID, still runs."""
        return ProcessIdentity.of(self.pid) == self


def _stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the third (state); None if the process ended."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the program, before these fields, may contain any bytes.
    return line[line.rindex(b")") + 2 :].decode("ascii").split()


def is_waiting(pid: int) -> bool:
    """Return True if a process waits for an event or has ended.

    A process that waits for a core, or is stopped, does not wait in this sense."""
    fields = _stat_fields(pid)
    return fields is None or fields[0] in ("S", "Z", "X")


def parse_pid(text: str) -> int | None:
    """Return the PID that another program printed; None if the text is not a PID."""
    match = re.fullmatch(r"\s*([1-9][0-9]{0,6})\s*", text)
    return int(match[1]) if match else None


def threads_of(pids: Iterable[int]) -> set[int]:
    """Return all live threads of these processes."""
    threads: set[int] = set()
    for pid in pids:
        with suppress(OSError):
            threads |= {int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()}
    return threads


def resident_kib(pids: Iterable[int]) -> int:
    """Return the resident memory of these processes without hugepages, in KiB; a process that has
    ended has none."""
    return sum(_status_kib(pid, "VmRSS") for pid in pids)


def hugepages_kib(pids: Iterable[int]) -> int:
    """Return the memory of these processes in hugepages (hugetlb), in KiB."""
    return sum(_status_kib(pid, "HugetlbPages") for pid in pids)


def _status_kib(pid: int, field: str) -> int:
    """Return a size of /proc/PID/status; 0 if the process has ended."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        size = re.search(rf"^{field}:\s*(\d+) kB$", status, re.MULTILINE | re.ASCII)
        return int(size[1]) if size else 0
    return 0


def map_kib(descriptor: int) -> int | None:
    """Return the memory that the kernel charges for a BPF map of this process, in KiB; None if the
    kernel does not say."""
    with suppress(OSError):
        text = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
        size = re.search(r"^memlock:\s*(\d+)$", text, re.MULTILINE | re.ASCII)
        return -(-int(size[1]) // 1024) if size else None
    return None


def kernel_tables_kib() -> int:
    """Return the memory of the machine in slabs that cannot be reclaimed, and by vmalloc, in KiB:
    routes and rules of the kernel are there."""
    text = Path("/proc/meminfo").read_text()
    rows = re.findall(r"^(?:SUnreclaim|VmallocUsed):\s*(\d+) kB$", text, re.MULTILINE | re.ASCII)
    return sum(map(int, rows))


_POLICIES = ("other", "fifo", "rr", "batch", "iso", "idle", "deadline", "ext")  # by their numbers


def class_in_words(policy: str, priority: int, nice: int) -> str:
    """Return a scheduling class as text of a record: `other`, `other nice 5`, `fifo 50`."""
    if priority > 0:
        return f"{policy} {priority}"
    return f"{policy} nice {nice}" if nice else policy


def scheduling_classes(pids: Iterable[int]) -> set[str]:
    """Return the different scheduling classes of all threads of these processes."""
    classes = set()
    for thread in threads_of(pids):
        if (fields := _stat_fields(thread)) is not None:
            nice, priority, policy = (int(fields[index]) for index in (16, 37, 38))
            name = _POLICIES[policy] if policy < len(_POLICIES) else f"policy {policy}"
            classes.add(class_in_words(name, priority, nice))
    return classes


def boot_id() -> str:
    """Return the ID of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def pids() -> Iterator[int]:
    """Return all PIDs that exist now."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208


def session_processes(session_id: str) -> list[ProcessIdentity]:
    """Return the live processes, except this one, whose initial environment names this session."""
    assignment = f"{SESSION_VARIABLE}={session_id}".encode()
    processes = []
    deadline = time.monotonic() + _IN_EXEC_S
    for pid in pids():
        if pid == os.getpid():
            continue
        with suppress(OSError):
            environment = Path(f"/proc/{pid}/environ")
            while not (text := environment.read_bytes()) and _in_exec(pid):
                if time.monotonic() > deadline:
                    break
                time.sleep(_POLL_S)
            if assignment in text.split(b"\0") and (identity := ProcessIdentity.of(pid)):
                processes.append(identity)
    return processes


def _in_exec(pid: int) -> bool:
    """Return True if a process is inside execve(2): its new environment does not exist yet."""
    fields = _stat_fields(pid)
    if fields is None or fields[0] in ("Z", "X") or int(fields[6]) & (_KERNEL_THREAD | _EXITING):
        return False
    return len(fields) > 48 and fields[48] == "0"  # the end address of its environment


def end_processes(identities: Iterable[ProcessIdentity], grace_s: float = 2.0) -> list[int]:
    """Send SIGTERM to each process, and SIGKILL to those alive after the grace time.

    Returns the PIDs of the processes that were ended. Raises OSError if one survives SIGKILL."""
    watched: dict[int, ProcessIdentity] = {}
    try:
        for identity in identities:
            with suppress(ProcessLookupError):
                fd = os.pidfd_open(identity.pid)
                watched[fd] = identity
        # The open pidfd prevents that the PID is reused, so the start time can be compared now.
        live = {fd for fd, identity in watched.items() if identity.alive()}
        _signal_all(live, signal.SIGTERM)
        left = _wait_ended(live, grace_s)
        _signal_all(left, signal.SIGKILL)
        stuck = _wait_ended(left, KILLED_S)
        if stuck:
            names = ", ".join(str(watched[fd].pid) for fd in stuck)
            raise OSError(f"process {names} survives SIGKILL")
        return [watched[fd].pid for fd in live]
    finally:
        for fd in watched:
            os.close(fd)


def _signal_all(pidfds: Iterable[int], number: signal.Signals) -> None:
    for fd in pidfds:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, number)


def _wait_ended(pidfds: set[int], timeout_s: float) -> set[int]:
    """Wait until processes end; return the pidfds of those that still run."""
    poller = select.poll()
    for fd in pidfds:
        poller.register(fd, select.POLLIN)
    left = set(pidfds)
    deadline = time.monotonic() + timeout_s
    while left and (remaining_s := deadline - time.monotonic()) > 0:
        for fd, _ in poller.poll(remaining_s * 1000):
            poller.unregister(fd)
            left.discard(fd)
    return left
