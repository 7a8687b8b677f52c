"""A foreign instrument on the ports of a deployment: it is started and watched, and its counts
stand beside the kernel's.

Our own applications have taught and verified the switch before, and have left the ports.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from switchmark.engine.events import PROTOCOL_VERSION, EngineCounters
from switchmark.environment.support.base import Node
from switchmark.errors import TrialFailed
from switchmark.host.cores.cpu_time import ThreadTimes
from switchmark.host.host import Session
from switchmark.host.kernel.device_counters import udp_socket_drops
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.instrument.support.base import Abilities, Job, Station
from switchmark.instrument.support.reading import EndReading, Reading
from switchmark.instrument.support.workload import WorkloadEnd
from switchmark.model.campaign import sample_s
from switchmark.model.rights import Rights
from switchmark.model.trial import Trial
from switchmark.record import EngineRun, InstrumentNote, Interval
from switchmark.trial.cost import ApplicationCpu
from switchmark.trial.reconcile import CounterReading
from switchmark.trial.traffic import Tick
from switchmark.trial.verification import PairEnds

GRACE_S = 20.0  # only an instrument that hangs needs so long beyond its duration
_LOOK_S = 0.05
_COUNTED = tuple(
    name
    for name in EngineCounters.model_fields
    if name not in ("v", "event", "t_ns", "ticks", "tsc_hz")
)


class InstrumentRun:
    """One instrument between the two nodes of a pair. `close` may be called at any time."""

    def __init__(
        self, session: Session, trial: Trial, pair: PairEnds, nodes: Mapping[str, Node]
    ) -> None:
        self.instrument = INSTRUMENTS[trial.generator]()
        self.begun_ns = 0  # CLOCK_MONOTONIC at the command to begin
        self.reading: Reading | None = None
        self.socket_drops = 0  # frames that arrived, and found the socket's buffer full
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
        )
        self._launched = self.instrument.launch(job)
        self._used = ProcessesCpu()

    def wait_ready(self, timeout_s: float) -> None:
        """Return once frames that come will be counted. Raises `TrialFailed`."""
        self._launched.wait_ready(timeout_s)

    def measure(self, tick: Tick) -> Reading:
        """Let it run once to its end; call `tick` meanwhile. Raises `TrialFailed`."""
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
            time.sleep(_LOOK_S)
        self._used.look(self._launched.process_ids())
        self.reading = self._launched.finish(GRACE_S)
        # By the kernel's count of full sockets, where it has one; else what came to the device and
        # not to the instrument, beyond the frames of its own that it does not count.
        unread = self._arrived() - arrived - self.reading.target.frames
        unread -= self.instrument.abilities.own_frames
        self.socket_drops = max(self._dropped() - dropped, unread, 0)
        return self.reading

    def _dropped(self) -> int:
        """Frames that the kernel dropped at UDP sockets, on both sides."""
        return sum(udp_socket_drops(n.netns) for n in self._nodes if n.netns is not None)

    def _arrived(self) -> int:
        """Frames at the receiving device, by the kernel's count; 0 where the kernel has no
        device."""
        frames = self._nodes[1].device_frames()
        return frames[0] if frames else 0

    def cpu(self) -> ApplicationCpu:
        """CPU time of its programs at both ends since they were told to begin; for one that has
        ended, up to its last reading."""
        return self._used.of(time.monotonic_ns() - self.begun_ns)

    def counters(self) -> dict[str, EngineCounters]:
        """Frames that passed the ports: the kernel's counts where they are devices, otherwise the
        instrument's."""
        ends = zip((self._pair.a, self._pair.b), self._nodes, (True, False), strict=True)
        found = {}
        for engine, node, sends in ends:
            frames = node.device_frames()
            if frames is None:
                own = self.reading and (self.reading.source if sends else self.reading.target)
                count = own.frames if own else 0
                frames = (0, count) if sends else (count, 0)
            found[engine.node] = counters_of_devices(*frames)
        return found

    def note(self, before: CounterReading, after: CounterReading) -> InstrumentNote:
        """The record's account of the instrument, with the kernel's counts between two readings."""
        assert self.reading is not None, "it has run"
        source, target = self.reading.source, self.reading.target
        sent = received = None
        if self._nodes[0].device_frames() is not None:
            first, last = before.applications, after.applications
            a, b = self._pair.a.node, self._pair.b.node
            sent = last[a].tx_offered - first[a].tx_offered
            received = last[b].rx_other - first[b].rx_other
        own = self.instrument.abilities.own_frames
        return InstrumentNote(
            name=self.instrument.name,
            version=source.version,
            cannot_know=list(self.instrument.abilities.cannot_know),
            sent_frames=source.frames,
            received_frames=target.frames,
            device_sent_frames=sent,
            device_received_frames=received,
            socket_drops=self.socket_drops,
            own_frames=own,
            # What it received may be less than what arrived: a socket is a queue that overflows.
            agrees=(sent is None or source.frames <= sent <= source.frames + own)
            and (received is None or target.frames <= received),
        )

    def as_runs(self) -> list[EngineRun]:
        """Both ends, as the record keeps applications, with their counts. Times are the
        instrument's own, from the moment when it was told to begin."""
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

    def __init__(self, *, from_start: bool = False) -> None:
        """`from_start`: the processes start after the first reading, so that all of their time
        counts."""
        self._from_start = from_start
        self._first: dict[int, tuple[float, float]] = {}
        self._last: dict[int, tuple[float, float]] = {}

    def look(self, pids: Sequence[int]) -> None:
        """Read the CPU time of these processes; one that came later counts from its start."""
        seen = ThreadTimes.of(pids).by_thread
        if not self._last and not self._from_start:
            self._first = dict(seen)
        self._last |= seen

    def of(self, wall_ns: int) -> ApplicationCpu:
        """The CPU time of a process since its first reading."""
        ran = waited = 0.0
        for thread, (ran_s, waited_s) in self._last.items():
            before = self._first.get(thread, (0.0, 0.0))
            ran += ran_s - before[0]
            waited = max(waited, waited_s - before[1])
        return ApplicationCpu(max(1, wall_ns), round(ran * 1e9), run_delay_ns=round(waited * 1e9))


def station_of(name: str, node: Node, abilities: Abilities, folder: Path) -> Station:
    """The end of an instrument in a node, with the rights that the instrument declares, and that to
    write in this folder, the session's."""
    spec, may = node.spec, None
    if abilities.linux_capabilities is not None:
        writes = None if abilities.writes is None else (*abilities.writes, str(folder))
        may = Rights(abilities.linux_capabilities[spec.port.kind], writes)
    return Station(name, spec.port, spec.cores, lambda args: node.spawn_program(args, {}, may))


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
    """Return one end of a foreign instrument as a record has the ends of the engine."""
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
