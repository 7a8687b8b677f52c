"""An application on all pairs of a trial at the same time: its sums, and the figures of each pair.

Each pair has a client and a server. All clients begin as soon as all of them are ready.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from switchmark.engine.events import EngineCounters
from switchmark.environment.support.base import Node
from switchmark.host.host import Session
from switchmark.instrument.support.reading import CountedInterval, merged_round_trips
from switchmark.instrument.support.workload import WorkloadEnd, WorkloadReading
from switchmark.model.trial import Trial
from switchmark.model.workload import Workload
from switchmark.record import EngineRun, InstrumentNote, Transport
from switchmark.switch.support.base import Switch
from switchmark.trial.cost import ApplicationCpu
from switchmark.trial.reconcile import CounterReading
from switchmark.trial.traffic import TICK_S, Tick
from switchmark.trial.verification import PairEnds
from switchmark.trial.workload_run import WorkloadRun, end_cpu

_ADDED = (
    "payload_forth", "payload_back", "requests_sent", "requests_answered", "packets_forth",
    "bytes_forth", "packets_back", "bytes_back",
)  # fmt: skip


class WorkloadRuns:
    """One workload on every pair. `close` may be called at any time."""

    def __init__(
        self,
        session: Session,
        trial: Trial,
        pairs: Sequence[PairEnds],
        nodes: Mapping[str, Node],
        switch: Switch,
    ) -> None:
        self.parts: list[WorkloadRun] = []
        self.reading: WorkloadReading | None = None  # all pairs together
        with ExitStack() as launched:
            for pair in pairs:
                part = WorkloadRun(session, trial, pair, nodes, switch)
                launched.callback(part.close)
                self.parts.append(part)
            launched.pop_all()

    @property
    def workload(self) -> Workload:
        """The application."""
        return self.parts[0].workload

    @property
    def begun_ns(self) -> int:
        """The time of the first command to begin (CLOCK_MONOTONIC)."""
        return self.parts[0].begun_ns

    def wait_ready(self, timeout_s: float) -> None:
        """Return once all servers listen. Raises `TrialFailed`."""
        for part in self.parts:
            part.wait_ready(timeout_s)

    def prepare(self) -> None:
        """Start all clients that can wait for the command to begin. Raises `TrialFailed`."""
        for part in self.parts:
            part.prepare()

    def measure(self, tick: Tick) -> WorkloadReading:
        """Let all clients, which are prepared, run once to their end; call `tick` meanwhile. Raises
        `TrialFailed`."""
        for part in self.parts:
            part.begin()
        running = list(self.parts)
        while running := [part for part in running if part.running()]:
            tick()
            time.sleep(TICK_S)
        self.reading = merged_readings([part.finish() for part in self.parts])
        return self.reading

    def cpu(self) -> ApplicationCpu:
        """CPU time of all programs on this host since the first client began."""
        parts = [part.cpu() for part in self.parts]
        return ApplicationCpu(
            max(part.wall_ns for part in parts),
            sum(part.cpu_ns for part in parts),
            run_delay_ns=max(part.run_delay_ns for part in parts),
        )

    def far_cpu(self) -> list[ApplicationCpu]:
        """CPU time of the servers on another node."""
        return [cpu for part in self.parts if (cpu := part.far_cpu()) is not None]

    def counters(self) -> dict[str, EngineCounters]:
        """Frames that passed the devices of all ends, by the kernel's counts."""
        return {name: counts for part in self.parts for name, counts in part.counters().items()}

    @property
    def datagram_bytes(self) -> int:
        """Payload of each datagram of a client."""
        return self.parts[0].datagram_bytes

    @property
    def passed_packets(self) -> int:
        """Packets that the switch forwarded, both ways."""
        return sum(part.passed_packets for part in self.parts)

    @property
    def agrees(self) -> bool:
        """Return True if the counts of every pair agree with the kernel's."""
        return all(part.agrees for part in self.parts)

    @property
    def datagrams_dropped(self) -> int:
        """Datagrams that arrived at an end, and found the socket full."""
        return sum(part.datagrams_dropped for part in self.parts)

    def transport(self, switch_s: float | None) -> Transport:
        """Return the record's account of all connections. `switch_s` is the CPU time of the
        switch's processes."""
        return merged_transports([part.transport(None) for part in self.parts], switch_s)

    def note(self, before: CounterReading, after: CounterReading) -> InstrumentNote | None:
        """The record's account of a foreign program at all pairs."""
        notes = [note for part in self.parts if (note := part.note(before, after)) is not None]
        if not notes:
            return None
        sent = [note.device_sent_frames for note in notes]
        received = [note.device_received_frames for note in notes]
        return notes[0].model_copy(
            update={
                "device_sent_frames": None if None in sent else sum(filter(None, sent)),
                "device_received_frames": None if None in received else sum(filter(None, received)),
                "agrees": all(note.agrees for note in notes),
            }
        )

    def as_runs(self) -> list[EngineRun]:
        """All ends, as the record keeps applications, with their counts."""
        return [run for part in self.parts for run in part.as_runs()]

    def close(self) -> None:
        """End all programs. Idempotent."""
        with ExitStack() as each:
            for part in self.parts:
                each.callback(part.close)


def merged_readings(readings: Sequence[WorkloadReading]) -> WorkloadReading:
    """Return the readings of clients that ran at the same time as one: amounts are sums. The k-th
    samples of all pairs are added, up to the last that all of them have."""
    if len(readings) == 1:
        return readings[0]
    first = readings[0]
    forth = [each.payload_forth for each in readings]
    trips = [each.round_trips for each in readings]
    due = [each.from_due for each in readings]
    reasons = dict.fromkeys(reason for each in readings for reason in each.failures)
    controls = sorted({each.congestion_control for each in readings} - {""})
    return WorkloadReading(
        client=_end([each.client for each in readings]),
        server=_end([each.server for each in readings]),
        duration_ns=max(each.duration_ns for each in readings),
        sent=sum(each.sent for each in readings),
        done=sum(each.done for each in readings),
        payload_forth=None if None in forth else sum(filter(None, forth)),
        payload_back=sum(each.payload_back for each in readings),
        round_trips=None if None in trips else merged_round_trips([t for t in trips if t]),
        from_due=None if None in due else merged_round_trips([t for t in due if t]),
        failures={
            reason: sum(each.failures.get(reason, 0) for each in readings) for reason in reasons
        },
        warm_up=first.warm_up,
        congestion_control="+".join(controls),
    )


def _end(ends: Sequence[WorkloadEnd]) -> WorkloadEnd:
    return WorkloadEnd(ends[0].command, ends[0].version, added_counts([end.counts for end in ends]))


def added_counts(counts: Sequence[Sequence[CountedInterval]]) -> tuple[CountedInterval, ...]:
    """Add the k-th samples of all clocks. An amount of a sample that is longer or shorter than that
    of the first clock is taken in proportion."""
    return tuple(
        CountedInterval(
            samples[0].t_ns,
            samples[0].duration_ns,
            sum(round(each.frames * samples[0].duration_ns / each.duration_ns) for each in samples),
        )
        for samples in zip(*counts, strict=False)
    )


def merged_transports(parts: Sequence[Transport], switch_s: float | None) -> Transport:
    """Return the account of all connections: maps together, counts as sums."""
    payload = sum(part.payload_forth + part.payload_back for part in parts)
    update: dict[str, object] = {}
    for name in _ADDED:
        values = [getattr(part, name) for part in parts]
        update[name] = None if None in values else sum(values)
    for name, value in parts[0]:
        if isinstance(value, dict):
            update[name] = {
                key: count for part in parts for key, count in getattr(part, name).items()
            }
    requests = update["requests_answered"]
    assert requests is None or isinstance(requests, int)
    for name in ("client_cpu", "server_cpu"):
        seconds = sum(getattr(part, name).seconds for part in parts)
        update[name] = end_cpu(seconds, payload, requests)
    update["switch_cpu"] = None if switch_s is None else end_cpu(switch_s, payload, requests)
    return parts[0].model_copy(update=update)
