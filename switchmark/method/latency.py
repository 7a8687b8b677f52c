"""Round-trip time: a client sends paced requests, a server echoes them.

Two runs on one deployment: a warm-up whose samples are thrown away whole, then the
measurement, of which every sample counts. Times are given from the actual send time and
from the *intended* one, so that a client that fell behind cannot hide it (coordinated
omission).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from switchmark.campaign.model import Trial, TrimPolicy
from switchmark.errors import TrialFailed
from switchmark.method.beside import load_beside, probe_results, probes_lost
from switchmark.method.engine import EngineProcess
from switchmark.method.one_way import Clocks, TimedRun, corrected
from switchmark.method.quality import delay_variation
from switchmark.method.seen import Seen
from switchmark.method.throughput import Tick, run_traffic, stretch, total_of, unique_frames
from switchmark.method.trim import totals
from switchmark.method.verification import PairEnds
from switchmark.results.histogram import merge_histograms, percentiles_ns
from switchmark.results.order_statistics import percentile_intervals_ns
from switchmark.results.record import Latency, Trim
from switchmark.results.statistics import of_all


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
) -> Seen:
    """Run one latency trial on applications that are ready, verified and warmed up. With the
    clocks of two hosts the way there is timed, too."""
    clients = [pair.a for pair in pairs]
    servers = [pair.b for pair in pairs]
    timed = TimedRun.begin(clocks, pairs, trial.duration_s) if clocks else None
    asked = {"latency": 1} if timed else {}
    run_traffic(clients, servers, trial.duration_s, tick, sink_options=asked)
    samples = [s for client in clients for s in client.intervals]
    ended_ns = max(s.t_ns for s in samples) if samples else 0
    started_ns = min(client.started_ns or 0 for client in clients)
    return Seen(
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
        source_counters=totals(samples),
        sink_counters={},
        sent_frames=total_of(clients, "tx_offered"),
        socket_drops=total_of([*clients, *servers], "rx_socket_drops"),
        stretch=stretch(clients, trial.duration_s),
        passed_frames=_passed_frames(trial, pairs),
        on_schedule=all(
            bool(((client.result or {}).get("pacing") or {"on_schedule": True})["on_schedule"])
            for client in clients
        ),
    )


def _passed_frames(trial: Trial, pairs: Sequence[PairEnds]) -> int:
    """Answered requests pass twice; beside probes, which do, too, the load passes once."""
    if trial.probe_rate_pps is None:
        return 2 * sum(unique_frames(pair.a) for pair in pairs)
    probes = probe_results([pair.a.result or {} for pair in pairs])
    answered = sum(one["loss"]["received_unique"] for one in probes)
    return sum(unique_frames(pair.b) for pair in pairs) + 2 * int(answered)


def merge_latency(
    kind: Literal["rtt", "one_way"],
    results: Sequence[Mapping[str, Any]],
    lost: int,
    nothing: str,
) -> Latency:
    """One distribution of several engines' results, from their merged histograms.

    Raises `TrialFailed` saying `nothing` when there is no sample in any of them."""
    actual = merge_histograms(result["latency"]["from_actual"] for result in results)
    intended = merge_histograms(result["latency"]["from_intended"] for result in results)
    reported = [result["latency"] for result in results if result["latency"]["count"]]
    if not actual.get_total_count() or not reported:
        raise TrialFailed(f"{nothing}: there is no latency to report")
    mean, stdev = of_all((one["count"], one["mean_ns"], one["stdev_ns"]) for one in reported)
    late = [one["intended"] for one in reported]
    late_mean, late_stdev = of_all((one["count"], one["mean_ns"], one["stdev_ns"]) for one in late)
    return Latency(
        kind=kind,
        count=sum(one["count"] for one in reported),
        min_ns=min(one["min_ns"] for one in reported),
        mean_ns=mean,
        stdev_ns=stdev,
        max_ns=max(one["max_ns"] for one in reported),
        percentiles_ns=percentiles_ns(actual),
        intended_percentiles_ns=percentiles_ns(intended),
        percentile_intervals_ns=percentile_intervals_ns(actual),
        intended_percentile_intervals_ns=percentile_intervals_ns(intended),
        intended_mean_ns=late_mean,
        intended_stdev_ns=late_stdev,
        intended_max_ns=max(one["max_ns"] for one in late),
        histogram=actual.encode().decode(),
        intended_histogram=intended.encode().decode(),
        lost=lost,
        variation=delay_variation([result["latency"] for result in results]),
    )


def merge_one_way(
    results: Sequence[Mapping[str, Any]], lost: int, timed: TimedRun | None, nothing: str
) -> Latency:
    """The same of one-way times; of those between hosts, with the uncertainty of the clocks."""
    if timed is None:
        return merge_latency("one_way", results, lost, nothing)
    corrections = timed.end()
    if not any(result["latency"]["count"] for result in results):
        raise TrialFailed(f"{nothing}: there is no latency to report")
    true = [corrected(result, by) for result, by in zip(results, corrections, strict=True)]
    merged = merge_latency("one_way", true, lost, nothing)
    uncertain = max(one.uncertainty_ns for one in corrections)
    return merged.model_copy(update={"clock_uncertainty_ns": float(uncertain)})


def _way_there(trial: Trial, pairs: Sequence[PairEnds], timed: TimedRun) -> Latency:
    """Of the requests (or probes), as the servers timed them."""
    sent: Sequence[Mapping[str, Any]] = [pair.a.result or {} for pair in pairs]
    arrived: Sequence[Mapping[str, Any]] = [pair.b.result or {} for pair in pairs]
    if trial.probe_rate_pps is not None:
        sent, arrived = probe_results(sent), probe_results(arrived)
    return merge_one_way(arrived, probes_lost(sent, arrived), timed, "no request arrived")


def _merge_probes(trial: Trial, pairs: Sequence[PairEnds]) -> Latency:
    """Of the probes alone; the load beside them is told with it."""
    probes = probe_results([pair.a.result or {} for pair in pairs])
    merged = merge_latency("rtt", probes, probes_lost(probes, probes), "no probe was answered")
    return merged.model_copy(update={"beside": load_beside(trial, pairs)})


def _merge(clients: Sequence[EngineProcess]) -> Latency:
    results = [client.result or {} for client in clients]
    requests = sum(result["totals"]["tx_offered"] for result in results)
    answers = sum((result.get("loss") or {}).get("received_unique", 0) for result in results)
    lost = max(0, requests - answers)
    merged = merge_latency("rtt", results, lost, "no request was answered")
    if answers > requests:
        raise TrialFailed(f"counts contradict each other: {answers} answers to {requests} requests")
    return merged
