"""One running traffic application, spoken to in the engine protocol (docs/engine-protocol.md).

The bench never parses anything but the JSON lines of that protocol, and every wait here has
a deadline.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.results.record import EngineRun, Interval
from switchmark.testbed.host import Spawned
from switchmark.testbed.last_words import last_line

PROTOCOL_VERSION = 1
EXIT_GRACE_S = 1.0
ANSWER_TIMEOUT_S = 15.0  # only one that hangs needs so long; on a full machine seconds may pass
_LAST_WORDS_S = 1.0
_SURE_TO_RUN_NS = 2_000_000_000
_NOT_COUNTERS = frozenset({"v", "event", "index", "t_ns", "ticks", "duration_ns"})


@dataclass(frozen=True, slots=True)
class ClockPoint:
    """An application's tick counter and its host's CLOCK_MONOTONIC at one moment."""

    ticks: int
    t_ns: int


@dataclass
class EngineProcess:
    """A traffic application in its node. Not thread-safe; owned by one trial."""

    spawned: Spawned
    node: str
    role: str
    pair: int
    args: list[str]
    far: bool = False  # on the other host
    ahead_ns: int = 0  # by so much its host's CLOCK_MONOTONIC is ahead of ours
    ready: dict[str, Any] = field(default_factory=dict)
    intervals: list[Interval] = field(default_factory=list)
    result: dict[str, Any] | None = None
    started_ns: int | None = None
    faults: list[str] = field(default_factory=list)  # of every partial result, in its own words
    clock: ClockPoint | None = None  # when its counters were last read, by its own host's clock
    sender_clock: str | None = None  # its sender's, as the engine is told it, while between hosts
    patience: float = 1.0  # by which answers may take longer (an emulated guest's)

    def wait_ready(self, timeout_s: float) -> None:
        """Wait for the `ready` line; raises `TrialFailed` with the engine's own words."""
        self.ready = self._wait_event("ready", timeout_s)

    def probe(self, count: int, timeout_s: float = ANSWER_TIMEOUT_S) -> int:
        """Send `count` probe frames to the peer; returns how many the port accepted."""
        self.ask(f"probe {count}")
        return self.probed(timeout_s)

    def probed(self, timeout_s: float = ANSWER_TIMEOUT_S) -> int:
        """The answer to a probe that was asked for."""
        return self._number(self._wait_event("probe", timeout_s * self.patience), "sent")

    def probe_broadcast(self, count: int, timeout_s: float = ANSWER_TIMEOUT_S) -> int:
        """The same to everybody."""
        self.ask(f"probe-broadcast {count}")
        return self.probed(timeout_s)

    def counters(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, int]:
        """What has arrived since `ready`, in the idle state."""
        self.ask("counters")
        return self.counted(timeout_s)

    def counted(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, int]:
        """The answer to a question for counters."""
        event = self._wait_event("counters", timeout_s * self.patience)
        if isinstance(event.get("ticks"), int) and isinstance(event.get("t_ns"), int):
            self.clock = ClockPoint(event["ticks"], event["t_ns"])
        return {k: v for k, v in event.items() if isinstance(v, int) and k not in _NOT_COUNTERS}

    @property
    def tick_hz(self) -> float:
        """How fast its tick counter goes."""
        return float(self.ready["tsc_hz"])

    def start(self, **overrides: str | float) -> None:
        """Begin a trial with these overrides of the command line; returns once it runs."""
        self.ask_start(overrides)
        self.wait_started()

    def ask_start(self, overrides: Mapping[str, str | float]) -> None:
        """Tell it to begin a trial; `wait_started` must follow."""
        self.intervals.clear()
        self.result = None
        if isinstance(at := overrides.get("at"), int):
            overrides = {**overrides, "at": at + self.ahead_ns}
        if self.sender_clock and (overrides.get("latency") or overrides.get("probes")):
            overrides = {**overrides, "sender-clock": self.sender_clock}
        words = [f"{key.replace('_', '-')}={value}" for key, value in overrides.items()]
        self.ask(" ".join(["start", *words]))

    def wait_started(self) -> None:
        """Return once the trial that it was told to begin runs."""
        started = self._wait_event("started", ANSWER_TIMEOUT_S * self.patience)
        self.started_ns = self._time(started)

    def request_stop(self, sent: int | None = None) -> None:
        """Ask for the end of the trial; its result follows (see `pump`). A receiver that knows how
        many frames were `sent` to it waits for late ones, and no longer than it has to."""
        self.ask("stop" if sent is None else f"stop sent={sent}")

    def give_up_trial(self, duration_s: float, timeout_s: float) -> None:
        """End the trial of this length that runs. Raises `TrialFailed` when it does not end."""
        ends_ns = (self.started_ns or 0) + round(duration_s * 1e9)
        # One that ends by itself would take the word as the one to exit.
        if ends_ns - time.monotonic_ns() > _SURE_TO_RUN_NS:
            self.request_stop()
        else:
            timeout_s += _SURE_TO_RUN_NS / 1e9
        self.wait_result(timeout_s)

    def pump(self, timeout_s: float) -> bool:
        """Take in what the engine has printed, waiting at most `timeout_s` for the first line;
        returns whether there was any."""
        deadline = time.monotonic() + timeout_s
        seen = False
        while self.result is None:
            try:
                event = self._next_event(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                return seen
            self._take(event)
            seen = True
            deadline = time.monotonic()
        return seen

    def wait_result(self, timeout_s: float) -> dict[str, Any]:
        """The trial's result; raises `TrialFailed` when it does not come in time."""
        timeout_s *= self.patience
        deadline = time.monotonic() + timeout_s
        while self.result is None:
            left = deadline - time.monotonic()
            # What lies in the pipe came in time, however late this process comes to look.
            if not self.pump(max(0.0, left)) and left <= 0:
                raise TrialFailed(self._say(f"gave no result within {timeout_s:.1f} s"))
        return self.result

    def as_run(self) -> EngineRun:
        """What goes into the record."""
        return EngineRun(
            node=self.node,
            role=self.role,
            pair=self.pair,
            args=self.args,
            ready=self.ready,
            intervals=list(self.intervals),
            result=self.result or {},
        )

    def request_exit(self) -> None:
        """Ask the engine to end, without waiting for it."""
        if self.spawned.poll() is None:
            with contextlib.suppress(OSError, SwitchmarkError):
                self.spawned.close_input()

    def close(self) -> None:
        """Ask the engine to end, then make sure that it has. Idempotent."""
        self.request_exit()
        with contextlib.suppress(TimeoutError):
            self.spawned.wait(EXIT_GRACE_S)
        self.spawned.terminate(grace_s=EXIT_GRACE_S)

    def _take(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "interval":
                self.intervals.append(
                    Interval(
                        index=self._number(event, "index"),
                        t_ns=self._time(event),
                        duration_ns=self._number(event, "duration_ns"),
                        counters={
                            key: value
                            for key, value in event.items()
                            if isinstance(value, int) and key not in _NOT_COUNTERS
                        },
                    )
                )
            case "result":
                self.result = event
                if event.get("partial"):
                    what = event.get("fault") or "a fault that it does not name"
                    self.faults.append(f"{self.role} in {self.node}: {what}")
            case _:
                pass

    def ask(self, line: str) -> None:
        """Send a command. An engine that has ended is asked for its last words instead: what
        it printed before says more than the broken pipe."""
        try:
            self.spawned.write_line(line)
        except SwitchmarkError as broken:
            with contextlib.suppress(TimeoutError):
                while True:
                    self._take(self._next_event(_LAST_WORDS_S))
            raise TrialFailed(self._say(str(broken))) from broken

    def _time(self, event: dict[str, Any]) -> int:
        """When it happened, by our clock."""
        return self._number(event, "t_ns") - self.ahead_ns

    def _number(self, event: dict[str, Any], key: str) -> int:
        value = event.get(key)
        if not isinstance(value, int):
            raise TrialFailed(self._say(f"printed a '{event['event']}' event without {key}"))
        return value

    def _wait_event(self, name: str, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                event = self._next_event(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise TrialFailed(
                    self._say(f"gave no '{name}' event within {timeout_s:.1f} s")
                ) from None
            if event["event"] == name:
                return event
            self._take(event)

    def _next_event(self, timeout_s: float) -> dict[str, Any]:
        line = self.spawned.read_line(timeout_s)
        if line is None:
            code = self.spawned.terminate(grace_s=0.5)
            raise TrialFailed(self._say(f"ended with exit code {code}"))
        try:
            event: dict[str, Any] = json.loads(line, parse_constant=_refuse)
            version, name = event["v"], event["event"]
        except (ValueError, KeyError, TypeError):
            raise TrialFailed(self._say(f"printed a line that is no event: {line[:200]}")) from None
        if version != PROTOCOL_VERSION:
            raise TrialFailed(
                self._say(
                    f"speaks protocol {version}, the bench {PROTOCOL_VERSION}: install both "
                    "from the same checkout"
                )
            )
        if name == "error":
            raise TrialFailed(self._say(str(event.get("message", ""))))
        return event

    def _say(self, what: str) -> str:
        last = last_line(self.spawned.stderr_tail())
        return f"{self.role} in {self.node} {what}" + (f": {last}" if last else "")


def probe_all(engines: Sequence[EngineProcess], count: int) -> int:
    """Have all of them send probes side by side; returns how many their ports accepted."""
    for engine in engines:
        engine.ask(f"probe {count}")
    return sum(engine.probed() for engine in engines)


def counters_of(engines: Sequence[EngineProcess]) -> list[dict[str, int]]:
    """What has arrived at each, asked of all before the first answer is waited for."""
    for engine in engines:
        engine.ask("counters")
    return [engine.counted() for engine in engines]


def start_all(
    engines: Sequence[EngineProcess], overrides: Sequence[Mapping[str, str | float]]
) -> None:
    """Have all of them begin a trial, each with its overrides; returns once every one runs.

    All are told before the first answer is waited for: of many that were started one after the
    other, the first would end before the last begins."""
    for engine, own in zip(engines, overrides, strict=True):
        engine.ask_start(own)
    for engine in engines:
        engine.wait_started()


def close_engines(engines: Sequence[EngineProcess]) -> None:
    """End all of them; they end side by side, which matters when they are many. One that will
    not end does not keep the others; its error is raised last."""
    for engine in engines:
        engine.request_exit()
    with contextlib.ExitStack() as each:
        for engine in reversed(engines):
            each.callback(engine.close)


def _refuse(constant: str) -> None:
    """NaN and infinity are not JSON, and no measurement."""
    raise ValueError(constant)
