"""One-way times at a set load: how long frames take from sender to receiver, and their spread.

It times every frame, or a probe stream (`probe_rate`) beside an untimed load; on one host by one
clock, between two by clocks that are compared. Of bidirectional traffic both ways are timed at
once. A traffic generator with time stamps on two ports of its own measures the same through a
switch.
"""

from __future__ import annotations

from switchmark.errors import Refusal
from switchmark.method.support.method import Method
from switchmark.method.support.one_way import both_ways, timed_at
from switchmark.method.support.task import Task, pps_text
from switchmark.model.trial import Trial
from switchmark.record import MethodResult
from switchmark.record.metric import method_metric

WARM_UP_SHARE = 0.2  # of the duration, before it
FIGURES = ("mean", "min", "median", "p90", "p99", "p99.9", "max", "stdev")


def run(task: Task) -> MethodResult:
    """Run one warm-up and one timed trial of the whole duration at the trial's own rate and
    burst."""
    load_pps = task.max_pps
    task.measurer.measure(_warm_up_s(task.trial), load_pps)
    point, found = timed_at(task, 1.0, load_pps, task.trial.burst)
    unmet = f"of {pps_text(load_pps)} only {pps_text(point.offered_pps)} were offered"
    return task.result(
        "one-way median",
        both_ways(found.latency, FIGURES),
        warm_up_trials=1,
        notes=() if point.load_met else (unmet,),
        latency=[found],
    )


def _warm_up_s(trial: Trial) -> float:
    return max(0.1, WARM_UP_SHARE * trial.duration_s)


METHOD = Method(
    name="one-way",
    meaning="one-way times at the set rate, of every frame or of probes beside a load",
    run=run,
    usual_time_s=lambda trial: trial.duration_s + _warm_up_s(trial),
    fixed_time=True,
    compared=tuple(method_metric(f"one-way {name}", "ns") for name in ("mean", "median", "p99")),
    needs_rate=Refusal(
        "method one-way needs a set load", "give rate, e.g. 100k (r-plus takes fractions of R+)"
    ),
    times_frames=True,
    limited_by="rate",
)
