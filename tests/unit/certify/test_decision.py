"""Decisions of `certify`: proven, refuted and undecided, with few errors."""

from __future__ import annotations

import random

import pytest

from switchmark.certify.support.decision import (
    WRONG_ROUNDS,
    judge,
    judge_counts,
    median_interval,
    rule_for,
    share_of_errors,
)
from switchmark.record.certificate import PROVEN, REFUTED, UNDECIDED

RULE = rule_for(1)


def decide(errors: list[float], within: float) -> str:
    """Return the outcome of the first interim analysis that decides, or of the last one."""
    for count in RULE.analyses:
        found = judge(errors[:count], within, RULE)
        if found.outcome != UNDECIDED:
            return found.outcome
    return judge(errors, within, RULE, is_last=True).outcome


def noisy(truth: float, spread: float, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [truth + draw.gauss(0, spread) for _ in range(RULE.analyses[-1])]


@pytest.mark.parametrize(("off", "outcome"), [(0.0, PROVEN), (5.0, REFUTED), (-5.0, REFUTED)])
def test_errors_beyond_the_tolerance_are_decided(off: float, outcome: str) -> None:
    assert {decide(noisy(off, 0.5, seed), 2.0) for seed in range(10)} == {outcome}


def test_error_at_the_tolerance_is_rarely_decided() -> None:
    """At the tolerance, each claim is wrong in at most half of a level of 5 %."""
    outcomes = [decide(noisy(2.0, 0.5, seed), 2.0) for seed in range(100)]
    assert outcomes.count(PROVEN) + outcomes.count(REFUTED) <= 0.08 * len(outcomes)
    assert outcomes.count(UNDECIDED) > 75


def test_outliers_and_positive_noise_do_not_refute() -> None:
    draw = random.Random(7)
    errors = [draw.expovariate(2.0) if draw.random() < 0.8 else 1e6 for _ in range(40)]
    assert decide(errors, 2.0) == PROVEN


def test_decision_between_analyses_is_undecided() -> None:
    found = judge([0.0] * (RULE.analyses[0] - 1), 1.0, RULE)
    assert (found.outcome, found.rounds_to_go) == (UNDECIDED, 1)
    wide = judge(noisy(0, 10, 1)[: RULE.analyses[1]], 1.0, RULE, is_last=True)
    assert wide.outcome == UNDECIDED and wide.rounds_to_go > RULE.analyses[1]


def test_counts_need_frames_for_proof_rounds_for_refutal() -> None:
    assert judge_counts([0, 0], [100_000, 100_000]).outcome == UNDECIDED
    assert judge_counts([0, 0], [100_000, 100_000]).rounds_to_go == 1
    proven = judge_counts([0] * 3, [100_000] * 3)
    assert proven.outcome == PROVEN and proven.high < 1e-5
    odd = judge_counts([1, *[0] * 9], [100_000] * 10)  # a foreign frame does not refute
    assert odd.outcome == UNDECIDED and 0 < odd.low < 1e-6 < odd.high
    wrong = judge_counts([1] * WRONG_ROUNDS, [100_000] * WRONG_ROUNDS)
    assert wrong.outcome == REFUTED and wrong.low > 0


def test_errors_of_opposite_sign_do_not_cancel() -> None:
    assert judge_counts([1, -1, 1, -1], [10**6] * 4).outcome == REFUTED


def test_intervals_equal_published_values() -> None:
    # 95 % for the median of 10: 2nd and 9th (W. Conover, Practical Nonparametric Statistics)
    assert median_interval(range(1, 11), 0.05) == (2, 9)
    assert median_interval([1.0] * 5, 0.05)[0] == float("-inf")  # five values are too few
    assert share_of_errors(0, 300_000)[1] == pytest.approx(3 / 300_000, rel=2e-3)
    low, high = share_of_errors(5, 100)
    assert (low, high) == (pytest.approx(0.0164, abs=1e-4), pytest.approx(0.1128, abs=1e-4))
