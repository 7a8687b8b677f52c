"""Round-trip time: a client sends paced requests, a server echoes them.

Two runs on one deployment: a warm-up whose samples are thrown away whole, then the
measurement, of which every sample counts. Times are given from the actual send time and
from the *intended* one, so that a client that fell behind cannot hide it (coordinated
omission).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from switchmark.engine import loads
from switchmark.engine.event_parts import ProbeStream, TimedDelays
from switchmark.engine.events import Result
from switchmark.engine.loads import NO_FRAMES, loss_of, sum_of
from switchmark.engine.process import EngineProcess
from switchmark.errors import TrialFailed
from switchmark.model.campaign import TrimPolicy
from switchmark.model.trial import Trial
from switchmark.results.record import Latency, Trim
from switchmark.statistics.histogram import Histogram
from switchmark.statistics.means import of_all
from switchmark.statistics.order_statistics import percentile_intervals_ns
from switchmark.trial.beside import load_beside, probe_load, probes_of
from switchmark.trial.measurement import Measurement
from switchmark.trial.one_way import Clocks, TimedRun, corrected
from switchmark.trial.quality import delay_variation
from switchmark.trial.throughput import (
    Tick,
    on_schedule,
    run_traffic,
    sent_frames,
    socket_drops,
    stretch,
)
from switchmark.trial.verification import PairEnds


def warm_up(pairs: Sequence[PairEnds], policy: TrimPolicy, tick: Tick) -> None:
    """Run the requests for the policy's warm-up time and forget what was seen."""
    if policy.warm_up_s > 0:
        run_traffic([pair.a for pair in pairs], [pair.b for pair in pairs], policy.warm_up_s, tick)


def measure(
    trial: Trial,
    pairs: Sequence[PairEnds],
    policy: TrimPolicy,
    tick: Tick,
    clocks: Clocks | None = None,
) -> Measurement:
    """Run one latency trial on applications that are ready, verified and warmed up. With the
    clocks of two hosts the way there is timed, too."""
    clients = [pair.a for pair in pairs]
    servers = [pair.b for pair in pairs]
    timed = TimedRun.begin(clocks, pairs, trial.duration_s) if clocks else None
    asked = {"latency": 1} if timed else {}
    run_traffic(clients, servers, trial.duration_s, tick, sink_options=asked)
    samples = [s for client in clients for s in client.intervals]
    ended_ns = max(s.t_ns for s in samples) if samples else 0
    started_ns = min(client.started_ns for client in clients)
    return Measurement(
        latency=_merge(clients) if trial.probe_rate_pps is None else _merge_probes(trial, pairs),
        one_way=_way_there(trial, pairs, timed) if timed else None,
        trim=Trim(
            policy=f"separate warm-up run of {policy.warm_up_s:g} s, its samples left out; "
            "every later sample kept",
            kept_from_ns=started_ns,
            kept_to_ns=ended_ns,
            samples_kept=len(samples),
            samples_dropped=0,
        ),
        kept_samples=min(len(client.intervals) for client in clients),
        source_counters=sum_of(samples),
        sink_counters=NO_FRAMES,
        sent_frames=sent_frames(clients),
        socket_drops=socket_drops([*clients, *servers]),
        stretch=stretch(clients, trial.duration_s),
        passed_frames=_passed_frames(trial, pairs),
        on_schedule=on_schedule(clients),
    )


def _passed_frames(trial: Trial, pairs: Sequence[PairEnds]) -> int:
    """Answered requests pass twice; beside probes, which do, too, the load passes once."""
    if trial.probe_rate_pps is None:
        return 2 * sum(loss_of(pair.a.result).received_unique for pair in pairs)
    probes = probes_of(pair.a for pair in pairs)
    answered = sum(loss_of(one).received_unique for one in probes)
    return sum(loss_of(pair.b.result).received_unique for pair in pairs) + 2 * answered


def timed_by(ends: Sequence[Result | ProbeStream]) -> list[TimedDelays]:
    """The delays that each has timed."""
    found = [end.latency for end in ends]
    if any(one is None for one in found):
        raise TrialFailed("a traffic application timed no frames, though it was asked to")
    return [one for one in found if one is not None]


def merge_latency(
    kind: Literal["rtt", "one_way"], timed: Sequence[TimedDelays], lost: int, nothing: str
) -> Latency:
    """One distribution of what several engines timed, from their merged histograms.

    Raises `TrialFailed` saying `nothing` when there is no sample in any of them."""
    counted = [one for one in timed if one.count]
    if not counted:
        raise TrialFailed(f"{nothing}: there is no latency to report")
    actual = Histogram.merged(one.from_actual for one in timed)
    intended = Histogram.merged(one.from_intended for one in timed)
    mean, stdev = of_all((one.count, one.mean_ns, one.stdev_ns) for one in counted)
    late = [one.intended for one in counted]
    late_mean, late_stdev = of_all((one.count, one.mean_ns, one.stdev_ns) for one in late)
    return Latency(
        kind=kind,
        count=sum(one.count for one in counted),
        min_ns=min(one.min_ns for one in counted),
        mean_ns=mean,
        stdev_ns=stdev,
        max_ns=max(one.max_ns for one in counted),
        percentiles_ns=actual.percentiles_ns(),
        intended_percentiles_ns=intended.percentiles_ns(),
        percentile_intervals_ns=percentile_intervals_ns(actual),
        intended_percentile_intervals_ns=percentile_intervals_ns(intended),
        intended_mean_ns=late_mean,
        intended_stdev_ns=late_stdev,
        intended_max_ns=max(one.max_ns for one in late),
        histogram=actual,
        intended_histogram=intended,
        lost=lost,
        variation=delay_variation(timed),
    )


def merge_one_way(
    ends: Sequence[Result | ProbeStream], lost: int, timed: TimedRun | None, nothing: str
) -> Latency:
    """The same of one-way times; of those between hosts, with the uncertainty of the clocks."""
    seen = timed_by(ends)
    if timed is None:
        return merge_latency("one_way", seen, lost, nothing)
    corrections = timed.end()
    true = [corrected(one, by) for one, by in zip(seen, corrections, strict=True)]
    merged = merge_latency("one_way", true, lost, nothing)
    uncertain = max(one.uncertainty_ns for one in corrections)
    return merged.model_copy(update={"clock_uncertainty_ns": float(uncertain)})


def _way_there(trial: Trial, pairs: Sequence[PairEnds], timed: TimedRun) -> Latency:
    """Of the requests (or probes), as the servers timed them."""
    nothing = "no request arrived"
    if trial.probe_rate_pps is not None:
        sent, arrived = probes_of(pair.a for pair in pairs), probes_of(pair.b for pair in pairs)
        return merge_one_way(arrived, probe_load(sent, arrived).lost_frames, timed, nothing)
    each = [loads.load("the requests", pair.a.result, pair.b.result) for pair in pairs]
    ends = [pair.b.result for pair in pairs]
    return merge_one_way(ends, loads.total(each).lost_frames, timed, nothing)


def _merge_probes(trial: Trial, pairs: Sequence[PairEnds]) -> Latency:
    """Of the probes alone; the load beside them is told with it."""
    probes = probes_of(pair.a for pair in pairs)
    lost = probe_load(probes, probes).lost_frames
    merged = merge_latency("rtt", timed_by(probes), lost, "no probe was answered")
    return merged.model_copy(update={"beside": load_beside(trial, pairs)})


def _merge(clients: Sequence[EngineProcess]) -> Latency:
    """Of the answers to all requests."""
    results = [client.result for client in clients]
    each = [loads.load("the answers", one, one) for one in results]
    lost = loads.total(each).lost_frames
    return merge_latency("rtt", timed_by(results), lost, "no request was answered")
