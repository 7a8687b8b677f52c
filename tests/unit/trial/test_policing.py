"""The attempts that judge a policer: disturbed ones are repeated, and all others must agree."""

from __future__ import annotations

import math

import pytest

from switchmark.trial.policing import ATTEMPTS, least_loss, until_judged, worst_of
from switchmark.trial.policing_judge import TOO_LITTLE, Verdict

RIGHT, HIGH, LOW = Verdict(0.004), Verdict(0.05), Verdict(-0.05)
DISTURBED = Verdict(None, "stalled")


def judged(*verdicts: Verdict) -> tuple[Verdict, list[float]]:
    """Return the verdict of attempts with these results, and the rates of the attempts."""
    rates: list[float] = []

    def attempt(rate: float) -> Verdict:
        rates.append(rate)
        return verdicts[min(len(rates), len(verdicts)) - 1]

    return until_judged(attempt), rates


def test_first_undisturbed_attempt_accepts_a_right_policer() -> None:
    assert judged(RIGHT, HIGH) == (RIGHT, [3.0])
    assert judged(DISTURBED, RIGHT) == (RIGHT, [3.0, 3.0])


def test_senders_that_offered_too_little_get_the_highest_rate() -> None:
    slow = Verdict(None, TOO_LITTLE)
    assert judged(slow, DISTURBED, RIGHT) == (RIGHT, [3.0, math.inf, math.inf])


@pytest.mark.parametrize("wrong", [HIGH, LOW])
def test_wrong_policer_needs_two_attempts(wrong: Verdict) -> None:
    verdict, rates = judged(wrong, DISTURBED, wrong)
    assert verdict == wrong
    assert len(rates) == 3


def test_single_wrong_attempt_among_disturbed_ones_counts() -> None:
    assert judged(LOW, DISTURBED)[0] == LOW


def test_attempts_that_disagree_judge_nothing() -> None:
    """A wrong attempt is not outvoted by a right one."""
    assert judged(LOW, RIGHT)[0] == Verdict(None, "undisturbed attempts disagree")


def test_disturbed_attempts_end_with_their_reason() -> None:
    verdict, rates = judged(DISTURBED)
    assert verdict == DISTURBED
    assert len(rates) == ATTEMPTS


def test_loss_below_the_cir_counts_only_if_it_repeats() -> None:
    """A stall can add losses, and never takes them away."""
    results = [Verdict(-0.2), Verdict(-0.001)]
    assert least_loss(lambda: results.pop(0)) == Verdict(-0.001)
    losses = iter([-0.2, -0.06, -0.3, -0.1, -0.2, -0.3])
    assert least_loss(lambda: Verdict(next(losses))) == Verdict(-0.06)
    assert least_loss(lambda: DISTURBED) == DISTURBED


def test_streams_are_judged_by_the_worst() -> None:
    assert worst_of([RIGHT, Verdict(-0.02)]) == Verdict(-0.02)
    assert worst_of([RIGHT, DISTURBED]) == DISTURBED
    assert worst_of([DISTURBED, HIGH, RIGHT]) == HIGH
