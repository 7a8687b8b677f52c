"""What is under way with the agent of another host: questions without an answer yet, and the
output of its processes. All who wait are told at once when the host is lost."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from switchmark.errors import SwitchmarkError, TrialFailed, UnavailableError, UsageError
from switchmark.host.pump import LineQueue, Room
from switchmark.remote.contact import HostLost
from switchmark.testbed.testbed import SshTarget

GREETING = 0  # the number under which the agent says hello
# What waits to be read: minutes of an engine with the shortest samples have less.
MOST_WAITING_BYTES = 256 << 20
MOST_UNASKED = 1000  # processes that are heard of before who started them asks
_KINDS: dict[str, type[SwitchmarkError]] = {
    "UsageError": UsageError,
    "UnavailableError": UnavailableError,
    "SwitchmarkError": SwitchmarkError,
}


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """The agent's answer to a question, and when it was heard (CLOCK_MONOTONIC)."""

    value: Any
    heard_ns: int


@dataclass
class RemoteLines:
    """The output of a process on the other host, and how it ended."""

    lines: LineQueue = field(default_factory=LineQueue)
    ended: threading.Event = field(default_factory=threading.Event)
    code: int | None = None


class Exchange:
    """The questions and processes of one connection. Any thread may use it."""

    def __init__(self, target: SshTarget) -> None:
        self.lost: str | None = "not opened"  # why; None while the host can be asked
        self._target = target
        self._waiting: dict[int, Future[AgentAnswer]] = {}
        self._processes: dict[int, RemoteLines] = {}
        self._unasked: set[int] = set()
        self._room = Room(MOST_WAITING_BYTES)
        self._lock = threading.Lock()
        self._last = GREETING

    def begin(self) -> Future[AgentAnswer]:
        """Begin anew, without the processes of before; returns where the greeting will be."""
        greeting: Future[AgentAnswer] = Future()
        with self._lock:
            self._processes.clear()
            self._unasked.clear()
            self._room = Room(MOST_WAITING_BYTES)
            self._waiting = {GREETING: greeting}
            self.lost = None
        return greeting

    def question(self) -> tuple[int, Future[AgentAnswer]]:
        """Number a new question; returns the number and where its answer will be. Raises
        HostLost."""
        answer: Future[AgentAnswer] = Future()
        with self._lock:
            if self.lost is not None:
                raise HostLost(self.lost)
            self._last += 1
            self._waiting[self._last] = answer
            return self._last, answer

    def process(self, number: int) -> RemoteLines:
        """The output of a process; lines that came before this call are in it, too."""
        with self._lock:
            found = self._lines_of(number)
            self._unasked.discard(number)
            if self.lost is not None:
                _end(found)
            self._let_go(number, found)
            return found

    def take(self, message: dict[str, Any], heard_ns: int) -> None:
        """Take in a message of the agent. Raises KeyError, TypeError or AttributeError for one in
        another form."""
        if "process" in message:
            self._take_output(message)
            return
        error: SwitchmarkError | None = None
        if "error" in message:  # (what is missing is found before anybody is no longer waited for)
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
            waiting.set_result(AgentAnswer(value, heard_ns))

    def _take_output(self, message: dict[str, Any]) -> None:
        number = message["process"]
        with self._lock:
            if self.lost is not None:
                return
            process = self._lines_of(number)
            is_crowded = len(self._unasked) > MOST_UNASKED
        if is_crowded:
            self.lose(f"it tells of more than {MOST_UNASKED} processes that nobody has started")
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
        found = self._processes.get(number)
        if found is None:
            found = self._processes[number] = RemoteLines(LineQueue(room=self._room))
            self._unasked.add(number)
        return found

    def _let_go(self, number: int, process: RemoteLines) -> None:
        """Forget a process that has ended, once who started it has its output."""
        if process.ended.is_set() and number not in self._unasked:
            self._processes.pop(number, None)
            process.lines.leave_room()

    def lose(self, reason: str) -> None:
        """Tell all who wait that the host is lost; only the first reason counts."""
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
