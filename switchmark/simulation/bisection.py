"""Plain bisection after RFC 2544 section 26.1, with one trial of each load and one goal.

It exists for comparison, as the best-known method. A single disturbed trial changes the result for
good, and the result does not show it.
"""

from __future__ import annotations

from switchmark.method.ndr_pdr import DEFAULT_MIN_PPS
from switchmark.method.support.bounds import SearchResult, Stopped, check_range, conclude
from switchmark.method.support.goal import Goal
from switchmark.method.support.measurer import BudgetedMeasurer, BudgetError, Measurer


def bisection_goal(
    name: str, loss_ratio: float, *, trial_s: float = 60.0, width: float = 0.005
) -> Goal:
    """Return a goal for single trials; RFC 2544 section 24 requires at least 60 s."""
    return Goal(
        name=name,
        loss_ratio=loss_ratio,
        final_trial_s=trial_s,
        duration_sum_s=trial_s,
        exceed_ratio=0.0,
        width=width,
        initial_trial_s=trial_s,
        preceding_targets=0,
    )


def search(
    measurer: Measurer, goal: Goal, *, max_pps: float, budget_s: float = float("inf")
) -> SearchResult:
    """Halve the interval between the highest good and the lowest bad load until it is narrow. The
    first trial is at `max_pps`, and the lowest load is only tried if all higher loads were bad."""
    limits_pps = DEFAULT_MIN_PPS, max_pps
    check_range(*limits_pps)
    budgeted = BudgetedMeasurer(measurer, budget_s)
    lower: float | None = None
    upper: float | None = None
    forwarded: float | None = None
    stopped: Stopped = "done"
    try:
        load: float | None = max_pps
        while load is not None:
            point = budgeted.measure(goal.final_trial_s, load)
            if point.search_loss_ratio > goal.loss_ratio:
                upper = load
            else:
                lower, forwarded = load, load * (1 - point.search_loss_ratio)
            load = _next_load(goal, lower, upper)
    except BudgetError:
        stopped = "budget"
    return SearchResult(
        bounds=(conclude(goal, lower, upper, forwarded, budgeted.points, limits_pps),),
        trials=tuple(budgeted.points),
        warm_up_trials=0,
        spent_s=budgeted.spent_s,
        stopped=stopped,
    )


def _next_load(goal: Goal, lower: float | None, upper: float | None) -> float | None:
    """Return the middle of the interval; None if the search is done."""
    if upper is None or upper <= DEFAULT_MIN_PPS:
        return None
    floor = DEFAULT_MIN_PPS if lower is None else lower
    if upper - floor <= goal.width * upper:
        return DEFAULT_MIN_PPS if lower is None else None
    return (floor + upper) / 2
