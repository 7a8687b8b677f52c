"""One running traffic application, controlled by the engine protocol (docs/engine-protocol.md).

The bench never parses anything but the JSON lines of that protocol, and every wait here has a
deadline.
"""

from __future__ import annotations

import contextlib
import math
import struct
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, get_args

from switchmark.engine.deadline import Deadline
from switchmark.engine.doubts import contradictions_of, uncertain_losses_of
from switchmark.engine.events import (
    Captured,
    Capturing,
    EngineCounters,
    Event,
    Failed,
    Injected,
    IntervalEvent,
    Ready,
    Result,
    Started,
    TableKind,
    TableLoaded,
    TcpInterval,
    TcpResult,
    TcpTotals,
    Totals,
    VerificationSent,
    parse,
)
from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.host.host import Spawned
from switchmark.host.process_output import last_line
from switchmark.model.campaign import SHORTEST_SAMPLE_S
from switchmark.record import EngineRun, Interval

EXIT_GRACE_S = 1.0
PUMP_S = 1.0  # longest time to read one engine, since the bench has several
SPARE_INTERVALS = 10_000  # beyond those that there was time for: clocks differ
ANSWER_TIMEOUT_S = 15.0  # only one that hangs needs so long; on a full machine seconds may pass
_LAST_WORDS_S = 1.0

COMMAND_CHARACTERS = 65_000  # the engine accepts 65,534

E = TypeVar("E", Ready, VerificationSent, EngineCounters, Injected, Capturing, TableLoaded, Started)


@dataclass
class EngineProcess:
    """A traffic application in its node. Not thread-safe; owned by one trial."""

    spawned: Spawned
    node: str
    role: str
    pair: int
    args: list[str]
    far: bool = False  # on the other host
    ahead_ns: int = 0  # CLOCK_MONOTONIC of its host minus that of this host
    in_guest: bool = False  # in a virtual machine; the CPU time of its process includes it
    cores: tuple[int, ...] = ()  # where it may run; empty: anywhere
    intervals: list[IntervalEvent] = field(default_factory=list)  # by our clock
    tcp_intervals: list[TcpInterval] = field(default_factory=list)  # only TCP roles; by our clock
    started_ns: int = 0  # by our clock; 0: no trial has begun
    faults: list[str] = field(
        default_factory=list
    )  # reasons of partial results, as the engine printed them
    contradictions: list[str] = field(default_factory=list)  # between counters of a result
    uncertain_losses: list[str] = field(default_factory=list)  # losses between two bounds
    sender_clock: str | None = None  # clock of its sender on another host, for the engine
    patience: float = 1.0  # by which answers may take longer (an emulated guest's)
    _ready: Ready | None = None
    _trial_hz: float = 0.0
    _result: Result | None = None
    _tcp_result: TcpResult | None = None
    _asked_s: float = field(default_factory=time.monotonic)  # for its last trial
    denied_sent: int = 0  # frames of the denied stream, in all trials
    _captured: list[Captured] = field(default_factory=list)
    _to_capture: int = 0

    @property
    def page_size_kib(self) -> int | None:
        """The page size of its DPDK memory; None if it has none, or is not ready."""
        return self._ready.page_size_kib if self._ready else None

    @property
    def ready(self) -> Ready:
        """Its `ready` event."""
        if self._ready is None:
            raise TrialFailed(self._describe("is not ready"))
        return self._ready

    @property
    def result(self) -> Result:
        """The result of its last trial, which must have ended."""
        if self._result is None:
            raise TrialFailed(self._describe("has no result"))
        return self._result

    @property
    def tcp_result(self) -> TcpResult:
        """The result of the last trial of a TCP role, which must have ended."""
        if self._tcp_result is None:
            raise TrialFailed(self._describe("has no result"))
        return self._tcp_result

    @property
    def has_tcp_result(self) -> bool:
        """Return True if the last trial of a TCP role has ended."""
        return self._tcp_result is not None

    @property
    def has_result(self) -> bool:
        """Return True if the last trial that it began has ended."""
        return self._result is not None or self._tcp_result is not None

    def wait_ready(self, timeout_s: float) -> None:
        """Wait for the `ready` line. Raises `TrialFailed` with the engine's message."""
        self._ready = self._wait_event(Ready, timeout_s)

    def verify(self, count: int, timeout_s: float = ANSWER_TIMEOUT_S) -> int:
        """Send `count` verification frames to the peer; returns how many the port accepted."""
        self.ask(f"verify {count}")
        return self.verification_sent(timeout_s)

    def verification_sent(self, timeout_s: float = ANSWER_TIMEOUT_S) -> int:
        """Wait for the answer to `verify`: how many frames the port accepted."""
        return self._wait_event(VerificationSent, timeout_s * self.patience).sent

    def verify_broadcast(self, count: int) -> int:
        """Send verification frames to the broadcast address."""
        self.ask(f"verify-broadcast {count}")
        return self.verification_sent()

    def counters(self, timeout_s: float = ANSWER_TIMEOUT_S) -> EngineCounters:
        """Ask for the frames that have arrived since `ready`, in the idle state; times are its own
        host's."""
        self.ask("counters")
        return self.counted(timeout_s)

    def counted(self, timeout_s: float = ANSWER_TIMEOUT_S) -> EngineCounters:
        """Wait for the answer to `counters`."""
        return self._wait_event(EngineCounters, timeout_s * self.patience)

    def inject(self, frames: Sequence[bytes], port: int = 0) -> tuple[bool, ...]:
        """Send these frames, each from its destination address on and without FCS, by one port of
        the idle engine. Return for each frame whether the port accepted it."""
        accepted: list[bool] = []
        for parts in _lines_of(frames):
            self.ask(f"inject port={port} {parts}")
            event = self._wait_event(Injected, ANSWER_TIMEOUT_S * self.patience)
            accepted += event.accepted
        if len(accepted) != len(frames):
            raise TrialFailed(
                self._describe(f"answered for {len(accepted)} of {len(frames)} frames")
            )
        return tuple(accepted)

    def capture(self, count: int) -> None:
        """Capture the next `count` frames of any kind that arrive at any port of the idle engine,
        from the return of this method on."""
        self.ask(f"capture {count}")
        self._to_capture = count
        self._wait_event(Capturing, ANSWER_TIMEOUT_S * self.patience)
        self._captured.clear()

    def captured(
        self, timeout_s: float, enough: Callable[[Sequence[Captured]], bool] | None = None
    ) -> tuple[Captured, ...]:
        """Return the frames that arrived since `capture`, in order, and end the capture. Wait until
        all frames have arrived, until `enough` is true of them, or at most `timeout_s`."""
        deadline = Deadline(timeout_s)
        while len(self._captured) < self._to_capture and not (enough and enough(self._captured)):
            try:
                self._take(self._next_event(deadline.left_s))
            except TimeoutError:
                break
        if len(self._captured) < self._to_capture:
            self.ask("capture 0")
            self._wait_event(Capturing, ANSWER_TIMEOUT_S * self.patience)
        frames = tuple(self._captured)
        self._captured.clear()
        self._to_capture = 0
        return frames

    def send_table(
        self,
        rows: bytes,
        count: int,
        kind: TableKind = "table",
        *,
        zipf: float | None = None,
        seed: int = 1,
    ) -> None:
        """Replace a table of the idle engine by these rows, `count` in number and as `table_row`
        packs them. Flows are sent in turn, or by Zipf's law. No rows remove the table."""
        popularity = f" zipf={zipf:g} seed={seed}" if zipf is not None else ""
        self.ask(f"{kind} rows={count}{popularity}")
        loaded = self._wait_event(TableLoaded, ANSWER_TIMEOUT_S * self.patience).loaded
        row_bytes = len(rows) // count if count else 1
        step = COMMAND_CHARACTERS // 4 * 3 // row_bytes * row_bytes
        for at in range(0, len(rows), step):
            self.ask(f"{kind} {b64encode(rows[at : at + step]).decode()}")
            loaded = self._wait_event(TableLoaded, ANSWER_TIMEOUT_S * self.patience).loaded
        if loaded != count:
            raise TrialFailed(self._describe(f"loaded {loaded} of {count} rows of its {kind}"))

    @property
    def tick_hz(self) -> float:
        """The frequency of its tick counter, in Hz."""
        return self.ready.tsc_hz

    @property
    def trial_hz(self) -> float:
        """The same, as its last trial went by it: more exact."""
        return self._trial_hz or self.tick_hz

    def start(self, **overrides: str | float) -> None:
        """Begin a trial with these overrides of the command line; returns once it runs."""
        self.ask_start(overrides)
        self.wait_started()

    def ask_start(self, overrides: Mapping[str, str | float]) -> None:
        """Tell it to begin a trial; `wait_started` must follow."""
        self.intervals.clear()
        self.tcp_intervals.clear()
        self._result = self._tcp_result = None
        self._asked_s = time.monotonic()
        if isinstance(at := overrides.get("at"), int):
            overrides = {**overrides, "at": at + self.ahead_ns}
        if self.sender_clock and (overrides.get("latency") or overrides.get("probes")):
            overrides = {**overrides, "sender-clock": self.sender_clock}
        parts = [f"{key.replace('_', '-')}={value}" for key, value in overrides.items()]
        self.ask(" ".join(["start", *parts]))

    def wait_started(self) -> None:
        """Return once the requested trial runs."""
        started = self._wait_event(Started, ANSWER_TIMEOUT_S * self.patience)
        self.started_ns = started.t_ns - self.ahead_ns
        self._trial_hz = started.tsc_hz

    def request_stop(self, sent: int | None = None) -> None:
        """Ask for the end of the trial; its result follows (see `pump`). A receiver that knows how
        many frames were `sent` to it waits for late ones, and no longer than it has to."""
        self.ask("stop" if sent is None else f"stop sent={sent}")

    def give_up_trial(self, timeout_s: float) -> None:
        """End the trial that runs, unless it has ended by itself. Raises `TrialFailed` if it does
        not end."""
        self.request_stop()
        self._wait_end(timeout_s)

    def pump(self, timeout_s: float) -> bool:
        """Process the engine's output, waiting at most `timeout_s` for the first line; return True
        if there was a line. After `PUMP_S` the rest of the output is left for the next call."""
        deadline, until = time.monotonic() + timeout_s, math.inf
        has_line = False
        while not self.has_result and time.monotonic() < until:
            try:
                event = self._next_event(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                return has_line
            self._take(event)
            if not has_line:
                has_line, deadline = True, time.monotonic()
                until = deadline + PUMP_S
        return has_line

    def wait_result(self, timeout_s: float) -> Result:
        """Wait for the trial's result. Raises `TrialFailed` when it does not come in time."""
        self._wait_end(timeout_s)
        return self.result

    def wait_tcp_result(self, timeout_s: float) -> TcpResult:
        """Do the same for a TCP role."""
        self._wait_end(timeout_s)
        return self.tcp_result

    def _wait_end(self, timeout_s: float) -> None:
        timeout_s *= self.patience
        deadline = Deadline(timeout_s)
        while not self.has_result:
            left_s = deadline.left_s
            is_silent = not self.pump(left_s) and left_s == 0
            if not self.has_result and (is_silent or deadline.is_exhausted()):
                raise TrialFailed(self._describe(f"gave no result within {timeout_s:.1f} s"))

    def as_run(self) -> EngineRun:
        """The record's account of it."""
        ended = self._result or self._tcp_result
        return EngineRun(
            node=self.node,
            role=self.role,
            pair=self.pair,
            args=self.args,
            ready=self._ready.as_printed() if self._ready else {},
            intervals=[_as_recorded(one) for one in self.intervals or self.tcp_intervals],
            result=ended.as_printed() if ended else {},
        )

    def request_exit(self) -> None:
        """Ask the engine to end, without waiting for it."""
        if self.spawned.poll() is None:
            with contextlib.suppress(OSError, SwitchmarkError):
                self.spawned.close_input()

    def process_ids(self) -> list[int]:
        """Return its process while it runs."""
        return [self.spawned.pid] if self.spawned.poll() is None else []

    def close(self) -> None:
        """Ask the engine to end, then make sure that it has. Idempotent."""
        self.request_exit()
        with contextlib.suppress(TimeoutError):
            self.spawned.wait(EXIT_GRACE_S)
        self.spawned.terminate(grace_s=EXIT_GRACE_S)

    def _take(self, event: Event) -> None:
        match event:
            case IntervalEvent():
                self._check_pace()
                if self.ahead_ns:
                    event = event.model_copy(update={"t_ns": event.t_ns - self.ahead_ns})
                self.intervals.append(event)
            case TcpInterval():
                self._check_pace()
                if self.ahead_ns:
                    event = event.model_copy(update={"t_ns": event.t_ns - self.ahead_ns})
                self.tcp_intervals.append(event)
            case TcpResult():
                self._tcp_result = event
            case Result():
                self._result = event
                self.denied_sent += event.totals.tx_denied
                if event.partial:
                    fault = event.fault or "an unnamed fault"
                    self.faults.append(f"{self.role} in {self.node}: {fault}")
                who = f"{self.role} in {self.node}"
                self.contradictions += [f"{who}: {one}" for one in contradictions_of(event)]
                self.uncertain_losses += [f"{who}: {one}" for one in uncertain_losses_of(event)]
            case Captured():
                self._captured.append(event)
                if len(self._captured) > self._to_capture:
                    raise TrialFailed(self._describe("printed more captured frames than it may"))
            case _:
                pass

    def _check_pace(self) -> None:
        """Raise `TrialFailed` for more intervals than an engine can have ended by now."""
        since_s = time.monotonic() - self._asked_s
        printed = len(self.intervals) + len(self.tcp_intervals)
        if printed > SPARE_INTERVALS + since_s / SHORTEST_SAMPLE_S:
            raise TrialFailed(self._describe(f"printed {printed} intervals, too many"))

    def ask(self, line: str) -> None:
        """Send a command. If the engine has ended, the error has the end of its standard error."""
        try:
            self.spawned.write_line(line)
        except SwitchmarkError as broken:
            deadline = Deadline(_LAST_WORDS_S)
            with contextlib.suppress(TimeoutError):
                while not deadline.is_exhausted():
                    self._take(self._next_event(_LAST_WORDS_S))
            raise TrialFailed(self._describe(str(broken))) from broken

    def _wait_event(self, kind: type[E], timeout_s: float) -> E:
        deadline = Deadline(timeout_s)
        while not deadline.is_exhausted():
            try:
                event = self._next_event(deadline.left_s)
            except TimeoutError:
                break
            if isinstance(event, kind):
                return event
            self._take(event)
        name = get_args(kind.model_fields["event"].annotation)[0]
        raise TrialFailed(self._describe(f"gave no '{name}' event within {timeout_s:.1f} s"))

    def _next_event(self, timeout_s: float) -> Event:
        line = self.spawned.read_line(timeout_s)
        if line is None:
            code = self.spawned.terminate(grace_s=0.5)
            raise TrialFailed(self._describe(f"ended with exit code {code}"))
        try:
            event = parse(line)
        except ValueError as error:
            raise TrialFailed(self._describe(str(error))) from None
        if isinstance(event, Failed):
            raise TrialFailed(self._describe(event.message))
        return event

    def _describe(self, problem: str) -> str:
        last = last_line(self.spawned.stderr_tail())
        adds = bool(last) and problem not in last  # a message is also in standard error
        return f"{self.role} in {self.node} {problem}" + (f": {last}" if adds else "")


def table_row(
    source: bytes,
    destination: bytes,
    ports: tuple[int, int],
    next_hop: int = 0,
    tunnel: int = 0,
) -> bytes:
    """Pack a row of a table: addresses of 4 or 16 bytes, source and destination UDP port, index of
    the next hop in `--next-hops`, index of the tunnel."""
    assert len(source) == len(destination) and len(source) in (4, 16), "two addresses of one kind"
    return source + destination + struct.pack("!4H", *ports, next_hop, tunnel)


def tunnel_row(
    vni: int, source: bytes, destination: bytes, destination_mac: str, source_mac: str
) -> bytes:
    """Pack a row of the table of tunnels: VNI, outer IPv4 addresses, and the MAC addresses of inner
    frames."""
    assert len(source) == len(destination) == 4, "VXLAN over IPv4"
    macs = bytes.fromhex(f"{destination_mac}{source_mac}".replace(":", ""))
    return struct.pack("!I", vni) + source + destination + macs


def _lines_of(frames: Sequence[bytes]) -> Iterator[str]:
    """Yield the frames in hex, as many to a line as fit a command."""
    parts: list[str] = []
    length = 0
    for frame in frames:
        if parts and length + 2 * len(frame) + 1 > COMMAND_CHARACTERS - len("inject port=99 "):
            yield " ".join(parts)
            parts, length = [], 0
        parts.append(frame.hex())
        length += 2 * len(frame) + 1
    if parts:
        yield " ".join(parts)


def verify_all(engines: Sequence[EngineProcess], count: int) -> int:
    """Have all of them send verification frames side by side; returns how many their ports
    accepted."""
    for engine in engines:
        engine.ask(f"verify {count}")
    return sum(engine.verification_sent() for engine in engines)


def counters_of(engines: Sequence[EngineProcess]) -> list[EngineCounters]:
    """The frames that have arrived at each; all are asked before the first answer is waited for."""
    for engine in engines:
        engine.ask("counters")
    return [engine.counted() for engine in engines]


def start_all(
    engines: Sequence[EngineProcess], overrides: Sequence[Mapping[str, str | float]]
) -> None:
    """Start a trial on all engines, each with its overrides; return when all run.

    All commands are sent before the first answer is awaited. If many engines started one after the
    other, the first would end before the last begins."""
    for engine, engine_overrides in zip(engines, overrides, strict=True):
        engine.ask_start(engine_overrides)
    for engine in engines:
        engine.wait_started()


def close_engines(engines: Sequence[EngineProcess]) -> None:
    """End all of them side by side, which matters when they are many. One that does not end does
    not keep the others; its error is raised last."""
    for engine in engines:
        engine.request_exit()
    with contextlib.ExitStack() as each:
        for engine in reversed(engines):
            each.callback(engine.close)


def _as_recorded(event: IntervalEvent | TcpInterval) -> Interval:
    totals = Totals if isinstance(event, IntervalEvent) else TcpTotals
    counters = {name: getattr(event, name) for name in totals.model_fields}
    return Interval(
        index=event.index, t_ns=event.t_ns, duration_ns=event.duration_ns, counters=counters
    )
