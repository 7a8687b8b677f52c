"""Plain bisection after RFC 2544 section 26.1: one trial a load, one goal a search.

It is kept for comparison, as the method that everyone knows: it believes every single trial, so one
accident moves the result for good, and nothing in the result says so.
"""

from __future__ import annotations

from switchmark.method.ndr_pdr import DEFAULT_MIN_PPS
from switchmark.method.support.bounds import SearchResult, Stopped, check_range, conclude
from switchmark.method.support.goal import Goal
from switchmark.method.support.measurer import BudgetedMeasurer, BudgetError, Measurer


def bisection_goal(
    name: str, loss_ratio: float, *, trial_s: float = 60.0, width: float = 0.005
) -> Goal:
    """A goal for single trials; RFC 2544 section 24 asks for at least 60 s."""
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
    measurer: Measurer,
    goal: Goal,
    *,
    max_pps: float,
    min_pps: float = DEFAULT_MIN_PPS,
    budget_s: float = float("inf"),
    warm_up_s: float = 0.0,
) -> SearchResult:
    """Halve the interval between the highest good and the lowest bad load until it is narrow.

    The first trial is at `max_pps`; `min_pps` is tried only when everything above was bad.
    """
    check_range(min_pps, max_pps)
    budgeted = BudgetedMeasurer(measurer, budget_s)
    lower: float | None = None
    upper: float | None = None
    forwarded: float | None = None
    stopped: Stopped = "done"
    warm_up_trials = 0
    try:
        if warm_up_s > 0:
            budgeted.measure(warm_up_s, max_pps)
            warm_up_trials = 1
        load: float | None = max_pps
        while load is not None:
            point = budgeted.measure(goal.final_trial_s, load)
            if point.search_loss_ratio > goal.loss_ratio:
                upper = load
            else:
                lower, forwarded = load, load * (1 - point.search_loss_ratio)
            load = _next_load(goal, lower, upper, min_pps)
    except BudgetError:
        stopped = "budget"
    trials = budgeted.points[warm_up_trials:]
    return SearchResult(
        bounds=(conclude(goal, lower, upper, forwarded, trials, (min_pps, max_pps)),),
        trials=tuple(budgeted.points),
        warm_up_trials=warm_up_trials,
        spent_s=budgeted.spent_s,
        stopped=stopped,
    )


def _next_load(
    goal: Goal, lower: float | None, upper: float | None, min_pps: float
) -> float | None:
    """The middle of the interval; None when the search is done."""
    if upper is None or upper <= min_pps:
        return None
    floor = min_pps if lower is None else lower
    if upper - floor <= goal.width * upper:
        return min_pps if lower is None else None
    return (floor + upper) / 2
