"""Whether a figure is as true as is claimed: proven, refuted, or not yet known.

Every turn gives one error, measured less true. The median error has its interval of order
statistics at planned looks (statistics/boundaries.py): noise that only ever adds, or a turn that
other programs spoilt, moves a median little. A figure is proven when the whole interval lies
within the tolerance, refuted when it lies outside of it.

Counts are no matter of tolerance: proven when none of so many frames was counted wrong that, at
95 %, fewer than one in 10^5 is (the rule of three); refuted when three turns were wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.record.certificate import PROVEN, REFUTED, UNDECIDED, Outcome
from switchmark.statistics.boundaries import StoppingRule, planned_looks
from switchmark.statistics.means import LEVEL
from switchmark.statistics.order_statistics import ranks_of
from switchmark.statistics.shares import share_interval

MOST_TURNS = 40
FRAMES_DUE = 300_000  # without a wrong one: at 95 % fewer than one in 10^5 is wrong
WRONG_TURNS = 3  # refute a count; one might be a stranger's frame


@dataclass(frozen=True, slots=True)
class JudgedErrors:
    """The conclusion from the errors so far."""

    outcome: Outcome
    low: float  # the interval of the error; of a count, of the share of frames
    high: float
    turns: int
    turns_to_go: int = 0  # about, where it is undecided


def rule_for(quantities: int, most_turns: int = MOST_TURNS) -> StoppingRule:
    """The looks at figures that are claimed together, and the level of each."""
    return StoppingRule(planned_looks(most_turns), family=max(1, quantities))


def judge(
    errors: Sequence[float],
    within: float,
    rule: StoppingRule,
    *,
    below: float | None = None,
    is_last: bool = False,
) -> JudgedErrors:
    """Judge errors against a tolerance (`below` zero maybe another): at a planned look, or at the
    last when time has run out; in between nothing is decided."""
    lowest = -(within if below is None else below)
    turns = len(errors)
    if not turns or not (rule.is_look(turns) or is_last):
        return JudgedErrors(UNDECIDED, -math.inf, math.inf, turns, _next(rule, turns))
    low, high = median_interval(errors, rule.level_at(turns, is_last=is_last))
    if low > within or high < lowest:
        return JudgedErrors(REFUTED, low, high, turns)
    if lowest <= low and high <= within:
        return JudgedErrors(PROVEN, low, high, turns)
    further = _next(rule, turns)
    if math.isfinite(high - low):
        further = max(further, math.ceil(turns * (((high - low) / (within - lowest)) ** 2 - 1)))
    return JudgedErrors(UNDECIDED, low, high, turns, further)


def judge_counts(
    wrong: Sequence[float], frames: Sequence[int], due: int = FRAMES_DUE
) -> JudgedErrors:
    """Judge counts: for each turn the frames counted wrong, and all frames."""
    counted, errors = sum(frames), sum(abs(one) for one in wrong)
    low, high = share_of_errors(errors, counted)
    turns = len(wrong)
    off = sum(one != 0 for one in wrong)
    if off >= WRONG_TURNS:
        return JudgedErrors(REFUTED, low, high, turns)
    if not off and counted >= due:
        return JudgedErrors(PROVEN, low, high, turns)
    left = math.ceil(max(due - counted, counted if off else 0) * turns / max(1, counted))
    return JudgedErrors(UNDECIDED, low, high, turns, max(1, left))


def median_interval(values: Sequence[float], level: float) -> tuple[float, float]:
    """The observations that bound the median, except with the chance `level` (sign test)."""
    low, high = ranks_of(len(values), 0.5, level)
    if low is None or high is None:
        return -math.inf, math.inf
    ordered = sorted(values)
    return ordered[low - 1], ordered[high - 1]


def share_of_errors(wrong: float, frames: int) -> tuple[float, float]:
    """The interval of the share of frames that are counted wrong; one-sided if none was."""
    return share_interval(min(wrong, frames), frames, LEVEL if wrong else 2 * LEVEL)


def _next(rule: StoppingRule, turns: int) -> int:
    look = rule.next_look(turns)
    return look - turns if look else 1
