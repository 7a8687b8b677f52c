"""Pending requests to the agent of another host, and the output of its processes. When the host is
lost, each waiting caller gets HostLost at once."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from switchmark.errors import SwitchmarkError, TrialFailed, UnavailableError, UsageError
from switchmark.host.pump import LineQueue, Room
from switchmark.remote.contact import HostLost
from switchmark.testbed.testbed import Target

GREETING = 0  # the number of the agent's greeting
# Unread output. An engine with the shortest samples writes less than this in minutes.
MOST_WAITING_BYTES = 256 << 20
MOST_UNCLAIMED = 1000  # processes with output before `process` was called for them
_KINDS: dict[str, type[SwitchmarkError]] = {
    "UsageError": UsageError,
    "UnavailableError": UnavailableError,
    "SwitchmarkError": SwitchmarkError,
}


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """The agent's answer to a request, and the time of its arrival (CLOCK_MONOTONIC)."""

    value: Any
    received_ns: int


@dataclass
class RemoteLines:
    """The output of a process on the other host, and its exit code."""

    lines: LineQueue = field(default_factory=LineQueue)
    ended: threading.Event = field(default_factory=threading.Event)
    code: int | None = None


class Exchange:
    """The requests and processes of one connection. It is thread-safe."""

    def __init__(self, target: Target) -> None:
        self.lost: str | None = "not opened"  # the reason; None while the host can be reached
        self._target = target
        self._waiting: dict[int, Future[AgentAnswer]] = {}
        self._processes: dict[int, RemoteLines] = {}
        self._unclaimed: set[int] = set()
        self._room = Room(MOST_WAITING_BYTES)
        self._lock = threading.Lock()
        self._last = GREETING

    def begin(self) -> Future[AgentAnswer]:
        """Reset for a new connection; return the future of the agent's greeting."""
        greeting: Future[AgentAnswer] = Future()
        with self._lock:
            self._processes.clear()
            self._unclaimed.clear()
            self._room = Room(MOST_WAITING_BYTES)
            self._waiting = {GREETING: greeting}
            self.lost = None
        return greeting

    def question(self) -> tuple[int, Future[AgentAnswer]]:
        """Register a new request; return its number and the future of its answer. Raises
        HostLost."""
        answer: Future[AgentAnswer] = Future()
        with self._lock:
            if self.lost is not None:
                raise HostLost(self.lost)
            self._last += 1
            self._waiting[self._last] = answer
            return self._last, answer

    def process(self, number: int) -> RemoteLines:
        """The output of a process, with the lines that came before this call."""
        with self._lock:
            lines = self._lines_of(number)
            self._unclaimed.discard(number)
            if self.lost is not None:
                _end(lines)
            self._let_go(number, lines)
            return lines

    def take(self, message: dict[str, Any], received_ns: int) -> None:
        """Accept a message of the agent. Raises KeyError, TypeError or AttributeError if it is
        malformed."""
        if "process" in message:
            self._take_output(message)
            return
        error: SwitchmarkError | None = None
        # Read every key before the waiter is removed: a malformed message must not lose it.
        if "error" in message:
            kind = _KINDS.get(message["kind"], TrialFailed)
            error = kind(f"{self._target}: {message['error']}")
        value = None if error else message["ok"]
        with self._lock:
            waiting = self._waiting.pop(message["id"], None)
        if waiting is None:
            return
        if error is not None:
            waiting.set_exception(error)
        else:
            waiting.set_result(AgentAnswer(value, received_ns))

    def _take_output(self, message: dict[str, Any]) -> None:
        number = message["process"]
        with self._lock:
            if self.lost is not None:
                return
            process = self._lines_of(number)
            is_crowded = len(self._unclaimed) > MOST_UNCLAIMED
        if is_crowded:
            self.lose(f"it reports more than {MOST_UNCLAIMED} processes that were not started")
        elif "line" in message:
            process.lines.take(message["line"].encode() + b"\n")
            if self._room.is_overfull:
                self.lose(
                    f"{MOST_WAITING_BYTES >> 20} MiB of its processes' output wait to be read"
                )
        else:
            process.code = message["ended"]
            _end(process)
            with self._lock:
                self._let_go(number, process)

    def _lines_of(self, number: int) -> RemoteLines:
        lines = self._processes.get(number)
        if lines is None:
            lines = self._processes[number] = RemoteLines(LineQueue(room=self._room))
            self._unclaimed.add(number)
        return lines

    def _let_go(self, number: int, process: RemoteLines) -> None:
        """Forget a process that has ended and whose output a caller has."""
        if process.ended.is_set() and number not in self._unclaimed:
            self._processes.pop(number, None)
            process.lines.leave_room()

    def lose(self, reason: str) -> None:
        """Raise HostLost in all waiting callers; only the first reason counts."""
        with self._lock:
            if self.lost is not None:
                return
            self.lost = f"{self._target}: connection lost: {reason}"
            waiting, self._waiting = self._waiting, {}
            processes = list(self._processes.values())
        for future in waiting.values():
            if not future.done():
                future.set_exception(HostLost(self.lost))
        for process in processes:
            _end(process)


def _end(process: RemoteLines) -> None:
    if not process.ended.is_set():
        process.lines.take(b"")
        process.ended.set()
