"""Throughput: the load that arrives when a sender offers a set rate, or all it can.

Receivers run before senders start and after they end, so that no frame in flight is called
lost. Intended, offered and forwarded load are three numbers; the forwarded one is counted
at the receiver over the kept window, each sample divided by its true length.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from switchmark.campaign.model import Trial, TrimPolicy
from switchmark.campaign.rates import has_own_rate, is_steady
from switchmark.errors import TrialFailed
from switchmark.method.engine import EngineProcess, start_all
from switchmark.method.quality import jain, reordering
from switchmark.method.seen import Seen
from switchmark.method.steady_state import detect
from switchmark.method.trim import describe, kept_intervals, rate_per_s, totals, window_ns
from switchmark.method.verification import PairEnds
from switchmark.results.record import (
    DirectionLoads,
    Interval,
    OutlierSample,
    PairLoads,
    SteadyRun,
    Throughput,
)

RESULT_GRACE_S = 8.0  # only an engine that hangs needs so long
LATE_LOOK_S = 1.0
L1_OVERHEAD_BYTES = 20  # preamble, start delimiter, inter-frame gap
_PUMP_S = 0.05
BEGIN_LEAD_S, BEGIN_LEAD_EACH_S = 0.1, 0.02  # time to tell all of a bidirectional trial to begin
BEGIN_TRIES, BEGIN_PATIENCE = 4, 4  # how often that is tried, each time with so much more time

Tick = Callable[[], None]  # called many times a second while traffic runs; raises to end it


def run_traffic(
    sources: Sequence[EngineProcess],
    sinks: Sequence[EngineProcess],
    duration_s: float,
    tick: Tick,
    *,
    source_options: Sequence[Mapping[str, str | float]] = (),
    sink_options: Mapping[str, str | float] | None = None,
) -> None:
    """Start every sink, then every source; wait for the sources to end, then stop the sinks.

    Those that are both (duplex) listen from their start on and all send from one moment on.
    The options override the command line for this trial, `source_options` source by source."""
    both = {id(source) for source in sources} & {id(sink) for sink in sinks}
    sinks = [sink for sink in sinks if id(sink) not in both]
    start_all(sinks, [{"duration": 0, **(sink_options or {})}] * len(sinks))
    patience = max(engine.patience for engine in (*sources, *sinks))
    asked: list[Mapping[str, str | float]] = []
    for number, source in enumerate(sources):
        options = dict(source_options[number]) if source_options else {}
        if id(source) in both:
            options |= sink_options or {}
        asked.append({"duration": _exact(duration_s), **options})
    if both:
        _start_together(sources, asked, duration_s, patience)
    else:
        start_all(sources, asked)
    waiting = list(sources)
    # In time, and in looks that found nothing: an engine with short samples answers sooner.
    deadline = time.monotonic() + duration_s + RESULT_GRACE_S * patience
    polls_left = math.ceil((duration_s + RESULT_GRACE_S * patience) / _PUMP_S)
    while waiting and polls_left > 0 and time.monotonic() < deadline:
        polls_left -= not waiting[0].pump(_PUMP_S)
        for engine in [*waiting[1:], *sinks]:
            engine.pump(0)
        waiting = [source for source in waiting if source.result is None]
        begun = time.monotonic()
        tick()
        deadline += time.monotonic() - begun  # it may do more than look: restart a switch
    # The time may have passed while this process did not run: that proves nothing.
    for source in waiting:
        source.wait_result(LATE_LOOK_S)
    stop_all(sinks, sources)


def stop_all(sinks: Sequence[EngineProcess], sources: Sequence[EngineProcess]) -> None:
    """End the sinks' trial once what the sources have sent to them has arrived, or is lost."""
    for sink in sinks:
        own = [one for one in sources if one.pair == sink.pair]
        told = own and all("totals" in (one.result or {}) for one in own)
        sink.request_stop(total_of(own, "tx_offered") if told else None)
    for sink in sinks:
        sink.wait_result(RESULT_GRACE_S)


def _start_together(
    engines: Sequence[EngineProcess],
    asked: Sequence[Mapping[str, str | float]],
    duration_s: float,
    patience: float,
) -> None:
    """Start applications that send and listen, all at one moment.

    One that hears of it after that moment was not listening when the others began: that start
    is given up, and tried again with more time. Raises `TrialFailed` after `BEGIN_TRIES`."""
    lead_s = (BEGIN_LEAD_S + len(engines) * BEGIN_LEAD_EACH_S) * patience
    for _ in range(BEGIN_TRIES):
        at_ns = time.monotonic_ns() + round(lead_s * 1e9)
        start_all(engines, [{**options, "at": at_ns} for options in asked])
        if all((engine.started_ns or 0) <= at_ns for engine in engines):
            return
        for engine in engines:
            engine.give_up_trial(duration_s, RESULT_GRACE_S)
        lead_s *= BEGIN_PATIENCE
    raise TrialFailed(
        "the applications were not all listening when the first began to send, in "
        f"{BEGIN_TRIES} starts: the machine is too busy"
    )


def _exact(duration_s: float) -> str | float:
    """Short bursts last microseconds, and a geometric mean has many digits: the engine reads no
    exponent, and no more than some digits. To the nanosecond."""
    return duration_s if duration_s == round(duration_s, 6) >= 1e-3 else f"{duration_s:.9f}"


def measure(trial: Trial, pairs: Sequence[PairEnds], policy: TrimPolicy, tick: Tick) -> Seen:
    """Run one throughput trial on applications that are ready and verified."""
    senders = [pair.a for pair in pairs]
    receivers = [pair.b for pair in pairs]
    duplex = senders[0] in receivers
    run_traffic(senders, receivers, trial.duration_s, tick)
    begun_ns, ended_ns = common_time(senders)
    window = window_ns(policy, begun_ns, ended_ns)
    for engine in (*senders, *receivers):
        if not _kept([engine], window):
            raise TrialFailed(
                f"no sample of the {engine.role} in {engine.node} lies wholly in the kept window: "
                "measure longer, or trim less"
            )
    loads = [_pair_loads(trial, pair, window) for pair in pairs]
    samples = [s for pair in pairs for s in pair.b.intervals]
    return Seen(
        throughput=_sum(trial, pairs, loads, window),
        trim=describe(policy, begun_ns, ended_ns, samples),
        steady=_steady(pairs, (begun_ns, ended_ns)),
        kept_samples=min(len(_kept([receiver], window)) for receiver in receivers),
        source_counters=sending_half(totals(_kept(senders, window)))
        if duplex
        else totals(_kept(senders, window)),
        sink_counters=totals(_kept(receivers, window)),
        sent_frames=total_of(senders, "tx_offered"),
        socket_drops=total_of(receivers, "rx_socket_drops"),
        on_schedule=all(_kept_schedule(sender) for sender in senders),
        stretch=stretch(senders, trial.duration_s),
        passed_frames=sum(unique_frames(receiver) for receiver in receivers),
    )


def sending_half(counters: dict[str, int]) -> dict[str, int]:
    """What an application that sends and receives counted on its sending side: what arrived is
    counted among the sinks, and must not be counted twice."""
    return {k: v for k, v in counters.items() if k.startswith("tx") or k == "ring_full_polls"}


def _steady(pairs: Sequence[PairEnds], whole: tuple[int, int]) -> SteadyRun:
    """The tests for steadiness over every sample in which all were sending, summed over pairs."""
    rates = [
        [rate_per_s([s], "rx_frames") for s in kept_intervals(pair.b.intervals, whole)]
        for pair in pairs
    ]
    found = detect([math.fsum(column) for column in zip(*rates, strict=False)])
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
    """The part of the trial in which every source was sending (CLOCK_MONOTONIC ns)."""
    begun_ns = max(source.started_ns or 0 for source in sources)
    ended_ns = min(
        (source.started_ns or 0) + (source.result or {})["duration_ns"] for source in sources
    )
    if ended_ns <= begun_ns:
        raise TrialFailed("the senders never sent all at the same time: measure longer")
    return begun_ns, ended_ns


def _kept(engines: Sequence[EngineProcess], window: tuple[int, int]) -> list[Interval]:
    return [s for engine in engines for s in kept_intervals(engine.intervals, window)]


def stretch(sources: Sequence[EngineProcess], duration_s: float) -> float:
    """By how much of its duration the slowest source ran too long."""
    longest_ns = max((source.result or {})["duration_ns"] for source in sources)
    return max(0.0, float(longest_ns) / (duration_s * 1e9) - 1)


def total_of(engines: Sequence[EngineProcess], counter: str) -> int:
    """A counter's sum over the whole trial, what was drained after it included."""
    return sum((one.result or {}).get("totals", {}).get(counter, 0) for one in engines)


def unique_frames(receiver: EngineProcess) -> int:
    """Different frames that arrived in the whole trial."""
    return int(((receiver.result or {}).get("loss") or {}).get("received_unique", 0))


def _kept_schedule(sender: EngineProcess) -> bool:
    pacing = (sender.result or {}).get("pacing")
    return pacing is None or bool(pacing["on_schedule"])


def _pair_loads(trial: Trial, pair: PairEnds, window: tuple[int, int]) -> PairLoads:
    loss = (pair.b.result or {}).get("loss") or {}
    offered = (pair.a.result or {})["totals"]["tx_offered"]
    unique = loss.get("received_unique", 0)
    if unique > offered:
        raise TrialFailed(
            f"counts of pair {pair.a.pair} contradict each other: {unique} different frames "
            f"received, {offered} sent"
        )
    return PairLoads(
        pair=pair.a.pair,
        direction=pair.direction,
        intended_pps=_intended_pps(trial, pair, window),
        offered_pps=rate_per_s(kept_intervals(pair.a.intervals, window), "tx_offered"),
        forwarded_pps=rate_per_s(kept_intervals(pair.b.intervals, window), "rx_frames"),
        lost_frames=offered - unique,
        duplicates=loss.get("duplicates", 0),
        reordered=loss.get("reordered", 0),
        corrupt=(pair.b.result or {})["totals"].get("rx_corrupt", 0),
        reordering=reordering(loss),
    )


def _intended_pps(trial: Trial, pair: PairEnds, window: tuple[int, int]) -> float | None:
    """What the schedule asked for; where that changes, by the sender's own account."""
    if is_steady(trial.schedule):
        return float(trial.rate_pps) if trial.rate_pps else None
    if trial.rate_pps is None and not has_own_rate(trial.schedule):
        return None
    return rate_per_s(kept_intervals(pair.a.intervals, window), "tx_intended")


def _total_intended_pps(trial: Trial, loads: Sequence[PairLoads]) -> float | None:
    if is_steady(trial.schedule):
        return float(trial.rate_pps * trial.streams) if trial.rate_pps else None
    asked = [load.intended_pps for load in loads if load.intended_pps is not None]
    return math.fsum(asked) if asked else None


def _sum(
    trial: Trial, pairs: Sequence[PairEnds], loads: Sequence[PairLoads], window: tuple[int, int]
) -> Throughput:
    offered_frames = sum((pair.a.result or {})["totals"]["tx_offered"] for pair in pairs)
    lost = sum(load.lost_frames or 0 for load in loads)
    forwarded = sum(load.forwarded_pps for load in loads)
    l2_bps = forwarded * trial.packet_size_bytes * 8
    if trial.packet_mix:  # a switch may lose some sizes more than others: what arrived counts
        l2_bps = 8 * sum(
            rate_per_s(kept_intervals(pair.b.intervals, window), "rx_bytes") for pair in pairs
        )
    return Throughput(
        intended_pps=_total_intended_pps(trial, loads),
        offered_pps=sum(load.offered_pps for load in loads),
        forwarded_pps=forwarded,
        forwarded_l2_bps=l2_bps,
        forwarded_l1_bps=l2_bps + forwarded * 8 * L1_OVERHEAD_BYTES,
        forwarded_stdev_pps=_stdev_pps(pairs, window),
        loss_ratio=lost / offered_frames if offered_frames else 0.0,
        pairs=list(loads),
        directions=_directions(pairs, loads) if trial.bidirectional else [],
        **_order(pairs),
        jain_fairness=jain([load.forwarded_pps for load in loads]),
    )


def _directions(pairs: Sequence[PairEnds], loads: Sequence[PairLoads]) -> list[DirectionLoads]:
    """Both directions apart, each over all pairs."""
    found = []
    for direction in dict.fromkeys(load.direction for load in loads):
        own = [load for load in loads if load.direction == direction]
        sent = sum(
            (pair.a.result or {})["totals"]["tx_offered"]
            for pair in pairs
            if pair.direction == direction
        )
        lost = sum(load.lost_frames or 0 for load in own)
        found.append(
            DirectionLoads(
                direction=direction,
                offered_pps=sum(load.offered_pps for load in own),
                forwarded_pps=sum(load.forwarded_pps for load in own),
                loss_ratio=lost / sent if sent else 0.0,
            )
        )
    return found


def _order(pairs: Sequence[PairEnds]) -> dict[str, Any]:
    """How many of all frames that arrived had been overtaken, and by how many at most."""
    losses = [(pair.b.result or {}).get("loss") or {} for pair in pairs]
    unique = sum(loss.get("received_unique", 0) for loss in losses)
    return {
        "reordered_ratio": sum(loss.get("reordered", 0) for loss in losses) / unique
        if unique
        else None,
        "max_reorder_extent": max(loss.get("max_reorder_extent", 0) for loss in losses),
    }


def _stdev_pps(pairs: Sequence[PairEnds], window: tuple[int, int]) -> float:
    """Spread of the forwarded load over time: pairs' variances add, as their samples are
    independent clocks that cannot be summed sample by sample."""
    variance = 0.0
    for pair in pairs:
        rates = [
            rate_per_s([sample], "rx_frames") for sample in kept_intervals(pair.b.intervals, window)
        ]
        if len(rates) > 1:
            mean = sum(rates) / len(rates)
            variance += sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1)
    return math.sqrt(variance)
