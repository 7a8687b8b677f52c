"""Runs a method of many trials on a deployment that is ready and verified.

The method gets a measurer, the highest load and its budget. The highest load is the rate of the
trial. Without a rate it is the baseline and, if that is not known, somewhat more than the switch
accepted from a saturating sender.
"""

from __future__ import annotations

from switchmark.engine import loads
from switchmark.errors import TrialFailed
from switchmark.method.registry import METHODS
from switchmark.method.support.measurer import SATURATING, BudgetError
from switchmark.method.support.task import Task
from switchmark.model.parameter_table import PARAMETERS
from switchmark.model.trial import Trial
from switchmark.record import Figures, MethodResult
from switchmark.switch.support.base import attacher_of
from switchmark.switch.support.changes import changes_of, table_changes_of
from switchmark.trial.deployment import Deployment
from switchmark.trial.disturbed import DisturbedMeasurer
from switchmark.trial.recording import Measurement
from switchmark.trial.traffic import Tick

BEYOND = 1.3  # factor on the load that the switch accepted, if the baseline is not known
FIRST_TRIAL_S = 1.0
FIRST_TRIALS = 3  # most tries while applications or the switch are kept from their cores


def measure(
    trial: Trial, deployment: Deployment, baseline_pps: float | None, tick: Tick
) -> Measurement:
    """Run the trial's method; `baseline_pps` is the baseline of all pairs together."""
    measurer = DisturbedMeasurer(
        trial, deployment.streams, tick, deployment.plan.far, deployment.switch.process_ids
    )
    result = _result(trial, measurer, deployment, baseline_pps)
    return Measurement(
        figures=Figures(method=result),
        trim=None,
        kept_samples=len(measurer.points),
        source_counters=measurer.source_counters,
        sink_counters=measurer.sink_counters,
        sent_frames=sum(one.offered_frames for one in measurer.points),
        socket_drops=sum(one.socket_drops for one in measurer.side_counts),
        on_schedule=all(one.load_met for one in result.latency),
        stretch=measurer.stretch,
        passed_frames=sum(one.offered_frames - one.lost_frames for one in measurer.points),
        cpu=measurer.cpu,
        far_cpu=measurer.far_cpu,
    )


def _result(
    trial: Trial, measurer: DisturbedMeasurer, deployment: Deployment, baseline_pps: float | None
) -> MethodResult:
    """Return the method's result. Raises `TrialFailed` if the method has no result."""
    method = METHODS[trial.method]
    switch = deployment.switch
    max_pps = _max_pps(trial, measurer, baseline_pps) if method.needs_load else 0.0
    task = Task(
        trial=trial,
        measurer=measurer,
        max_pps=max_pps,
        budget_s=method.default_budget_s if trial.budget_s is None else trial.budget_s,
        wire_pps=baseline_pps,
        in_kernel=not switch.process_ids(),
        restart_switch=deployment.running_switch.restart,
        switch_changes=lambda: changes_of(switch),
        table_changes=lambda: table_changes_of(switch),
        attacher=lambda: attacher_of(switch),
        earlier_trials=len(measurer.points),
    )
    try:
        return method.run(task)
    except BudgetError as error:
        raise TrialFailed(
            f"{trial.method}: {error}", remedy=f"raise {PARAMETERS['budget_s'].name}"
        ) from None


def _max_pps(trial: Trial, measurer: DisturbedMeasurer, baseline_pps: float | None) -> float:
    if (intended_pps := loads.asked_pps(trial, trial.streams)) is not None:
        return intended_pps
    if baseline_pps is not None:
        return baseline_pps
    points = [measurer.measure(FIRST_TRIAL_S, SATURATING)]
    while points[-1].needs_repetition and len(points) < FIRST_TRIALS:
        points.append(measurer.measure(FIRST_TRIAL_S, SATURATING))
    most_pps = max(one.offered_pps for one in points)
    if most_pps <= 0:
        raise TrialFailed("the sender could not offer a single frame")
    return BEYOND * most_pps
