"""One-way times at a load, and their figures."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.method.support.measurer import LoadPoint
from switchmark.method.support.task import Task
from switchmark.record import Latency, LatencyAtLoad, MethodFigure

EACH_WAY = ("mean", "median")  # figures of each direction; the record also has the others


def latency_at(task: Task, fraction: float, load_pps: float) -> LatencyAtLoad:
    """Measure one-way times at a load.

    If the trial has a probe rate, probes are timed beside the load, which is sent in its bursts.
    Otherwise every frame is timed and sent singly, since frames of a burst wait for each other. If
    the sender cannot offer the load in this way, it sends the bursts of the trial."""
    burst = 1 if task.trial.probe_rate_pps is None else task.trial.burst
    _, times = timed_at(task, fraction, load_pps, burst)
    if not times.load_met and task.trial.burst > burst:
        _, times = timed_at(task, fraction, load_pps, task.trial.burst)
    return times


def timed_at(
    task: Task, fraction: float, load_pps: float, burst: int
) -> tuple[LoadPoint, LatencyAtLoad]:
    """Measure one-way times in one trial with bursts of this size."""
    trial, probes = task.trial, task.trial.probe_rate_pps
    point, latency = task.measurer.measure_latency(trial.duration_s, load_pps, burst)
    return point, LatencyAtLoad(
        fraction=fraction,
        load_pps=load_pps,
        burst=burst,
        probe_rate_pps=None if probes is None else float(probes * trial.streams),
        load_met=point.load_met,
        loss_ratio=point.loss_ratio,
        latency=latency,
    )


def one_way_figures(latency: Sequence[LatencyAtLoad]) -> list[MethodFigure]:
    """Return mean, median, 99th percentile and spread at each fraction of R+."""
    names = ("mean", "median", "p99", "stdev")
    return [
        figure
        for timed in latency
        for figure in both_ways(timed.latency, names, f" at {timed.fraction:g} R+")
    ]


def both_ways(times: Latency, names: Sequence[str], where: str = "") -> list[MethodFigure]:
    """Return the figures over all streams and, for bidirectional traffic, of each direction."""
    directions = [
        figure
        for way in times.directions
        for figure in figures_of(way.latency, EACH_WAY, f"{where}, {way.direction}")
    ]
    return figures_of(times, names, where) + directions


def figures_of(times: Latency, names: Sequence[str], where: str = "") -> list[MethodFigure]:
    """Return figures by their names. Their bounds are the uncertainty of the clocks of two hosts,
    which shifts all times equally and does not change their standard deviation."""
    values = {
        "mean": times.mean_ns,
        "min": times.min_ns,
        "max": times.max_ns,
        "stdev": times.stdev_ns,
        "median": times.percentiles_ns["50"],
    } | {f"p{key}": value for key, value in times.percentiles_ns.items()}
    uncertainty_ns = {name: times.clock_uncertainty_ns for name in names if name != "stdev"}
    return [
        MethodFigure(
            name=f"one-way {name}{where}",
            value=values[name],
            unit="ns",
            low=None if (by := uncertainty_ns.get(name)) is None else max(0.0, values[name] - by),
            high=None if by is None else values[name] + by,
            count=times.count,
        )
        for name in names
    ]
