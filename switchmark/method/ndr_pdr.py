"""NDR and PDR by MLRsearch (RFC 9971): several loss ratios in one search.

The search itself is the reference implementation by its authors (PyPI `mlrsearch`, the package
`MLRsearch`). This file gives it its goals and its budget, ends it when noise decides, and reads
what it found. Loads are totals over all pairs and directions, which MLRsearch and its result do not
depend on.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from switchmark.errors import UsageError
from switchmark.method.support import confirm
from switchmark.method.support.bounds import (
    SearchResult,
    Stopped,
    by_switch_in_kernel,
    check_range,
    conclude,
    mixed_range,
    with_gap_notes,
)
from switchmark.method.support.goal import Goal, preset
from switchmark.method.support.measurer import (
    REPEATS,
    BudgetedMeasurer,
    BudgetError,
    LoadPoint,
    Measurer,
    repeated_note,
)
from switchmark.method.support.method import Method
from switchmark.method.support.task import Task
from switchmark.record import GoalBounds, MethodFigure, MethodResult
from switchmark.record.metric import method_metric

DEFAULT_MIN_PPS = 9001.0  # as FD.io CSIT; below, a 1 s trial has too few frames to judge
DEFAULT_BUDGET_S = 1200.0
DEFAULT_WARM_UP_S = 1.0
CONFIRM_OVERHEAD = 1.3  # of the traffic's time, that confirming takes in all
MIN_LOAD_SHARE = 0.001  # of the highest load, where that is below the usual lowest
USUAL_TIME_S = {"csit": 70.0, "rfc2544": 240.0, "tst009": 370.0, "quick": 34.0}  # by the goals


def search(
    measurer: Measurer,
    goals: Sequence[Goal],
    *,
    max_pps: float,
    min_pps: float = DEFAULT_MIN_PPS,
    budget_s: float = DEFAULT_BUDGET_S,
    warm_up_s: float = DEFAULT_WARM_UP_S,
    stop_on_noise: bool = True,
    try_again: bool = True,
) -> SearchResult:
    """Find lower and upper bounds for each goal between `min_pps` and `max_pps`.

    `max_pps` is the highest load worth asking (line rate, or the sender's ceiling on the bare
    wire). A warm-up trial at `max_pps` comes first and counts for nothing but the budget. With
    `try_again`, repeated trials at the end confirm or change the bounds; up to half of the budget
    is kept for them. A budget that ends, or a switch beyond the range, raises nothing: the bounds
    known by then are returned, and `stopped` and `decided_by` say why."""
    check_range(min_pps, max_pps)
    kept_s = min(budget_s / 2, CONFIRM_OVERHEAD * confirm.time_s(goals)) if try_again else 0.0
    budgeted = BudgetedMeasurer(measurer, budget_s - kept_s, repeats=REPEATS)
    engine = _library_search(goals, min_pps, max_pps)
    stopped: Stopped = "done"
    warm_up_trials = 0
    try:
        if warm_up_s > 0:
            budgeted.measure(warm_up_s, max_pps)
            warm_up_trials = 1
        adapter = _Adapter(budgeted, engine, goals, stop_on_noise)
        engine.search(adapter, debug=_silent)
    except BudgetError:
        stopped = "budget"
    except _NoiseError:
        stopped = "noise"
    trials = budgeted.points[warm_up_trials:]
    bounds: Sequence[GoalBounds] = [
        conclude(goal, *_found(engine, goal), trials, (min_pps, max_pps)) for goal in goals
    ]
    if try_again:
        budgeted.budget_s = budget_s
        bounds = confirm.confirm(goals, bounds, budgeted, (min_pps, max_pps))
    return SearchResult(
        bounds=with_gap_notes(bounds),
        trials=tuple(budgeted.points),
        warm_up_trials=warm_up_trials,
        spent_s=budgeted.spent_s,
        stopped=stopped,
        repeated=len(budgeted.repeated),
    )


def _library() -> ModuleType:
    """Import the library, which takes half a second: only searches pay for it."""
    import MLRsearch  # type: ignore[import-untyped]

    return MLRsearch  # type: ignore[no-any-return]


class _NoiseError(Exception):
    """No goal that is still open can be narrowed further."""


class _Adapter:
    """The measurer in the form that the library calls."""

    def __init__(
        self, budgeted: BudgetedMeasurer, engine: Any, goals: Sequence[Goal], stop_on_noise: bool
    ) -> None:
        self._ledger = budgeted
        self._engine = engine
        self._goals = goals
        self._stop_on_noise = stop_on_noise
        self._first = len(budgeted.points)

    def measure(self, intended_duration: float, intended_load: float) -> Any:
        """Run a trial, unless the search should end here."""
        if self._stop_on_noise and self._only_noise_is_left():
            raise _NoiseError
        return _as_library_result(self._ledger.measure(intended_duration, intended_load))

    def _only_noise_is_left(self) -> bool:
        trials = self._ledger.points[self._first :]
        open_goals = [goal for goal in self._goals if not self._is_done(goal)]
        return bool(open_goals) and all(mixed_range(goal, trials) for goal in open_goals)

    def _is_done(self, goal: Goal) -> bool:
        lower, upper, _ = _found(self._engine, goal)
        return lower is not None and upper is not None and (upper - lower) <= goal.width * upper


def _library_goal(goal: Goal) -> Any:
    return _library().SearchGoal(
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        relative_width=goal.width,
        initial_trial_duration=goal.initial_trial_s,
        final_trial_duration=goal.final_trial_s,
        duration_sum=goal.duration_sum_s,
        preceding_targets=goal.preceding_targets,
        expansion_coefficient=2,  # while one bound is missing; costs time only
        fail_fast=False,
    )


def _library_search(goals: Sequence[Goal], min_pps: float, max_pps: float) -> Any:
    """The library's search object; its own warm-up and time limit are left to `search`."""
    try:
        config = _library().Config()
        config.goals = [_library_goal(goal) for goal in goals]
        config.min_load = min_pps  # first: the highest is checked against it
        config.max_load = max_pps
        config.search_duration_max = 1e9
        config.warmup_duration = None
    except ValueError as error:
        raise UsageError(f"search goals: {error}") from None
    return _library().MultipleLossRatioSearch(config=config)


def _as_library_result(point: LoadPoint) -> Any:
    """The trial as the library takes it. Durations are the intended ones, so that duration sums
    count traffic and no overhead; a shortfall within tolerance is no loss."""
    return _library().MeasurementResult(
        intended_duration=point.duration_s,
        intended_load=point.intended_pps,
        offered_count=point.offered_frames,
        loss_count=point.uncarried_frames,
        intended_count=point.offered_frames if point.load_judged else point.judged_frames,
    )


def _found(engine: Any, goal: Goal) -> tuple[float | None, float | None, float | None]:
    """Lower bound, upper bound and conditional throughput, as far as the search knows them."""
    if getattr(engine, "database", None) is None:
        return None, None, None
    target = engine.scaling.goal_to_final_target[_library_goal(goal)]
    bounds = engine.database.get_relevant_bounds(target=target)
    lower = None if bounds.clo is None else float(bounds.clo)
    upper = None if bounds.chi is None else float(bounds.chi)
    if bounds.clo is None or lower is None:
        return lower, upper, None
    (stat,) = bounds.clo.target_to_stat.values()
    return lower, upper, lower * (1 - stat.pessimistic_loss_ratio)


def _silent(_: str) -> None:
    """Discard the library's narration of every step; the trials say the same in fewer words."""


def run(task: Task) -> MethodResult:
    """Search, within the trial's budget, for the goals that the trial names."""
    found = search(
        task.measurer,
        preset(task.trial.goals),
        max_pps=task.max_pps,
        min_pps=min(DEFAULT_MIN_PPS, MIN_LOAD_SHARE * task.max_pps),
        budget_s=task.limit_s,
    )
    bounds = [
        by_switch_in_kernel(one, task.wire_pps, in_kernel=task.in_kernel) for one in found.bounds
    ]
    figures = [_lower_bound(one) for one in bounds if one.lower_pps is not None]
    return task.result(
        figures[0].name if figures else None,
        figures,
        stopped=found.stopped,
        warm_up_trials=found.warm_up_trials,
        notes=repeated_note(found.repeated),
        bounds=bounds,
    )


def _lower_bound(found: GoalBounds) -> MethodFigure:
    """The lower bound. If anything but the switch and noise made the upper bound, or none held, the
    name does not claim to be the switch's limit, and the figure has no upper bound."""
    assert found.lower_pps is not None, "asked of goals with a lower bound only"
    is_limit = found.decided_by not in ("sender", "cores", "range") and found.upper_pps is not None
    return MethodFigure(
        name=found.goal if is_limit else f"{found.goal} at least",
        value=found.lower_pps,
        unit="pps",
        low=found.lower_pps,
        high=found.upper_pps if is_limit else None,
    )


METHOD = Method(
    name="ndr-pdr",
    meaning="highest load without loss, and with 0.5 % loss, by MLRsearch",
    run=run,
    usual_time_s=lambda trial: USUAL_TIME_S[trial.goals],
    reads=("goals",),
    default_budget_s=DEFAULT_BUDGET_S,
    compared=(method_metric("NDR", "pps"), method_metric("PDR", "pps")),
)
