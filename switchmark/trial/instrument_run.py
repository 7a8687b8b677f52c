"""A foreign generator on the ports of a deployment: starts and watches it, and compares its counts
with those of the kernel.

The engines have taught and verified the switch before, and have left the ports.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from switchmark.engine.events import PROTOCOL_VERSION, EngineCounters
from switchmark.environment.support.base import Node
from switchmark.errors import TrialFailed
from switchmark.function.support.load_frames import load_frames
from switchmark.function.support.table import FunctionTable
from switchmark.host.cores.cpu_time import ThreadTimes
from switchmark.host.host import Session
from switchmark.host.kernel.device_counters import udp_socket_drops
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.instrument.support.base import Abilities, Job, Station, application_folder
from switchmark.instrument.support.reading import EndReading, Reading
from switchmark.instrument.support.workload import WorkloadEnd
from switchmark.model.campaign import sample_s
from switchmark.model.rights import Rights
from switchmark.model.trial import Trial
from switchmark.record import EngineRun, InstrumentNote, Interval
from switchmark.switch.existing import FarEnd
from switchmark.trial.cost import ApplicationCpu
from switchmark.trial.reconcile import CounterReading
from switchmark.trial.traffic import TICK_S, Tick
from switchmark.trial.verification import PairEnds

GRACE_S = 20.0  # only a generator that hangs takes so long beyond its duration
# Facts that the engine checks in each frame during the measurement, and a counting program cannot.
UNKNOWN_OF_FUNCTIONS = (
    "whether each frame left the switch with the right headers and next hop",
    "whether frames arrive that the function must drop",
)
_COUNTED = tuple(
    name
    for name in EngineCounters.model_fields
    if name not in ("v", "event", "t_ns", "ticks", "tsc_hz")
)


class InstrumentRun:
    """One generator between the two nodes of a pair. `close` may be called at any time."""

    def __init__(
        self,
        session: Session,
        trial: Trial,
        pair: PairEnds,
        nodes: Mapping[str, Node],
        table: FunctionTable | None = None,
    ) -> None:
        self.instrument = INSTRUMENTS[trial.generator]()
        self.begun_ns = 0  # CLOCK_MONOTONIC at the command to begin
        self.reading: Reading | None = None
        self.socket_drops = 0  # frames that arrived at a full socket buffer
        self._pair = pair
        self._nodes = (nodes[pair.a.node], nodes[pair.b.node])
        self._trial = trial
        least_s = self.instrument.abilities.shortest_sample_s or 0.0
        job = Job(
            trial=trial,
            source=station_of(
                pair.a.node, self._nodes[0], self.instrument.abilities, session.run_dir
            ),
            target=station_of(
                pair.b.node, self._nodes[1], self.instrument.abilities, session.run_dir
            ),
            folder=session.run_dir,
            sample_s=max(least_s, sample_s(trial.interval_s, trial.duration_s)),
            load=() if table is None else load_frames(table, trial),
        )
        self._launched = self.instrument.launch(job)
        self._used = ProcessesCpu()

    def wait_ready(self, timeout_s: float) -> None:
        """Return when arriving frames will be counted. Raises `TrialFailed`."""
        self._launched.wait_ready(timeout_s)

    def measure(self, tick: Tick) -> Reading:
        """Run it once to its end; call `tick` meanwhile. Raises `TrialFailed`."""
        duration_s = self._trial.duration_s
        self._used.look(self._launched.process_ids())
        dropped, arrived = self._dropped(), self._arrived()
        self.begun_ns = time.monotonic_ns()
        self._launched.begin(duration_s)
        deadline = time.monotonic() + duration_s + GRACE_S
        while self._launched.running():
            self._used.look(self._launched.process_ids())
            if time.monotonic() > deadline:
                raise TrialFailed(
                    f"{self.instrument.name} did not end within {duration_s + GRACE_S:.0f} s"
                )
            tick()
            time.sleep(TICK_S)
        self._used.look(self._launched.process_ids())
        self.reading = self._launched.finish(GRACE_S)
        # The kernel counts drops at full sockets. If it does not, frames that came to the device
        # and not to the generator count, without the extra frames that the generator sends.
        unread = self._arrived() - arrived - self.reading.target.frames
        unread -= self.instrument.abilities.own_frames
        self.socket_drops = max(self._dropped() - dropped, unread, 0)
        return self.reading

    def _dropped(self) -> int:
        """Return the frames that the kernel dropped at UDP sockets, on both sides."""
        return sum(udp_socket_drops(n.netns) for n in self._nodes if n.netns is not None)

    def _arrived(self) -> int:
        """Return the kernel's count of frames at the receiving device; 0 without such a device."""
        frames = self._nodes[1].device_frames()
        return frames[0] if frames else 0

    def cpu(self) -> ApplicationCpu:
        """Return the CPU time of its programs at both ends since the command to begin, up to the
        last reading of each."""
        return self._used.of(time.monotonic_ns() - self.begun_ns)

    def counters(self) -> dict[str, EngineCounters]:
        """Return the frames that passed the ports, counted by the kernel if the ports are devices,
        otherwise by the generator."""
        ends = zip((self._pair.a, self._pair.b), self._nodes, (True, False), strict=True)
        counters = {}
        for engine, node, sends in ends:
            frames = node.device_frames()
            if frames is None:
                end = self.reading and (self.reading.source if sends else self.reading.target)
                count = end.frames if end else 0
                frames = (0, count) if sends else (count, 0)
            counters[engine.node] = counters_of_devices(*frames)
        return counters

    def note(self, before: CounterReading, after: CounterReading) -> InstrumentNote:
        """Return the record's note of the generator, with the kernel's counts between two
        readings."""
        assert self.reading is not None, "it has run"
        source, target = self.reading.source, self.reading.target
        sent = received = None
        if self._nodes[0].device_frames() is not None:
            first, last = before.applications, after.applications
            a, b = self._pair.a.node, self._pair.b.node
            sent = last[a].tx_offered - first[a].tx_offered
            received = last[b].rx_other - first[b].rx_other
        own_frames = self.instrument.abilities.own_frames
        return InstrumentNote(
            name=self.instrument.name,
            version=source.version,
            cannot_know=[
                *self.instrument.abilities.cannot_know,
                *(() if self._trial.function.is_plain else UNKNOWN_OF_FUNCTIONS),
            ],
            sent_frames=source.frames,
            received_frames=target.frames,
            device_sent_frames=sent,
            device_received_frames=received,
            socket_drops=self.socket_drops,
            own_frames=own_frames,
            # It may receive fewer frames than arrived, since the queue of a socket overflows.
            agrees=(sent is None or source.frames <= sent <= source.frames + own_frames)
            and (received is None or target.frames <= received),
        )

    def as_runs(self) -> list[EngineRun]:
        """Return both ends as the record has applications, with their counts. Times are by the
        generator's own clock, from the command to begin."""
        if self.reading is None:
            return [self._pair.a.as_run(), self._pair.b.as_run()]
        source, target = self.reading.source, self.reading.target
        client = self._pair.a.role == "client"
        return [
            engine_run(
                self._pair.a.node, self._pair.a.role, source, self.begun_ns, "tx_offered"
            ),
            engine_run(
                self._pair.b.node, self._pair.b.role, target, self.begun_ns,
                "tx_offered" if client else "rx_frames",
            ),
        ]  # fmt: skip

    def close(self) -> None:
        """End its programs. Idempotent."""
        self._launched.close()


class ProcessesCpu:
    """CPU time of the threads of some processes, by the last reading of each thread."""

    def __init__(self) -> None:
        self._first: dict[int, tuple[float, float]] = {}
        self._last: dict[int, tuple[float, float]] = {}

    def look(self, pids: Sequence[int]) -> None:
        """Read the CPU time of these processes; a later process counts from its start."""
        times = ThreadTimes.of(pids).by_thread
        if not self._last:
            self._first = dict(times)
        self._last |= times

    def of(self, wall_ns: int) -> ApplicationCpu:
        """Return the CPU time of the processes since the first reading."""
        ran = waited = 0.0
        for thread, (ran_s, waited_s) in self._last.items():
            before = self._first.get(thread, (0.0, 0.0))
            ran += ran_s - before[0]
            waited = max(waited, waited_s - before[1])
        return ApplicationCpu(max(1, wall_ns), round(ran * 1e9), run_delay_ns=round(waited * 1e9))


def station_of(
    name: str, node: Node, abilities: Abilities, folder: Path, far: FarEnd | None = None
) -> Station:
    """Return the end of a generator in a node, with the rights that the generator declares. It may
    also write in this folder of the session. `far`: the node is in that pod, whose rights hold."""
    spec, rights = node.spec, None
    if far is not None:
        cores = spec.cores
        return Station(name, spec.port, cores, lambda args: far.spawn(args, cores), far)
    if abilities.linux_capabilities is not None:
        writes = None if abilities.writes is None else (*abilities.writes, str(folder))
        rights = Rights(abilities.linux_capabilities[spec.port.kind], writes)
    files = application_folder(folder, name)
    return Station(
        name, spec.port, spec.cores, lambda args: node.spawn_program(args, {}, rights, files)
    )


def counters_of_devices(rx_frames: int, tx_frames: int) -> EngineCounters:
    """Return the counts of a device as those of an application at it."""
    counts = dict.fromkeys(_COUNTED, 0) | {"rx_other": rx_frames, "tx_offered": tx_frames}
    now_ns = time.monotonic_ns()  # its ticks are nanoseconds
    return EngineCounters(
        v=PROTOCOL_VERSION, event="counters", t_ns=now_ns, ticks=now_ns, tsc_hz=1e9, **counts
    )


def engine_run(
    node: str, role: str, end: EndReading | WorkloadEnd, begun_ns: int, counter: str
) -> EngineRun:
    """Return one end of a foreign generator as a record has the ends of the engine."""
    return EngineRun(
        node=node,
        role=role,
        pair=0,
        args=list(end.command),
        ready={"version": end.version},
        intervals=[
            Interval(
                index=index,
                t_ns=begun_ns + one.t_ns,
                duration_ns=one.duration_ns,
                counters={counter: one.frames},
            )
            for index, one in enumerate(end.counts)
        ],
        result=end.report,
    )
