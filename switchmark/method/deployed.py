"""A measurer on a running deployment: one trial after the other, nothing set up anew.

The applications stay (`--session`); every trial is a `start` with its own rate and duration.
Loss comes from sequence numbers over the whole trial, so no frame in flight at its end is
called lost; the forwarded rate is that of the receivers' own intervals while every sender
was sending. Loads are totals and are divided over the pairs to the frame.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from switchmark.campaign.model import Trial
from switchmark.campaign.rates import CONSTANT
from switchmark.errors import TrialFailed
from switchmark.method.beside import probe_results, probes_lost
from switchmark.method.engine import EngineProcess
from switchmark.method.latency import merge_one_way
from switchmark.method.measurer import LoadPoint
from switchmark.method.one_way import Clocks, TimedRun
from switchmark.method.throughput import (
    Tick,
    common_time,
    run_traffic,
    sending_half,
    stretch,
)
from switchmark.method.trim import kept_intervals, rate_per_s, totals
from switchmark.method.verification import PairEnds
from switchmark.results.record import Latency, MethodTrial

INTERVALS_A_TRIAL = 10
SHORTEST_INTERVAL_S = 0.001
SHORTEST_JUDGED_S = 0.25  # a burst's length is the sender's resolution, nobody's fault
MIN_INTERVALS = 3  # fewer inside the trial: the rate is the whole trial's


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """What a trial showed beside its loads; totals over all pairs."""

    socket_drops: int  # dropped at the receivers' own sockets: never the switch's
    duplicates: int
    reordered: int
    corrupt: int
    foreign: int  # another pair's frames
    stale: int  # frames of an earlier trial, counted apart
    drained: bool  # every receiver fell silent before it was stopped
    on_schedule: bool
    late_max_ns: int | None  # of the senders' pacing; None: saturating
    idle_share: float | None  # of the receivers' polls, those that found nothing


class DeployedMeasurer:
    """A `Measurer` on applications that are ready and verified. `asides` and `latencies`
    hold one entry a trial, in order."""

    def __init__(
        self,
        trial: Trial,
        ends: Sequence[PairEnds],
        tick: Tick,
        clocks: Clocks | None = None,
    ) -> None:
        self.points: list[LoadPoint] = []
        self.asides: list[Aside] = []
        self.source_counters: dict[str, int] = {}
        self.sink_counters: dict[str, int] = {}
        self.stretch = 0.0  # by so much of its duration a trial lasted too long, at most
        self.cpu_results: list[dict[str, Any]] = []  # what `cpu.cost` needs of every result
        self.far_cpu_results: list[dict[str, Any]] = []  # of those on the other host
        self._sample_s: float | None = None  # of the trial that runs
        self._trial = trial
        self._ends = list(ends)
        self._tick = tick
        self._clocks = clocks  # of the two hosts that the ends are on; None: they are on one

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        """One trial at this total load; see `Measurer.measure`."""
        return self._run(duration_s, load_pps, {}, {})

    def measure_latency(
        self, duration_s: float, load_pps: float, burst: int
    ) -> tuple[LoadPoint, Latency]:
        """One trial in which the way from sender to receiver is timed: of every frame, or, where
        the trial has a probe rate, of the probes beside the load.

        Both are processes of one host, and share one clock, or their hosts' clocks are compared.
        Raises `TrialFailed` when no frame arrived."""
        timed = TimedRun.begin(self._clocks, self._ends, duration_s) if self._clocks else None
        if self._trial.probe_rate_pps is not None:
            beside = {"burst": burst, "probe-rate": self._trial.probe_rate_pps}
            point = self._run(duration_s, load_pps, beside, {"probes": 1})
            sent = probe_results([pair.a.result or {} for pair in self._ends])
            probes = probe_results([pair.b.result or {} for pair in self._ends])
            lost = probes_lost(sent, probes)
            return point, merge_one_way(probes, lost, timed, "no probe arrived")
        point = self._run(duration_s, load_pps, {"burst": burst}, {"latency": 1})
        results = [pair.b.result or {} for pair in self._ends]
        return point, merge_one_way(results, point.lost_frames, timed, "no frame arrived")

    def _run(
        self,
        duration_s: float,
        load_pps: float,
        source_options: Mapping[str, str | float],
        sink_options: Mapping[str, str | float],
        *,
        tick: Tick | None = None,
        interval_s: float | None = None,
    ) -> LoadPoint:
        begun = time.monotonic()
        senders = [pair.a for pair in self._ends]
        receivers = [pair.b for pair in self._ends]
        usual_s = min(self._trial.interval_s, duration_s / INTERVALS_A_TRIAL)
        self._sample_s = max(SHORTEST_INTERVAL_S, interval_s or usual_s)
        every = {"interval": f"{self._sample_s:.6f}"}
        run_traffic(
            senders,
            receivers,
            duration_s,
            tick or self._tick,
            source_options=[
                {**every, **self._schedule(load_pps), **source_options, "rate": rate}
                for rate in rates_of(load_pps, len(senders))
            ],
            sink_options={**every, **sink_options},
        )
        return self._keep(self._point(duration_s, load_pps, time.monotonic() - begun))

    def _keep(self, point: LoadPoint, *, receivers_go_on: bool = False) -> LoadPoint:
        """Add a finished trial to the books; of receivers that go on, only the next one's."""
        senders = [pair.a for pair in self._ends]
        receivers = [] if receivers_go_on else [pair.b for pair in self._ends]
        self.points.append(point)
        self.asides.append(self._aside(receivers))
        if point.duration_s >= SHORTEST_JUDGED_S:
            self.stretch = max(self.stretch, stretch(senders, point.duration_s))
        for one in {id(one): one for one in (*senders, *receivers)}.values():
            if one.result:
                kept = self.far_cpu_results if one.far else self.cpu_results
                kept.append({"cpu": one.result["cpu"]})
        for sums, engines in ((self.source_counters, senders), (self.sink_counters, receivers)):
            counted = totals(s for one in engines for s in one.intervals)
            if engines is senders and senders[0] in receivers:
                counted = sending_half(counted)
            for name, value in counted.items():
                sums[name] = sums.get(name, 0) + value
        return point

    def _schedule(self, load_pps: float) -> dict[str, str]:
        """The trial's schedule, which saturating input has not."""
        shaped = self._trial.schedule != CONSTANT and not math.isinf(load_pps)
        return {"schedule": self._trial.schedule} if shaped else {}

    def _point(self, duration_s: float, load_pps: float, elapsed_s: float) -> LoadPoint:
        sent = [_totals(pair.a.result) for pair in self._ends]
        unique = [_unique(pair) for pair in self._ends]
        for pair, one, arrived in zip(self._ends, sent, unique, strict=True):
            if arrived > one["tx_offered"]:
                raise TrialFailed(
                    f"counts of pair {pair.a.pair} contradict each other: {arrived} different "
                    f"frames received, {one['tx_offered']} sent"
                )
        offered = sum(one["tx_offered"] for one in sent)
        polls = sum(one["tx_polls"] for one in sent)
        forwarded, samples = self._forwarded(sum(unique))
        return LoadPoint(
            intended_pps=None if math.isinf(load_pps) else float(_whole(load_pps, len(sent))),
            offered_pps=sum(
                one["tx_offered"] * 1e9 / max(1, (pair.a.result or {})["duration_ns"])
                for pair, one in zip(self._ends, sent, strict=True)
            ),
            forwarded_pps=forwarded,
            offered_frames=offered,
            lost_frames=offered - sum(unique),
            duration_s=duration_s,
            intended_frames=sum(max(one["tx_intended"], one["tx_offered"]) for one in sent),
            elapsed_s=elapsed_s,
            ring_full_share=sum(one["ring_full_polls"] for one in sent) / polls if polls else None,
            samples_pps=samples,
            sample_s=self._sample_s,
        )

    def _forwarded(self, unique: int) -> tuple[float, tuple[float, ...]]:
        """The forwarded rate and its samples, from the intervals in which all were sending."""
        window = common_time([pair.a for pair in self._ends])
        kept = [list(kept_intervals(pair.b.intervals, window)) for pair in self._ends]
        if min(map(len, kept)) < MIN_INTERVALS:
            return unique * 1e9 / (window[1] - window[0]), ()
        rates = [[rate_per_s([sample], "rx_frames") for sample in samples] for samples in kept]
        return (
            sum(rate_per_s(samples, "rx_frames") for samples in kept),
            tuple(math.fsum(column) for column in zip(*rates, strict=False)),
        )

    def _aside(self, receivers: Sequence[EngineProcess]) -> Aside:
        arrived = [_totals(one.result) for one in receivers]
        losses = [(one.result or {}).get("loss") or {} for one in receivers]
        pacings = [p for pair in self._ends if (p := (pair.a.result or {}).get("pacing"))]
        idle = sum(one["idle_polls"] for one in arrived)
        polls = idle + sum(one["useful_polls"] for one in arrived)
        return Aside(
            socket_drops=sum(one.get("rx_socket_drops", 0) for one in arrived),
            duplicates=sum(one.get("duplicates", 0) for one in losses),
            reordered=sum(one.get("reordered", 0) for one in losses),
            corrupt=sum(one.get("rx_corrupt", 0) for one in arrived),
            foreign=sum(one.get("rx_foreign", 0) for one in arrived),
            stale=sum(one.get("rx_stale", 0) for one in arrived),
            drained=all((one.result or {}).get("drained", False) for one in receivers),
            on_schedule=all(pacing["on_schedule"] for pacing in pacings),
            late_max_ns=max((pacing["late_max_ns"] for pacing in pacings), default=None),
            idle_share=idle / polls if polls else None,
        )


def rates_of(load_pps: float, pairs: int) -> list[str | int]:
    """Each pair's rate for the engine: whole frames per second that sum to the load."""
    if math.isinf(load_pps):
        return ["max"] * pairs
    whole, rest = divmod(_whole(load_pps, pairs), pairs)
    return [whole + (index < rest) for index in range(pairs)]


def _whole(load_pps: float, pairs: int) -> int:
    """The load in whole frames per second; each pair sends one a second at least."""
    return max(pairs, round(load_pps))


def as_trials(points: Sequence[LoadPoint], asides: Sequence[Aside]) -> list[MethodTrial]:
    """The trials as the record keeps them. `points` may be those of a ledger: same order."""
    return [
        MethodTrial(
            intended_pps=point.intended_pps,
            offered_pps=point.offered_pps,
            forwarded_pps=point.forwarded_pps,
            offered_frames=point.offered_frames,
            lost_frames=point.lost_frames,
            unoffered_frames=point.shortfall_frames,
            duration_s=point.duration_s,
            elapsed_s=point.cost_s,
            ring_full_share=point.ring_full_share,
            socket_drops=aside.socket_drops,
            duplicates=aside.duplicates,
            reordered=aside.reordered,
            corrupt=aside.corrupt,
            late_max_ns=aside.late_max_ns,
            drained=aside.drained,
        )
        for point, aside in zip(points, asides, strict=True)
    ]


def _totals(result: Mapping[str, Any] | None) -> dict[str, int]:
    return dict((result or {})["totals"])


def _unique(pair: PairEnds) -> int:
    return int(((pair.b.result or {}).get("loss") or {}).get("received_unique", 0))
