"""Which samples count. Expected figures are worked out by hand."""

from __future__ import annotations

import pytest

from switchmark.engine.events import IntervalEvent
from switchmark.engine.loads import NO_FRAMES, forwarded_pps, offered_pps, sum_of
from switchmark.model.campaign import TrimPolicy, sample_s
from switchmark.trial.trim import describe, kept_intervals, window_ns
from tests.unit.engine_lines import counters, interval
from tests.unit.trial_fakes import T0, S

POLICY = TrimPolicy(warm_up_s=1.0, cool_down_s=0.4)


def sample(end_s: float, duration_s: float = 0.2, **counted: int) -> IntervalEvent:
    return interval(t_ns=T0 + round(end_s * S), duration_ns=round(duration_s * S), **counted)


def test_warm_up_and_cool_down_are_left_out() -> None:
    assert window_ns(POLICY, T0, T0 + 5 * S) == (T0 + S, T0 + 4_600_000_000)
    assert window_ns(TrimPolicy(warm_up_s=0, cool_down_s=0), T0, T0 + S) == (T0, T0 + S)


@pytest.mark.parametrize(
    ("duration_s", "begin_s", "end_s"),
    [
        (2.0, 1.0, 1.6),  # 0.6 s of 2 are more than a quarter: as asked
        (1.9, 1.0, 1.5),
        (1.8, 0.45, 1.35),  # 0.4 s of 1.8 are not: the middle half
        (1.0, 0.25, 0.75),
        (0.1, 0.025, 0.075),
    ],
)
def test_a_run_too_short_keeps_its_middle_half(
    duration_s: float, begin_s: float, end_s: float
) -> None:
    window = window_ns(POLICY, T0, T0 + round(duration_s * S))
    assert window == (T0 + round(begin_s * S), T0 + round(end_s * S))


@pytest.mark.parametrize(
    ("duration_s", "warm_up_s", "cool_down_s", "longest_sample_s"),
    [(10.0, 1.0, 0.4, 0.2), (5.0, 1.0, 0.4, 0.2), (1.0, 0.2, 0.08, 0.04), (0.5, 0.1, 0.04, 0.02)],
)
def test_trims_and_samples_follow_duration_up_to_a_limit(
    duration_s: float, warm_up_s: float, cool_down_s: float, longest_sample_s: float
) -> None:
    over = TrimPolicy().over(duration_s)
    assert (over.warm_up_s, over.cool_down_s) == (warm_up_s, cool_down_s)
    assert sample_s(0.2, duration_s) == longest_sample_s
    assert over.over(duration_s / 2) == over


def test_a_trim_that_is_set_stays_as_it_is_set() -> None:
    assert TrimPolicy(warm_up_s=1.0).over(0.5) == TrimPolicy(warm_up_s=1.0, cool_down_s=0.04)
    assert sample_s(0.5, 1.0) == 0.5 and sample_s(0.2, 0.001) == 0.001


def test_half_a_second_keeps_three_quarters_of_it() -> None:
    samples = [sample(0.02 * k, 0.02) for k in range(1, 26)]
    done = describe(TrimPolicy().over(0.5), T0, T0 + S // 2, samples)
    assert done.policy == "fixed: first 0.1 s and last 0.04 s left out"
    assert (done.samples_kept, done.samples_dropped) == (18, 7)


def test_samples_partly_in_the_window_are_left_out() -> None:
    window = (T0 + S, T0 + 2 * S)
    ends = [1.0, 1.1, 1.2, 1.3, 1.9, 2.0, 2.1, 2.2]
    saved = [s.t_ns for s in kept_intervals([sample(end) for end in ends], window)]
    assert saved == [T0 + round(end * S) for end in (1.2, 1.3, 1.9, 2.0)]


def test_edges_belong_to_the_window() -> None:
    window = (T0 + S, T0 + 2 * S)
    assert list(kept_intervals([sample(2.0, 1.0)], window))
    early, late = sample(2.0, 1.0 + 1 / S), sample(2.0 + 1 / S, 1.0)
    assert not list(kept_intervals([early], window))
    assert not list(kept_intervals([late], window))


def test_rates_are_over_true_lengths() -> None:
    """A sample that the machine drew out to 0.3 s weighs by its length: 400 frames in 0.4 s
    are 1000/s, although the mean of 1500/s and 333/s is not."""
    drawn_out = [sample(0.1, 0.1, rx_frames=150), sample(0.4, 0.3, rx_frames=250)]
    assert forwarded_pps(drawn_out) == 1000.0
    assert offered_pps(drawn_out) == 0.0
    assert forwarded_pps([]) == 0.0


def test_sums_of_counters() -> None:
    parts = [sample(1, rx_frames=1, tx_polls=2), sample(2, rx_frames=3)]
    assert sum_of(parts) == counters(rx_frames=4, tx_polls=2)
    assert sum_of([]) == NO_FRAMES


def test_the_account_says_what_was_done() -> None:
    samples = [sample(0.2 * k) for k in range(1, 26)]
    done = describe(POLICY, T0, T0 + 5 * S, samples)
    assert done.policy == "fixed: first 1 s and last 0.4 s left out"
    # 1.2 (from 1.0) up to 4.6: 18 samples.
    assert (done.samples_kept, done.samples_dropped) == (18, 7)
    assert (done.kept_from_ns, done.kept_to_ns) == (T0 + S, T0 + 4_600_000_000)


def test_the_account_of_a_short_run_does_not_claim_the_policy() -> None:
    done = describe(POLICY, T0, T0 + S, [sample(0.2 * k) for k in range(1, 6)])
    assert done.policy.endswith("the run of 1 s was too short: middle half kept")
    assert (done.samples_kept, done.samples_dropped) == (1, 4)
