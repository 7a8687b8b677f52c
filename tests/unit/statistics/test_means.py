"""Intervals and tests against printed tables and worked examples."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.statistics.comparison import difference
from switchmark.statistics.means import estimate, of_all


@pytest.mark.parametrize(
    ("count", "expected"),  # Student's two-sided 95 % with count - 1 degrees, any textbook's table
    [(2, 12.706), (3, 4.303), (4, 3.182), (5, 2.776), (10, 2.262), (30, 2.045)],
)
def test_intervals_are_students(count: int, expected: float) -> None:
    one = estimate([float(index) for index in range(count)])
    assert one.relative_half_width is not None and one.stdev is not None
    half = one.relative_half_width * one.mean / (one.stdev / math.sqrt(count))
    assert half == pytest.approx(expected, abs=6e-4)


def test_a_stricter_level_is_a_wider_interval() -> None:
    values = [10.0, 12.0, 11.0, 13.0, 14.0]
    usual, strict = estimate(values), estimate(values, 0.01)
    assert usual.relative_half_width == pytest.approx(2.7764 * math.sqrt(2.5 / 5) / 12, rel=1e-4)
    assert strict.relative_half_width == pytest.approx(4.6041 * math.sqrt(2.5 / 5) / 12, rel=1e-4)
    assert estimate([0.0, 0.0]).relative_half_width is None


def test_the_interval_of_five_readings() -> None:
    one = estimate([10.0, 12.0, 11.0, 13.0, 14.0])
    assert (one.mean, one.median, one.count) == (12.0, 12.0, 5)
    assert one.stdev == pytest.approx(math.sqrt(2.5))
    factor = math.exp(2.7764 * math.sqrt(2.5 / 5) / 12)
    assert (one.low, one.high) == pytest.approx((12 / factor, 12 * factor), abs=1e-3)
    assert one.note == ""


@given(st.lists(st.floats(0, 1e12), min_size=2, max_size=20), st.sampled_from([0.05, 1e-4]))
def test_intervals_of_what_is_never_below_0_are_not_either(
    values: list[float], level: float
) -> None:
    one = estimate(values, level)
    assert one.low is not None and one.high is not None
    assert 0 <= one.low <= one.mean * (1 + 1e-9) and one.mean <= one.high * (1 + 1e-9)
    assert math.isfinite(one.high)


def test_intervals_of_differences_keep_their_sign() -> None:
    one = estimate([-1.0, 0.0, 1.0])
    assert one.low is not None and one.high is not None
    assert one.low == pytest.approx(-one.high) and one.low < 0


def test_intervals_on_the_scale_of_logarithms_hold_the_truth_as_often_as_they_say() -> None:
    draw = np.random.default_rng(1)
    held = {}
    for spread in (0.03, 0.3):
        told = [estimate(row.tolist()) for row in draw.gamma(spread**-2, spread**2, (4000, 6))]
        held[spread] = statistics.fmean((one.low or 0) <= 1 <= (one.high or 0) for one in told)
    assert held[0.03] == pytest.approx(0.95, abs=0.01)
    assert held[0.3] == pytest.approx(0.95, abs=0.015)


@given(st.lists(st.lists(st.integers(1, 10**9), max_size=20), min_size=1, max_size=5))
def test_parts_are_drawn_together_as_if_every_sample_were_there(parts: list[list[int]]) -> None:
    every = [value for part in parts for value in part]
    told = [
        (len(part), statistics.fmean(part), statistics.pstdev(part)) if part else (0, 0.0, 0.0)
        for part in parts
    ]
    if not every:
        with pytest.raises(ValueError, match="no samples"):
            of_all(told)
        return
    mean, stdev = of_all(told)
    assert mean == pytest.approx(statistics.fmean(every))
    assert stdev == pytest.approx(statistics.pstdev(every), rel=1e-9, abs=1e-6)


def test_one_reading_has_no_interval_and_says_so() -> None:
    one = estimate([5.0])
    assert (one.low, one.high, one.stdev) == (None, None, None)
    assert "no confidence interval" in one.note
    with pytest.raises(ValueError, match="no values"):
        estimate([])


def test_difference_of_means_needs_significance() -> None:
    best = estimate([10.0, 10.1, 9.9])
    far, near = estimate([5.0, 5.1, 4.9]), estimate([9.95, 10.05, 9.85])
    single = estimate([1.0])
    differences = [difference(best, other) for other in (far, near, single)]
    assert [d.significant for d in differences] == [True, False, False]
    assert differences[0].ratio == pytest.approx(2.0)
    assert differences[2].p is None
    assert "needs two or more repetitions" in differences[2].note
    assert differences[0].low is not None and differences[0].high is not None
    assert 1 < differences[0].low < 2.0 < differences[0].high
    of_nothing = difference(best, estimate([0.0, 0.0, 1.0]))
    assert not of_nothing.significant
    assert "not significant, p" in of_nothing.note, "by ranks"


def test_difference_within_the_resolution_is_not_significant() -> None:
    same, next_bucket = estimate([10_039.0] * 3), estimate([10_047.0] * 3)
    assert not difference(same, next_bucket).significant
    assert difference(same, estimate([12_000.0] * 3)).significant


@given(st.lists(st.floats(1.0, 1e9), min_size=2, max_size=20))
def test_the_interval_holds_the_mean(values: list[float]) -> None:
    one = estimate(values)
    assert one.low is not None
    assert one.high is not None
    assert one.low <= one.mean <= one.high


def test_equal_values_have_no_spread() -> None:
    """Also where their mean, being rounded, is none of them."""
    assert estimate([2550691.002325191] * 6).stdev == 0
    assert estimate([0.1] * 3).stdev == 0
