"""Processes by identity: a pid together with its start time, which no later process shares.

Everything that signals a process goes through here, so that a recycled pid is never hit.
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

SESSION_VARIABLE = "SWITCHMARK_SESSION"  # in the environment of everything that we start
KILLED_S = 30.0  # the kernel takes back memory before a process is gone; on a full machine, late
_KERNEL_THREAD, _EXITING = 0x00200000, 0x00000004  # flags of a process, which have no environment
_IN_EXEC_S, _POLL_S = 10.0, 0.0005


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A pid and the start time of its process, in clock ticks after boot."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """The identity of a live process (zombies count as gone); None when there is none."""
        fields = _stat_fields(pid)
        if fields is None or fields[0] in ("Z", "X"):
            return None
        return cls(pid, int(fields[19]))

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return ProcessIdentity.of(self.pid) == self


def _stat_fields(pid: int) -> list[str] | None:
    """/proc/PID/stat from the third field (state) on; None when the process is gone."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name before it may hold any bytes, of no encoding.
    return line[line.rindex(b")") + 2 :].decode("ascii").split()


def is_waiting(pid: int) -> bool:
    """Whether a process has nothing to do: one that has no core, or is stopped, has. One that is
    gone has nothing, either."""
    fields = _stat_fields(pid)
    return fields is None or fields[0] in ("S", "Z", "X")


def told_pid(text: str) -> int | None:
    """The process id that another program prints; None where it is none."""
    found = re.fullmatch(r"\s*([1-9][0-9]{0,6})\s*", text)  # (`int` knows fewer spaces)
    return int(found[1]) if found else None


def threads_of(pids: Iterable[int]) -> set[int]:
    """All living threads of these processes."""
    found: set[int] = set()
    for pid in pids:
        with suppress(OSError):
            found |= {int(one.name) for one in Path(f"/proc/{pid}/task").iterdir()}
    return found


_POLICIES = ("other", "fifo", "rr", "batch", "iso", "idle", "deadline", "ext")  # Linux's numbers


def class_in_words(policy: str, priority: int, nice: int) -> str:
    """A scheduling class as records have it: `other`, `other nice 5`, `fifo 50`."""
    if priority > 0:
        return f"{policy} {priority}"
    return f"{policy} nice {nice}" if nice else policy


def scheduling_classes(pids: Iterable[int]) -> set[str]:
    """The different scheduling classes of all threads of these processes."""
    found = set()
    for thread in threads_of(pids):
        if (fields := _stat_fields(thread)) is not None:
            nice, priority, policy = (int(fields[index]) for index in (16, 37, 38))
            name = _POLICIES[policy] if policy < len(_POLICIES) else f"policy {policy}"
            found.add(class_in_words(name, priority, nice))
    return found


def boot_id() -> str:
    """The id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def pids() -> Iterator[int]:
    """All process ids on the machine now."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208


def marked(session_id: str) -> list[ProcessIdentity]:
    """Living processes whose environment at exec names this session (not this process)."""
    mark = f"{SESSION_VARIABLE}={session_id}".encode()
    found = []
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
            if mark in text.split(b"\0") and (identity := ProcessIdentity.of(pid)) is not None:
                found.append(identity)
    return found


def _in_exec(pid: int) -> bool:
    """Whether a process is just becoming another program, whose environment is not there yet."""
    fields = _stat_fields(pid)
    if fields is None or fields[0] in ("Z", "X") or int(fields[6]) & (_KERNEL_THREAD | _EXITING):
        return False
    return len(fields) > 48 and fields[48] == "0"  # where its environment ends


def end_processes(identities: Iterable[ProcessIdentity], grace_s: float = 2.0) -> list[int]:
    """Send SIGTERM to each, and SIGKILL to those alive after the grace; returns the pids that
    survived."""
    watched: dict[int, ProcessIdentity] = {}
    try:
        for identity in identities:
            with suppress(ProcessLookupError):
                fd = os.pidfd_open(identity.pid)
                watched[fd] = identity
        # The pidfd pins the process; only now does a match of the start time prove anything.
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
    """Wait for processes to end; returns the pidfds of those that have not."""
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
