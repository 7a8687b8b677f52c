"""One-way times at a set load: how long frames take from sender to receiver, and their spread.

The method times every frame, or a probe stream (`probe_rate`) beside a load that is not timed. On
one host, both times come from one clock. Between two hosts, the clocks are compared. The two
directions of bidirectional traffic are timed at the same time.
"""

from __future__ import annotations

from switchmark.errors import Refusal
from switchmark.method.support.method import Method
from switchmark.method.support.one_way import both_ways, timed_at
from switchmark.method.support.task import Task, pps_text
from switchmark.model.trial import Trial
from switchmark.record import MethodResult
from switchmark.record.metric import method_metric

WARM_UP_SHARE = 0.2  # duration of the warm-up trial, as a share of the timed one
FIGURES = ("mean", "min", "median", "p90", "p99", "p99.9", "max", "stdev")


def run(task: Task) -> MethodResult:
    """Run a warm-up trial and a timed trial at the rate and the burst of the campaign."""
    load_pps = task.max_pps
    task.measurer.measure(_warm_up_s(task.trial), load_pps)
    point, times = timed_at(task, 1.0, load_pps, task.trial.burst)
    unmet = f"of {pps_text(load_pps)} only {pps_text(point.offered_pps)} were offered"
    return task.result(
        "one-way median",
        both_ways(times.latency, FIGURES),
        warm_up_trials=1,
        notes=() if point.load_met else (unmet,),
        latency=[times],
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
