"""One-way times at a load, for methods that compare switches at fractions of their own best."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.method.support.task import Task
from switchmark.results.record import LatencyAtLoad, MethodFigure


def latency_at(task: Task, fraction: float, load_pps: float) -> LatencyAtLoad:
    """Probes beside the load, where the trial has a rate for them; the load keeps its bursts.
    Else every frame is timed, and they go singly, since a burst measures its own queue; a sender
    that cannot offer the load so takes the trial's burst."""
    probes = task.trial.probe_rate_pps
    burst = 1 if probes is None else task.trial.burst
    point, latency = task.measurer.measure_latency(task.trial.duration_s, load_pps, burst)
    if not point.load_met and task.trial.burst > burst:
        burst = task.trial.burst
        point, latency = task.measurer.measure_latency(task.trial.duration_s, load_pps, burst)
    return LatencyAtLoad(
        fraction=fraction,
        load_pps=load_pps,
        burst=burst,
        probe_rate_pps=None if probes is None else float(probes * task.trial.streams),
        load_met=point.load_met,
        loss_ratio=point.loss_ratio,
        latency=latency,
    )


def one_way_figures(latency: Sequence[LatencyAtLoad]) -> list[MethodFigure]:
    """Median and 99th percentile of the one-way times, with what two hosts' clocks leave open."""
    return [
        MethodFigure(
            name=f"one-way {name} at {one.fraction:g} R+",
            value=(value := one.latency.percentiles_ns[key]),
            unit="ns",
            low=None if unsure is None else max(0.0, value - unsure),
            high=None if unsure is None else value + unsure,
            count=one.latency.count,
        )
        for one in latency
        for name, key in (("median", "50"), ("p99", "99"))
        for unsure in (one.latency.clock_uncertainty_ns,)
    ]
