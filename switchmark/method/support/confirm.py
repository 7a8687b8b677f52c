"""Confirms the bounds of a search at its end by repeated trials of the same loads.

A trial that passes by chance raises the lower bound of a search for good, and a trial that fails by
chance lowers its upper bound. Therefore each lower bound must pass again at the end, and 1.1 times
each upper bound must fail again. A bound that does not hold is not repeated until it holds: a lower
bound is lowered to the next load that passes, and an upper bound is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from switchmark.method.support.goal import Goal
from switchmark.method.support.measurer import (
    MOST_EXCUSED,
    BudgetedMeasurer,
    BudgetError,
    LoadPoint,
)
from switchmark.record import GoalBounds

REPETITIONS = 3
LONGEST_TRIAL_S = 10.0
ABOVE_UPPER = 1.1
LOWERED_TO = (0.98, 0.95, 0.9, 0.8, 0.65, 0.5)  # shares of the search's lower bound
LOWEST_SHARE = 0.999  # a load with at least this forwarded share was carried


def time_s(goals: Sequence[Goal]) -> float:
    """Return the seconds of traffic of the confirmation if every bound holds."""
    return sum(2 * REPETITIONS * _trial_s(goal) for goal in goals)


def confirm(
    goals: Sequence[Goal],
    found: Sequence[GoalBounds],
    measurer: BudgetedMeasurer,
    limits_pps: tuple[float, float],
) -> tuple[GoalBounds, ...]:
    """Test all bounds again. Return the bounds that hold, marked as confirmed. If the budget ends,
    or the applications lack their cores meanwhile, the rest stays unchanged and unconfirmed."""
    trials = _Repeated(measurer)
    confirmed = [
        _confirm_goal(goal, bounds, trials, limits_pps)
        for goal, bounds in zip(goals, found, strict=True)
    ]
    return _in_order([_limit_to_forwarded(bounds, measurer.points) for bounds in confirmed])


def _confirm_goal(
    goal: Goal, found: GoalBounds, trials: _Repeated, limits_pps: tuple[float, float]
) -> GoalBounds:
    bounds = found
    try:
        bounds = _with_lower(goal, bounds, trials, limits_pps[0])
        bounds = _with_upper(goal, bounds, trials, limits_pps[1])
    except (BudgetError, _NoCoreError) as error:
        reason = str(error) if isinstance(error, _NoCoreError) else "the budget ended"
        note = f"{reason} before the bounds were confirmed"
        return bounds.model_copy(update={"notes": [*bounds.notes, note]})
    return bounds.model_copy(update={"confirmed": True})


class _NoCoreError(Exception):
    """A trial failed because an application or the switch lacked its core, which shows nothing
    about the load."""


@dataclass(slots=True)
class _Repeated:
    """Repeated trials by load and length. Goals with equal bounds share them."""

    measurer: BudgetedMeasurer
    trials: dict[tuple[float, float], list[LoadPoint]] = field(default_factory=dict)

    def is_carried(self, goal: Goal, load_pps: float) -> bool:
        """Repeat a load until the outcome is clear. A load is carried if at most the goal's exceed
        ratio of the trials lost more than its loss ratio."""
        trials = self.trials.setdefault((load_pps, _trial_s(goal)), [])
        while (carried := _outcome(goal, trials)) is None:
            trial = self.measurer.measure(_trial_s(goal), load_pps)
            if _is_bad(goal, trial) and trial.kept_away_share > MOST_EXCUSED:
                raise _NoCoreError("an application or the switch was kept from its core")
            trials.append(trial)
        return carried


def _outcome(goal: Goal, trials: Sequence[LoadPoint]) -> bool | None:
    """Return True if the load is carried, and None if that depends on more trials."""
    bad = sum(_is_bad(goal, trial) for trial in trials)
    allowed = int(goal.exceed_ratio * REPETITIONS)
    if bad > allowed:
        return False
    return True if len(trials) - bad >= REPETITIONS - allowed else None


def _is_bad(goal: Goal, trial: LoadPoint) -> bool:
    return trial.search_loss_ratio > goal.loss_ratio


def _trial_s(goal: Goal) -> float:
    return min(goal.final_trial_s, LONGEST_TRIAL_S)


def _with_lower(goal: Goal, found: GoalBounds, trials: _Repeated, min_pps: float) -> GoalBounds:
    if found.lower_pps is None or trials.is_carried(goal, found.lower_pps):
        return found
    first = f"the search's lower bound of {found.lower_pps:.0f} pps did not pass again"
    for share in (1 - goal.width, *LOWERED_TO):
        load = round(share * found.lower_pps)
        if load < min_pps:
            break
        if trials.is_carried(goal, load):
            note = f"{first}; {load} pps did"
            lowered = {"lower_pps": float(load), "conditional_throughput_pps": None}
            return _changed(found, note, is_noise=share < 1 - goal.width, **lowered)
    return _changed(
        found,
        f"{first}, nor did {LOWERED_TO[-1]:.0%} of it: there is no lower bound",
        is_noise=True,
        lower_pps=None,
        conditional_throughput_pps=None,
    )


def _with_upper(goal: Goal, found: GoalBounds, trials: _Repeated, max_pps: float) -> GoalBounds:
    if found.upper_pps is None:
        return found
    load = max(found.upper_pps, min(max_pps, ABOVE_UPPER * found.upper_pps))
    if not trials.is_carried(goal, load):
        return found
    note = (
        f"{load:.0f} pps, {load / found.upper_pps:.2g} times the search's upper bound, passed when "
        "it was repeated: there is no upper bound"
    )
    return _changed(found, note, is_noise=True, upper_pps=None)


def _changed(
    found: GoalBounds, note: str, *, is_noise: bool, **changes: float | None
) -> GoalBounds:
    """Return the bounds after a change. Noise decided them if the change exceeds a width."""
    decided_by = {"decided_by": "noise"} if is_noise else {}
    return found.model_copy(update={**changes, **decided_by, "notes": [*found.notes, note]})


def _limit_to_forwarded(found: GoalBounds, points: Sequence[LoadPoint]) -> GoalBounds:
    """Limit a lower bound to the highest rate that trials at or above it forwarded, since excused
    frames were not carried."""
    lower = found.lower_pps
    if lower is None:
        return found
    best = max(
        (
            point.carried_pps
            for point in points
            if point.intended_pps is None or point.intended_pps >= lower
        ),
        default=0.0,
    )
    known = found.conditional_throughput_pps
    if best >= LOWEST_SHARE * (1 - found.loss_ratio) * lower:
        return found.model_copy(
            update={"conditional_throughput_pps": None if known is None else min(known, best)}
        )
    note = (
        f"lowered from {lower:.0f} pps to the highest rate that its trials forwarded: a sender or "
        "receiver did not run on its core for a while in each of them"
    )
    return found.model_copy(
        update={
            "lower_pps": best,
            "conditional_throughput_pps": best,
            "notes": [*found.notes, note],
        }
    )


def _in_order(found: Sequence[GoalBounds]) -> tuple[GoalBounds, ...]:
    """Raise the lower bounds of tolerant goals to those of stricter goals, which also prove
    them."""
    ordered: list[GoalBounds] = []
    for bounds in sorted(found, key=lambda goal: goal.loss_ratio):
        stricter = max((goal.lower_pps or 0.0 for goal in ordered), default=0.0)
        changes: dict[str, float | None] = {}
        if stricter > (bounds.lower_pps or 0.0):
            changes = {"lower_pps": stricter, "conditional_throughput_pps": None}
            if bounds.upper_pps is not None and bounds.upper_pps <= stricter:
                changes["upper_pps"] = None
        ordered.append(bounds.model_copy(update=changes))
    by_goal = {bounds.goal: bounds for bounds in ordered}
    return tuple(by_goal[bounds.goal] for bounds in found)
