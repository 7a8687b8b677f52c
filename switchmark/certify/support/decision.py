"""Decides whether a figure is within its tolerance: proven, refuted, or undecided.

Each round gives one error, measured minus true value. The interval of the median error is computed
by order statistics at planned interim analyses (statistics/boundaries.py), since noise that only
makes times longer, or a disturbed round, hardly changes a median. A figure is proven if the whole
interval lies within the tolerance, and refuted if it lies outside.

Counts have no tolerance. They are proven if enough frames were counted without an error that, with
95 % confidence, fewer than one in 10^5 is wrong (rule of three), and refuted after three rounds
with errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.record.certificate import PROVEN, REFUTED, UNDECIDED, Outcome
from switchmark.statistics.boundaries import StoppingRule, planned_analyses
from switchmark.statistics.means import LEVEL
from switchmark.statistics.order_statistics import ranks_of
from switchmark.statistics.shares import share_interval

MOST_ROUNDS = 40
FRAMES_DUE = 300_000  # correct frames that prove, at 95 %, an error rate below one in 10^5
WRONG_ROUNDS = 3  # rounds that refute a count; a single error may be a frame of another program


@dataclass(frozen=True, slots=True)
class JudgedErrors:
    """The decision from the errors so far."""

    outcome: Outcome
    low: float  # interval of the error; for a count, of the share of wrong frames
    high: float
    rounds: int
    rounds_to_go: int = 0  # estimate for an undecided figure


def rule_for(quantities: int, most_rounds: int = MOST_ROUNDS) -> StoppingRule:
    """Return the interim analyses of figures that are claimed together."""
    return StoppingRule(planned_analyses(most_rounds), family=max(1, quantities))


def judge(
    errors: Sequence[float],
    within: float,
    rule: StoppingRule,
    *,
    below: float | None = None,
    is_last: bool = False,
) -> JudgedErrors:
    """Compare errors with a tolerance; `below` is that of errors below zero. Only a planned interim
    analysis decides, or the last one, if the time is over."""
    lowest = -(within if below is None else below)
    rounds = len(errors)
    if not rounds or not (rule.is_analysis(rounds) or is_last):
        return JudgedErrors(UNDECIDED, -math.inf, math.inf, rounds, _next(rule, rounds))
    low, high = median_interval(errors, rule.level_at(rounds, is_last=is_last))
    if low > within or high < lowest:
        return JudgedErrors(REFUTED, low, high, rounds)
    if lowest <= low and high <= within:
        return JudgedErrors(PROVEN, low, high, rounds)
    further = _next(rule, rounds)
    if math.isfinite(high - low):
        further = max(further, math.ceil(rounds * (((high - low) / (within - lowest)) ** 2 - 1)))
    return JudgedErrors(UNDECIDED, low, high, rounds, further)


def judge_counts(
    wrong: Sequence[float], frames: Sequence[int], due: int = FRAMES_DUE
) -> JudgedErrors:
    """Judge the numbers of wrong frames, and of all frames, of each round."""
    counted, errors = sum(frames), sum(map(abs, wrong))
    low, high = share_of_errors(errors, counted)
    rounds = len(wrong)
    wrong_rounds = sum(error != 0 for error in wrong)
    if wrong_rounds >= WRONG_ROUNDS:
        return JudgedErrors(REFUTED, low, high, rounds)
    if not wrong_rounds and counted >= due:
        return JudgedErrors(PROVEN, low, high, rounds)
    frames_left = max(due - counted, counted if wrong_rounds else 0)
    left = math.ceil(frames_left * rounds / max(1, counted))
    return JudgedErrors(UNDECIDED, low, high, rounds, max(1, left))


def median_interval(values: Sequence[float], level: float) -> tuple[float, float]:
    """Return the observations that contain the median with confidence 1 - `level` (sign test)."""
    low, high = ranks_of(len(values), 0.5, level)
    if low is None or high is None:
        return -math.inf, math.inf
    ordered = sorted(values)
    return ordered[low - 1], ordered[high - 1]


def share_of_errors(wrong: float, frames: int) -> tuple[float, float]:
    """Return the interval of the share of wrong frames; one-sided if no frame was wrong."""
    return share_interval(min(wrong, frames), frames, LEVEL if wrong else 2 * LEVEL)


def _next(rule: StoppingRule, rounds: int) -> int:
    analysis = rule.next_analysis(rounds)
    return analysis - rounds if analysis else 1
