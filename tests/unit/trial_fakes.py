"""Substitutes for the parts of a trial: an engine that speaks the protocol from a script, and a
switch and an environment that only keep a log. They take no time and do not touch the machine."""

from __future__ import annotations

import json
import statistics
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from switchmark.engine.arguments import io_of
from switchmark.engine.events import EngineCounters
from switchmark.engine.process import EngineProcess
from switchmark.environment.support.base import Traits
from switchmark.errors import SwitchmarkError, TrialFailed, UnavailableError
from switchmark.host.facts import gather
from switchmark.host.host import Session
from switchmark.model.campaign import TrimPolicy, VerifyPolicy
from switchmark.model.capabilities import Availability, Capabilities, available
from switchmark.model.choices import Dimension
from switchmark.model.node import NodeSpec
from switchmark.model.ports import ConnectMode, PortCounters, PortKind, SwitchCounters
from switchmark.model.trial import Trial
from switchmark.record import Placement
from switchmark.remote.site import FarSide
from switchmark.scenario.registry import expand
from switchmark.statistics.histogram import Histogram
from switchmark.testbed.testbed import Cable
from switchmark.trial.plan import TrialPlan
from tests.unit.engine_lines import event

S = 1_000_000_000  # ns
# Start of every scripted trial by CLOCK_MONOTONIC: in the past, however recently the machine
# booted.
T0 = S
CPU = {"wall_ns": 2 * S, "cpu_ns": S}
CAN = Capabilities((PortKind.VETH,), (ConnectMode.LEARNING,), polling=False, in_kernel=True)


class FakeHost:
    """A host on which every cache line takes 30 ns."""

    name = "fake"

    def spawn(self, args: Sequence[str], **_: Any) -> FakeEngine:
        answer = json.dumps({"v": 2, "lines_ns": [30.0], "steps_ns": [0.3, 0.3]})
        return FakeEngine(answers={"line": lambda _: [answer]}, lines=deque([answer]))


SESSION = Session("abc123", FakeHost(), None, Path("/nonexistent"))  # type: ignore[arg-type]


def interval(index: int, end_s: float, duration_s: float = 0.2, **counters: int) -> str:
    """Return a sample that ends `end_s` after the start of the trial."""
    times = {"t_ns": T0 + round(end_s * S), "duration_ns": round(duration_s * S)}
    return event("interval", index=index, **times, **counters)


def samples(count: int, duration_s: float = 0.2, **counters: int) -> list[str]:
    """Return samples of one length, one after the other from the start."""
    return [interval(k, (k + 1) * duration_s, duration_s, **counters) for k in range(count)]


def result(duration_s: float = 2.0, totals: dict[str, int] | None = None, **more: Any) -> str:
    return event(
        "result",
        reason="duration",
        duration_ns=round(duration_s * S),
        totals=totals or {},
        **({"cpu": CPU, "pacing": None} | more),
    )


def latency_of(values_ns: dict[int, int], late_ns: int = 0) -> dict[str, Any]:
    """Return the `latency` part of a result from the number of each round-trip time."""
    late = {value + late_ns: times for value, times in values_ns.items()}
    return {
        "kind": "rtt",
        **_figures(values_ns),
        "intended": _figures(late),
        "from_actual": Histogram.of(values_ns),
        "from_intended": Histogram.of(late),
        "pdv": {"above": Histogram.of(values_ns)},
    }


def _figures(values_ns: dict[int, int]) -> dict[str, float]:
    each = [value for value, times in values_ns.items() for _ in range(times)]
    return {
        "count": len(each),
        "min_ns": min(each, default=0),
        "max_ns": max(each, default=0),
        "mean_ns": statistics.fmean(each) if each else 0,
        "stdev_ns": statistics.pstdev(each) if each else 0,
    }


COUNTS = tuple(EngineCounters.model_fields.keys() - {"v", "event", "t_ns", "ticks", "tsc_hz"})


@dataclass
class FakeEngine:
    """A `Spawned` that answers each command by script, and delivers frames to its peer."""

    answers: dict[str, Callable[[FakeEngine], list[str]]] = field(default_factory=dict)
    on_verify: Callable[[int], None] = lambda _: None
    on_broadcast: Callable[[int], None] = lambda _: None
    stderr: str = ""
    pid: int = 1
    exit_code: int | None = None
    stubborn: bool = False  # never ends
    lines: deque[str] = field(default_factory=deque)
    commands: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    log: list[str] | None = None
    name: str = "engine"

    def write_line(self, line: str) -> None:
        if self.exit_code is not None:
            raise SwitchmarkError("engine: takes no more commands: broken pipe")
        self.commands.append(line)
        word = line.split(maxsplit=1)[0]
        if word in self.answers:
            self.lines.extend(self.answers[word](self))
        elif word == "verify":
            sent = int(line.split()[1])
            self.on_verify(sent)
            self.lines.append(event("verification", sent=sent))
        elif word == "verify-broadcast":
            sent = int(line.split()[1])
            self.on_verify(sent)
            self.on_broadcast(sent)
            self.lines.append(event("verification", sent=sent))
        elif word == "counters":
            self.lines.append(event("counters", **self.counts))

    def read_line(self, timeout_s: float) -> str | None:
        if self.lines:
            return self.lines.popleft()
        if self.exit_code is not None:
            return None
        raise TimeoutError

    def close_input(self) -> None:
        """The engine ends at the end of its input."""
        self._end(0)

    def poll(self) -> int | None:
        return self.exit_code

    def wait(self, timeout_s: float) -> int:
        if self.exit_code is None:
            raise TimeoutError
        return self.exit_code

    def terminate(self, grace_s: float = 2.0) -> int:
        return self._end(-15)

    def _end(self, code: int) -> int:
        if self.stubborn:
            raise TimeoutError(f"{self.name}: still running")
        if self.exit_code is None:
            self.exit_code = code
            if self.log is not None:
                self.log.append(f"end {self.name}")
        return self.exit_code

    def stderr_tail(self) -> str:
        return self.stderr


def process(fake: FakeEngine, role: str = "sender", pair: int = 0) -> EngineProcess:
    return EngineProcess(spawned=fake, node=f"{role[:2]}{pair}", role=role, pair=pair, args=[role])


def finished(role: str, pair: int, lines: Sequence[str], started_s: float = 0.0) -> EngineProcess:
    """Return an engine that will print these lines after `start`; they are already read."""
    fake = FakeEngine(
        {"start": lambda _: [event("started", t_ns=T0 + round(started_s * S)), *lines]}
    )
    engine = process(fake, role, pair)
    engine.start()
    engine.wait_result(0.1)
    return engine


@dataclass
class FakeSwitch:
    """Keeps a log, fails at a chosen step, and counts frames."""

    name: str = "linux-bridge"
    log: list[str] = field(default_factory=list)
    fail_at: str = ""
    dies_after: int | None = None  # calls of `alive`
    pids: tuple[int, ...] = ()
    witness: list[int] = field(default_factory=list)  # answers in order; the last answer repeats
    broadcasts: int = 0  # also leave through the monitor port
    running: bool = False
    ports: Any = None
    capabilities: Capabilities = CAN

    def _do(self, step: str) -> None:
        self.log.append(step)
        if self.fail_at == step:
            raise TrialFailed(f"{step} failed")

    def availability(self) -> Availability:
        return available("fake")

    def start(self, session: Any, ports: Any, mode: Any, cores: Any) -> None:
        self._do("start switch")
        self.running, self.ports = True, ports

    def wait_ports_up(self, timeout_s: float) -> None:
        self._do("ports up")

    def wait_converged(self) -> None:
        self._do("wait_converged")

    def counters(self) -> SwitchCounters:
        self._do("counters")
        flooded = self.witness.pop(0) if len(self.witness) > 1 else (self.witness or [None])[0]
        flooded = None if flooded is None else flooded + self.broadcasts
        return SwitchCounters({0: PortCounters(5, 0), 1: PortCounters(0, 5)}, flooded)

    def broadcast(self, frames: int) -> None:
        self.broadcasts += frames

    def alive(self) -> str | None:
        if not self.running:
            return "not started"
        if self.dies_after is not None:
            self.dies_after -= 1
            return "was killed by signal 9: its last words" if self.dies_after < 0 else None
        return None

    def process_ids(self) -> Sequence[int]:
        return self.pids

    def details(self) -> dict[str, str]:
        return {"version": "fake"}

    def stop(self) -> None:
        self.running = False
        self._do("stop switch")


@dataclass
class FakeNode:
    spec: NodeSpec
    world: FakeEnvironment
    netns: str = "fake"

    def spawn_engine(self, args: Sequence[str]) -> FakeEngine:
        self.world.do(f"spawn {self.spec.name}")
        return self.world.engine(self.spec.name, args[0])

    def spawn_program(
        self, args: Sequence[str], env: Any, rights: Any = None, folder: Any = None
    ) -> FakeEngine:
        raise UnavailableError(f"no {args[0]} here")

    def device_frames(self) -> tuple[int, int] | None:
        return None

    def device_drops(self) -> tuple[int, int] | None:
        return None

    def close(self) -> None:
        self.world.do(f"close {self.spec.name}")


@dataclass
class FakeEnvironment:
    """Nodes whose engines pass 1000 frames in a sample of 0.2 s, of which 900 arrive."""

    log: list[str] = field(default_factory=list)
    fail_at: str = ""
    engines: dict[str, FakeEngine] = field(default_factory=dict)
    change: Callable[[str, FakeEngine], None] = lambda name, engine: None
    on_broadcast: Callable[[int], None] = lambda _: None
    fast_engines: bool = True  # built for measuring
    name: str = "netns"
    traits: Traits = field(default_factory=Traits)

    def do(self, step: str) -> None:
        self.log.append(step)
        if step == self.fail_at:
            raise SwitchmarkError(f"{step} failed")

    def availability(self) -> Availability:
        return available("fake")

    def port_kinds(self) -> tuple[PortKind, ...]:
        return (PortKind.VETH,)

    def create(self, session: Session, spec: NodeSpec) -> FakeNode:
        self.do(f"create {spec.name}")
        device = {"device_inside": "eth0", "device_switch_side": "smabc123x"}
        ports = tuple(replace(port, **device) for port in spec.ports)
        return FakeNode(replace(spec, ports=ports), self)

    def create_wire(self, session: Session, a: NodeSpec, b: NodeSpec) -> tuple[FakeNode, FakeNode]:
        return self.create(session, a), self.create(session, b)

    def engine(self, name: str, role: str) -> FakeEngine:
        engine = FakeEngine(SCRIPTS[role], log=self.log, name=name)
        engine.lines.append(event("ready", role=role, pid=1, build={"fast": self.fast_engines}))
        peer = PEERS[name[:2]] + name[2:]
        engine.on_broadcast = self.on_broadcast
        engine.on_verify = lambda sent: self._deliver(peer, sent)
        self.engines[name] = engine
        self.change(name, engine)
        return engine

    def _deliver(self, name: str, sent: int) -> None:
        self.engines[name].counts["rx_verification"] += sent


PEERS = {"tx": "rx", "rx": "tx", "cl": "sv", "sv": "cl"}
STARTED = event("started", t_ns=T0)
SCRIPTS: dict[str, dict[str, Callable[[FakeEngine], list[str]]]] = {
    "sender": {
        "start": lambda _: [
            STARTED,
            *samples(10, tx_offered=1000, tx_polls=50),
            result(totals={"tx_offered": 10_000}),
        ]
    },
    "receiver": {
        "start": lambda _: [STARTED, *samples(10, rx_frames=900, useful_polls=90, idle_polls=10)],
        "stop": lambda _: [
            result(
                totals={"rx_frames": 9000},
                loss={"received_unique": 9000, "duplicates": 0, "reordered": 0},
            )
        ],
    },
    "client": {
        "start": lambda _: [
            STARTED,
            *samples(10, tx_offered=20, rx_frames=20),
            result(
                totals={"tx_offered": 200},
                loss={"received_unique": 200},
                latency=latency_of({10_000: 150, 30_000: 50}),
            ),
        ]
    },
    "server": {
        "start": lambda _: [STARTED, *samples(10, rx_frames=20)],
        "stop": lambda _: [result(totals={"rx_frames": 200})],
    },
}


def trial(dimension: str = "throughput", **changes: Any) -> Trial:
    values = {"switch": "linux-bridge", "packet_size_bytes": 64, "duration_s": 2.0} | changes
    return Trial(dimension=Dimension(dimension), **values)


def placement(**changes: Any) -> Placement:
    cores = {f"{kind}{k}": [1] for kind in ("tx", "rx", "cl", "sv") for k in range(4)}
    values: dict[str, Any] = {
        "switch_cores": [0],
        "application_cores": cores,
        "bench_cores": [1],
        "oversubscribed": False,
        "reason": "as the test needs it",
        "idle": "poll",
    }
    return Placement(**(values | changes))


def plan_for(
    requested: Trial | None = None,
    switch: FakeSwitch | None = None,
    environment: FakeEnvironment | None = None,
    policy: TrimPolicy | None = None,
) -> TrialPlan:
    """A plan of fakes with one log for all of them."""
    requested = requested or trial()
    switch = switch or FakeSwitch(requested.switch)
    environment = environment or FakeEnvironment()
    environment.log = switch.log
    environment.on_broadcast = switch.broadcast
    return TrialPlan(
        trial=requested,
        topology=expand(requested),
        environment=environment,
        switch=switch,
        mode=ConnectMode.LEARNING,
        port_kind=PortKind.VETH,
        io=io_of(requested, PortKind.VETH),
        placement=placement(),
        policy=policy or TrimPolicy(warm_up_s=0.4, cool_down_s=0.4),
        verify=VerifyPolicy(),
    )


def with_port_kind(plan: TrialPlan, kind: PortKind) -> TrialPlan:
    """Return the plan with ports of another kind, and the I/O that they then have."""
    return replace(plan, port_kind=kind, io=io_of(plan.trial, kind))


def between(plan: TrialPlan, **changes: object) -> TrialPlan:
    """Return the plan with its remote ends on another host."""
    known: dict[str, object] = {
        "cable": Cable("eth1", "eth2"), "kernel": "6.1", "there": placement()
    } | changes  # fmt: skip
    facts = replace(gather(), kernel=str(known["kernel"]))
    site = SimpleNamespace(testbed=SimpleNamespace(cable=known["cable"]), facts=facts)
    far = SimpleNamespace(site=site, place=lambda: known["there"])
    return replace(plan, far=cast(FarSide, far))
