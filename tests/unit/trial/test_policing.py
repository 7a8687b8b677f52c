"""The measured check of a policer: a rate that is 5 % off is found, a sender's pauses are not."""

from __future__ import annotations

import pytest

from switchmark.trial.policing import Attempt, Bucket, attempt_until_judged, worst_of

BUCKET = Bucket(10_000, 1_000)
STEADY = [(0.02, 400)] * 50  # twice the CIR for a second


def test_full_bucket_and_rate_pass_above_the_cir() -> None:
    """The burst passes once, and the rate for the whole time."""
    assert BUCKET.passed(STEADY) == pytest.approx(11_000)


def test_everything_passes_below_the_cir() -> None:
    """Nothing is lost at 0.95 of the CIR, also if the sender pauses and catches up in a burst."""
    assert BUCKET.passed([(0.02, 190)] * 50) == pytest.approx(9_500)
    assert BUCKET.passed([(0.02, 190), (0.06, 0), (0.02, 760)] * 10) == pytest.approx(9_500)


def test_pause_longer_than_the_burst_costs_tokens() -> None:
    """Tokens above the burst size are lost, so fewer frames are expected."""
    paused = [*STEADY[:20], (0.3, 0), *STEADY[:20]]
    assert BUCKET.passed(paused) == pytest.approx(12_000 - 2_000)


def test_rate_that_is_five_percent_off_passes_other_counts() -> None:
    """The tolerance of 2 % lies between a right policer and one that is 5 % off."""
    off = Bucket(10_500, 1_000).passed(STEADY) / BUCKET.passed(STEADY) - 1
    assert off > 0.04


def test_streams_are_judged_by_the_worst() -> None:
    """The largest error counts, and a stream that was not judged makes the whole so."""
    assert worst_of([Attempt(0.01, True), Attempt(-0.03, True)]) == Attempt(-0.03, True)
    assert not worst_of([Attempt(0.0, True), Attempt(0.0, False)]).is_judged
    assert worst_of([Attempt(0.0, True), Attempt(0.0, False, True)]).is_far_below


def test_a_sender_far_below_the_cir_judges_nothing() -> None:
    """Frames that an overloaded switch loses are not the policer's, and no attempt is repeated."""
    shares: list[float] = []

    def attempt(share: float) -> Attempt:
        shares.append(share)
        return Attempt(-0.8, is_judged=False, is_far_below=True)

    assert attempt_until_judged(attempt, 0.95) is None
    assert shares == [0.95]
