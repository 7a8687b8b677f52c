"""One-way times at a load, for methods that compare switches at fractions of their own best."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.method.support.measurer import LoadPoint
from switchmark.method.support.task import Task
from switchmark.record import Latency, LatencyAtLoad, MethodFigure

EACH_WAY = ("mean", "median")  # of each direction; the record has all of them


def latency_at(task: Task, fraction: float, load_pps: float) -> LatencyAtLoad:
    """One-way times at a load.

    Where the trial has a probe rate, probes are timed beside the load, which keeps its bursts. Else
    every frame is timed and sent singly, since a burst measures its own queue; a sender that cannot
    offer the load so takes the trial's burst."""
    burst = 1 if task.trial.probe_rate_pps is None else task.trial.burst
    _, found = timed_at(task, fraction, load_pps, burst)
    if not found.load_met and task.trial.burst > burst:
        _, found = timed_at(task, fraction, load_pps, task.trial.burst)
    return found


def timed_at(
    task: Task, fraction: float, load_pps: float, burst: int
) -> tuple[LoadPoint, LatencyAtLoad]:
    """One trial of one-way times in bursts of this size."""
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
    """Mean, median, 99th percentile and spread at each fraction of R+."""
    names = ("mean", "median", "p99", "stdev")
    return [
        figure
        for one in latency
        for figure in both_ways(one.latency, names, f" at {one.fraction:g} R+")
    ]


def both_ways(times: Latency, names: Sequence[str], where: str = "") -> list[MethodFigure]:
    """One-way times over all streams and, of bidirectional traffic, of each direction."""
    apart = [
        figure
        for way in times.directions
        for figure in figures_of(way.latency, EACH_WAY, f"{where}, {way.direction}")
    ]
    return figures_of(times, names, where) + apart


def figures_of(times: Latency, names: Sequence[str], where: str = "") -> list[MethodFigure]:
    """One-way times by their names, with the uncertainty of two hosts' clocks, which moves all
    alike and leaves their deviation as it is."""
    values = {
        "mean": times.mean_ns,
        "min": times.min_ns,
        "max": times.max_ns,
        "stdev": times.stdev_ns,
        "median": times.percentiles_ns["50"],
    } | {f"p{key}": value for key, value in times.percentiles_ns.items()}
    unsure = {name: times.clock_uncertainty_ns for name in names if name != "stdev"}
    return [
        MethodFigure(
            name=f"one-way {name}{where}",
            value=values[name],
            unit="ns",
            low=None if (by := unsure.get(name)) is None else max(0.0, values[name] - by),
            high=None if by is None else values[name] + by,
            count=times.count,
        )
        for name in names
    ]
