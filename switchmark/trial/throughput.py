"""Throughput: the load that arrives when a sender offers a given rate, or as much as it can.

Receivers start before the senders and end after them, so that a frame in flight does not count as
lost. Intended, offered and forwarded load are three numbers. The forwarded load is counted at the
receiver over the kept window, each sample divided by its true length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, variance

from switchmark.engine import loads
from switchmark.engine.events import IntervalEvent
from switchmark.engine.loads import KeptLoss, Load, forwarded_pps, sending_half, sum_of
from switchmark.engine.process import EngineProcess
from switchmark.errors import STARVED, TrialFailed
from switchmark.model.campaign import TrimPolicy
from switchmark.model.rates import L1_OVERHEAD_BYTES
from switchmark.model.trial import Trial
from switchmark.record import (
    DirectionLoads,
    Figures,
    OutlierSample,
    PairLoads,
    SteadyRun,
    Throughput,
)
from switchmark.statistics.steady_state import detect
from switchmark.trial.bursts import burst_noise_pps, burst_pps
from switchmark.trial.quality import jain, reordering
from switchmark.trial.recording import Measurement
from switchmark.trial.traffic import Tick, run_traffic, sent_frames
from switchmark.trial.trim import describe, kept_intervals, window_ns
from switchmark.trial.verification import PairEnds

# By the rules of a campaign the window has enough samples, so only a stalled engine has none.
KEPT_AWAY = f"{STARVED}; free its core and run the trial again, or set repeat_disturbed"


def measure(
    trial: Trial,
    pairs: Sequence[PairEnds],
    policy: TrimPolicy,
    tick: Tick,
    monitors: Sequence[EngineProcess] = (),
) -> Measurement:
    """Run one throughput trial on applications that are ready and verified. `monitors` also
    receive, but are not a part of the figures."""
    senders = [pair.a for pair in pairs]
    receivers = [pair.b for pair in pairs]
    duplex = senders[0] in receivers
    run_traffic(senders, [*receivers, *monitors], trial.duration_s, tick)
    begun_ns, ended_ns = common_time(senders)
    window = window_ns(policy, begun_ns, ended_ns)
    for engine in (*senders, *receivers):
        if not _kept([engine], window):
            raise TrialFailed(
                f"no sample of the {engine.role} in {engine.node} lies wholly in the kept window: "
                f"{KEPT_AWAY}"
            )
    streams = [_Stream.of(trial, pair, window) for pair in pairs]
    counted = sum_of(_kept(senders, window))
    samples = [s for pair in pairs for s in pair.b.intervals]
    figures = _sum(trial, streams)
    sample_ns = median(one.duration_ns for stream in streams for one in stream.received)
    return Measurement(
        figures=Figures(throughput=figures),
        trim=describe(policy, begun_ns, ended_ns, samples),
        steady=_steady(pairs, (begun_ns, ended_ns), burst_pps(trial, sample_ns, len(pairs))),
        kept_samples=min(len(_kept([receiver], window)) for receiver in receivers),
        sample_noise_pps=burst_noise_pps(trial, sample_ns, figures.forwarded_pps, len(pairs)),
        source_counters=sending_half(counted) if duplex else counted,
        sink_counters=sum_of(_kept(receivers, window)),
        sent_frames=sent_frames(senders),
        socket_drops=socket_drops(receivers),
        on_schedule=on_schedule(senders),
        stretch=stretch(senders, trial.duration_s),
        passed_frames=sum(stream.whole.unique_frames for stream in streams),
    )


def _steady(pairs: Sequence[PairEnds], whole: tuple[int, int], step_pps: float) -> SteadyRun:
    """Test for steadiness over every sample in which all were sending, summed over pairs."""
    rates = [
        [forwarded_pps([s]) for s in kept_intervals(pair.b.intervals, whole)] for pair in pairs
    ]
    return steady_run([math.fsum(column) for column in zip(*rates, strict=False)], step_pps)


def steady_run(rates_pps: Sequence[float], step_pps: float) -> SteadyRun:
    """Test for steadiness of the forwarded load, sample by sample; `step_pps` is the resolution of
    the rate of a sample."""
    found = detect(rates_pps, step_pps)
    return SteadyRun(
        policy=found.policy,
        steady=found.steady,
        reason=found.reason,
        warm_up_samples=found.warm_up_samples,
        change_p=found.change_p,
        mean_pps=found.mean,
        mean_without_outliers_pps=found.mean_without_outliers,
        outliers=[
            OutlierSample(index=one.index, value=one.value, score=one.score)
            for one in found.outliers
        ],
        two_bands=found.bands.describe() if found.bands else None,
    )


def common_time(sources: Sequence[EngineProcess]) -> tuple[int, int]:
    """Return the part of the trial in which every source was sending (CLOCK_MONOTONIC ns)."""
    begun_ns = max(source.started_ns for source in sources)
    ended_ns = min(source.started_ns + source.result.duration_ns for source in sources)
    if ended_ns <= begun_ns:
        raise TrialFailed(f"the senders never sent all at the same time: {KEPT_AWAY}")
    return begun_ns, ended_ns


def _kept(engines: Sequence[EngineProcess], window: tuple[int, int]) -> list[IntervalEvent]:
    return [s for engine in engines for s in kept_intervals(engine.intervals, window)]


def stretch(sources: Sequence[EngineProcess], duration_s: float) -> float:
    """Return the share of its duration by which the slowest source ran too long."""
    longest_ns = max(source.result.duration_ns for source in sources)
    return max(0.0, longest_ns / (duration_s * 1e9) - 1)


def socket_drops(engines: Sequence[EngineProcess]) -> int:
    """Return the frames that the engines' sockets dropped in the whole trial and while it
    drained."""
    return sum(one.result.totals.rx_socket_drops for one in engines)


def on_schedule(sources: Sequence[EngineProcess]) -> bool:
    """Return True if every paced sender kept its schedule."""
    return all(one.result.pacing is None or one.result.pacing.on_schedule for one in sources)


@dataclass(frozen=True, slots=True)
class _Stream:
    """One stream: its loads over the whole trial, and over the kept window."""

    pair: PairEnds
    whole: Load
    sent: list[IntervalEvent]  # kept samples of its sender
    received: list[IntervalEvent]  # kept samples of its receiver
    loss: KeptLoss
    loads: PairLoads

    @property
    def kept_ns(self) -> int:
        """The time of the samples received."""
        return sum(one.duration_ns for one in self.received)

    @classmethod
    def of(cls, trial: Trial, pair: PairEnds, window: tuple[int, int]) -> _Stream:
        found = loads.load(f"pair {pair.a.pair}", pair.a.result, pair.b.result)
        loss = loads.loss_of(pair.b.result)
        sent, received = _kept([pair.a], window), _kept([pair.b], window)
        pair_loads = PairLoads(
            pair=pair.a.pair,
            direction=pair.direction,
            intended_pps=loads.stream_intended_pps(trial, sent),
            offered_pps=loads.offered_pps(sent),
            forwarded_pps=forwarded_pps(received),
            lost_frames=found.lost_frames,
            duplicates=loss.duplicates,
            reordered=loss.reordered,
            corrupt=pair.b.result.totals.rx_corrupt,
            reordering=reordering(loss),
        )
        lost = loads.kept_loss(found, pair.b.result, sent, pair.a.intervals, pair.b.intervals)
        return cls(pair, found, sent, received, lost, pair_loads)


def _sum(trial: Trial, streams: Sequence[_Stream]) -> Throughput:
    forwarded = math.fsum(one.loads.forwarded_pps for one in streams)
    l2_bps = forwarded * trial.packet_size_bytes * 8
    if trial.packet_mix:  # a switch may lose some sizes more than others, so bytes are counted
        l2_bps = math.fsum(loads.forwarded_l2_bps(one.received) for one in streams)
    losses = [loads.loss_of(one.pair.b.result) for one in streams]
    whole = loads.total([one.whole for one in streams])
    lost = loads.total_kept([one.loss for one in streams])
    reordered = sum(loss.reordered for loss in losses)
    return Throughput(
        intended_pps=loads.total_intended_pps(trial, (one.loads.intended_pps for one in streams)),
        offered_pps=math.fsum(one.loads.offered_pps for one in streams),
        forwarded_pps=forwarded,
        forwarded_l2_bps=l2_bps,
        forwarded_l1_bps=l2_bps + forwarded * 8 * L1_OVERHEAD_BYTES,
        forwarded_stdev_pps=_stdev_pps(streams),
        loss_ratio=lost.ratio,
        burst_pps=math.fsum(burst_pps(trial, one.kept_ns) for one in streams),
        away_share=lost.away_frames / lost.lost_frames if lost.lost_frames else None,
        pairs=[one.loads for one in streams],
        directions=_directions(streams) if trial.bidirectional else [],
        reordered_ratio=reordered / whole.unique_frames if whole.unique_frames else None,
        max_reorder_extent=max(loss.max_reorder_extent for loss in losses),
        jain_fairness=jain([one.loads.forwarded_pps for one in streams]),
    )


def _directions(streams: Sequence[_Stream]) -> list[DirectionLoads]:
    """Return the loads of each direction, over all pairs."""
    loads_by_direction = []
    for direction in dict.fromkeys(one.pair.direction for one in streams):
        streams_of = [one for one in streams if one.pair.direction == direction]
        loads_by_direction.append(
            DirectionLoads(
                direction=direction,
                offered_pps=math.fsum(one.loads.offered_pps for one in streams_of),
                forwarded_pps=math.fsum(one.loads.forwarded_pps for one in streams_of),
                loss_ratio=loads.total_kept([one.loss for one in streams_of]).ratio,
            )
        )
    return loads_by_direction


def _stdev_pps(streams: Sequence[_Stream]) -> float:
    """Return the spread of the forwarded load over time. The samples of pairs have independent
    clocks and cannot be summed sample by sample, so the variances of pairs are added."""
    each = [[forwarded_pps([one]) for one in stream.received] for stream in streams]
    return math.sqrt(math.fsum(variance(rates) for rates in each if len(rates) > 1))
