"""Decisions of `certify`: proven, refuted and undecided come as they should, seldom wrongly."""

from __future__ import annotations

import random

import pytest

from switchmark.certify.support.decision import (
    WRONG_TURNS,
    judge,
    judge_counts,
    median_interval,
    rule_for,
    share_of_errors,
)
from switchmark.record.certificate import PROVEN, REFUTED, UNDECIDED

RULE = rule_for(1)


def decided(errors: list[float], within: float) -> str:
    """What the first look that decides says; the last one has to."""
    for count in RULE.looks:
        found = judge(errors[:count], within, RULE)
        if found.outcome != UNDECIDED:
            return found.outcome
    return judge(errors, within, RULE, is_last=True).outcome


def noisy(truth: float, spread: float, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [truth + draw.gauss(0, spread) for _ in range(RULE.looks[-1])]


@pytest.mark.parametrize(("off", "outcome"), [(0.0, PROVEN), (5.0, REFUTED), (-5.0, REFUTED)])
def test_errors_far_from_the_border_are_decided(off: float, outcome: str) -> None:
    assert {decided(noisy(off, 0.5, seed), 2.0) for seed in range(10)} == {outcome}


def test_an_error_at_the_border_is_seldom_called_either() -> None:
    """At the border either claim is wrong in half of a level of 5 % at most."""
    seen = [decided(noisy(2.0, 0.5, seed), 2.0) for seed in range(100)]
    assert seen.count(PROVEN) + seen.count(REFUTED) <= 0.08 * len(seen)
    assert seen.count(UNDECIDED) > 75


def test_outliers_and_noise_that_only_adds_move_nothing() -> None:
    draw = random.Random(7)
    errors = [draw.expovariate(2.0) if draw.random() < 0.8 else 1e6 for _ in range(40)]
    assert decided(errors, 2.0) == PROVEN


def test_between_looks_nothing_is_decided_and_the_rest_is_told() -> None:
    found = judge([0.0] * (RULE.looks[0] - 1), 1.0, RULE)
    assert (found.outcome, found.turns_to_go) == (UNDECIDED, 1)
    wide = judge(noisy(0, 10, 1)[: RULE.looks[1]], 1.0, RULE, is_last=True)
    assert wide.outcome == UNDECIDED and wide.turns_to_go > RULE.looks[1]


def test_counts_need_frames_to_be_proven_and_turns_to_be_refuted() -> None:
    assert judge_counts([0, 0], [100_000, 100_000]).outcome == UNDECIDED
    assert judge_counts([0, 0], [100_000, 100_000]).turns_to_go == 1
    proven = judge_counts([0] * 3, [100_000] * 3)
    assert proven.outcome == PROVEN and proven.high < 1e-5
    odd = judge_counts([1, *[0] * 9], [100_000] * 10)  # a stranger's frame is no refutation
    assert odd.outcome == UNDECIDED and 0 < odd.low < 1e-6 < odd.high
    wrong = judge_counts([1] * WRONG_TURNS, [100_000] * WRONG_TURNS)
    assert wrong.outcome == REFUTED and wrong.low > 0


def test_too_many_and_too_few_do_not_make_up_for_each_other() -> None:
    assert judge_counts([1, -1, 1, -1], [10**6] * 4).outcome == REFUTED


def test_intervals_are_those_of_the_books() -> None:
    # 95 % of the median of 10: the 2nd and the 9th (W. Conover, Practical Nonparametric Statistics)
    assert median_interval(range(1, 11), 0.05) == (2, 9)
    assert median_interval([1.0] * 5, 0.05)[0] == float("-inf")  # five never tell it
    assert share_of_errors(0, 300_000)[1] == pytest.approx(3 / 300_000, rel=2e-3)
    low, high = share_of_errors(5, 100)
    assert (low, high) == (pytest.approx(0.0164, abs=1e-4), pytest.approx(0.1128, abs=1e-4))
