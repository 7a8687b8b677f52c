"""NDR and PDR by MLRsearch (RFC 9971): several loss ratios in one search.

The search is the reference implementation of its authors (PyPI `mlrsearch`, package `MLRsearch`).
This file sets its goals and its budget, ends it when noise decides, and reads its result. Loads are
totals over all pairs and directions; MLRsearch does not depend on this.
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
    is_starved,
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
from switchmark.record.metric import AT_LEAST, method_metric

DEFAULT_MIN_PPS = 9001.0  # as in FD.io CSIT: a trial of 1 s below it has too few frames
DEFAULT_BUDGET_S = 1200.0
DEFAULT_WARM_UP_S = 1.0
CONFIRM_OVERHEAD = 1.3  # total time of the confirmation, divided by the time of its traffic
MIN_LOAD_SHARE = 0.001  # the lowest load as a share of the highest, if below DEFAULT_MIN_PPS
USUAL_TIME_S = {"csit": 70.0, "rfc2544": 240.0, "tst009": 370.0, "quick": 34.0}


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

    `max_pps` is the highest useful load: line rate, or the baseline of the sender. A warm-up trial
    at `max_pps` comes first; it only counts against the budget. With `try_again`, repeated trials
    at the end confirm or change the bounds, and up to half of the budget is reserved for them. If
    the budget ends, the applications lack their cores, or the capacity is outside the range, the
    function returns the bounds so far; `stopped` and `decided_by` give the reason."""
    check_range(min_pps, max_pps)
    reserved_s = min(budget_s / 2, CONFIRM_OVERHEAD * confirm.time_s(goals)) if try_again else 0.0
    budgeted = BudgetedMeasurer(measurer, budget_s - reserved_s, repeats=REPEATS)
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
    except _StarvedError:
        stopped = "cores"
    trials = budgeted.points[warm_up_trials:]
    bounds: Sequence[GoalBounds] = [
        conclude(goal, *_found(engine, goal), trials, (min_pps, max_pps)) for goal in goals
    ]
    if try_again and stopped != "cores":
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
    """Import the library only for a search, since the import takes half a second."""
    import MLRsearch  # type: ignore[import-untyped]

    return MLRsearch  # type: ignore[no-any-return]


class _NoiseError(Exception):
    """The bounds of the open goals cannot be narrowed further."""


class _StarvedError(Exception):
    """An application or the switch did not have its core, at several loads."""


class _Adapter:
    """Adapts the measurer to the interface of the library."""

    def __init__(
        self, budgeted: BudgetedMeasurer, engine: Any, goals: Sequence[Goal], stop_on_noise: bool
    ) -> None:
        self._ledger = budgeted
        self._engine = engine
        self._goals = goals
        self._stop_on_noise = stop_on_noise
        self._first = len(budgeted.points)

    def measure(self, intended_duration: float, intended_load: float) -> Any:
        """Run a trial; raise `_NoiseError` if only noise is left to measure, and `_StarvedError`
        if trials show nothing about the switch."""
        if self._stop_on_noise and self._only_noise_is_left():
            raise _NoiseError
        if is_starved(self._ledger.points[self._first :]):
            raise _StarvedError
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
    """Return the library's search. `search` itself limits its time and runs the warm-up."""
    try:
        config = _library().Config()
        config.goals = [_library_goal(goal) for goal in goals]
        config.min_load = min_pps  # set first, since the library checks max_load against it
        config.max_load = max_pps
        config.search_duration_max = 1e9
        config.warmup_duration = None
    except ValueError as error:
        raise UsageError(f"search goals: {error}") from None
    return _library().MultipleLossRatioSearch(config=config)


def _as_library_result(point: LoadPoint) -> Any:
    """Convert a trial for the library. Durations are the intended ones, so that sums of durations
    count traffic without overhead. A shortfall within tolerance does not count as loss."""
    return _library().MeasurementResult(
        intended_duration=point.duration_s,
        intended_load=point.intended_pps,
        offered_count=point.offered_frames,
        loss_count=point.uncarried_frames,
        intended_count=point.offered_frames if point.load_judged else point.judged_frames,
    )


def _found(engine: Any, goal: Goal) -> tuple[float | None, float | None, float | None]:
    """Return lower bound, upper bound and conditional throughput; None for those not found yet."""
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
    """Discard the log of the library; the record has the trials."""


def run(task: Task) -> MethodResult:
    """Search for the goals of the trial within its budget."""
    result = search(
        task.measurer,
        preset(task.trial.goals),
        max_pps=task.max_pps,
        min_pps=min(DEFAULT_MIN_PPS, MIN_LOAD_SHARE * task.max_pps),
        budget_s=task.limit_s,
    )
    bounds = [
        by_switch_in_kernel(bounds, task.wire_pps, in_kernel=task.in_kernel)
        for bounds in result.bounds
    ]
    figures = [_lower_bound(goal) for goal in bounds if goal.lower_pps is not None]
    return task.result(
        figures[0].name if figures else None,
        figures,
        stopped=result.stopped,
        warm_up_trials=result.warm_up_trials,
        notes=repeated_note(result.repeated),
        bounds=bounds,
    )


def _lower_bound(bounds: GoalBounds) -> MethodFigure:
    """Return the lower bound. If neither the switch nor noise decided the upper bound, or there is
    none, the name does not claim a limit of the switch, and the figure has no upper bound."""
    assert bounds.lower_pps is not None, "the caller selects goals with a lower bound"
    is_limit = (
        bounds.decided_by not in ("sender", "cores", "range") and bounds.upper_pps is not None
    )
    return MethodFigure(
        name=bounds.goal if is_limit else f"{bounds.goal}{AT_LEAST}",
        value=bounds.lower_pps,
        unit="pps",
        low=bounds.lower_pps,
        high=bounds.upper_pps if is_limit else None,
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
