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
    ("count", "expected"),  # Student's two-sided 95 % with count - 1 degrees, from textbooks
    [(2, 12.706), (3, 4.303), (4, 3.182), (5, 2.776), (10, 2.262), (30, 2.045)],
)
def test_intervals_are_students(count: int, expected: float) -> None:
    estimated = estimate([float(index) for index in range(count)])
    assert estimated.relative_half_width is not None and estimated.stdev is not None
    half = estimated.relative_half_width * estimated.mean / (estimated.stdev / math.sqrt(count))
    assert half == pytest.approx(expected, abs=6e-4)


def test_stricter_level_gives_a_wider_interval() -> None:
    values = [10.0, 12.0, 11.0, 13.0, 14.0]
    usual, strict = estimate(values), estimate(values, 0.01)
    assert usual.relative_half_width == pytest.approx(2.7764 * math.sqrt(2.5 / 5) / 12, rel=1e-4)
    assert strict.relative_half_width == pytest.approx(4.6041 * math.sqrt(2.5 / 5) / 12, rel=1e-4)
    assert estimate([0.0, 0.0]).relative_half_width is None


def test_the_interval_of_five_readings() -> None:
    estimated = estimate([10.0, 12.0, 11.0, 13.0, 14.0])
    assert (estimated.mean, estimated.median, estimated.count) == (12.0, 12.0, 5)
    assert estimated.stdev == pytest.approx(math.sqrt(2.5))
    factor = math.exp(2.7764 * math.sqrt(2.5 / 5) / 12)
    assert (estimated.low, estimated.high) == pytest.approx((12 / factor, 12 * factor), abs=1e-3)
    assert estimated.note == ""


@given(st.lists(st.floats(0, 1e12), min_size=2, max_size=20), st.sampled_from([0.05, 1e-4]))
def test_intervals_of_nonnegative_values_are_not_below_0(values: list[float], level: float) -> None:
    estimated = estimate(values, level)
    if estimated.low is None or estimated.high is None:  # beyond a factor of a million
        assert max(values) > 1.01 * min(values)
        return
    assert 0 <= estimated.low <= estimated.mean * (
        1 + 1e-9
    ) and estimated.mean <= estimated.high * (1 + 1e-9)
    assert math.isfinite(estimated.high)


@pytest.mark.parametrize("level", [1e-6, 1e-15, 1e-300])
def test_estimate_has_no_interval_beyond_all_bounds(level: float) -> None:
    """Two values at a strict level had an upper bound with 44 digits."""
    estimated = estimate([1e6, 1.2e6], level)
    assert (estimated.low, estimated.high, estimated.relative_half_width) == (None, None, None)
    assert estimated.note == "too few repetitions for a confidence interval"


def test_intervals_of_differences_keep_their_sign() -> None:
    estimated = estimate([-1.0, 0.0, 1.0])
    assert estimated.low is not None and estimated.high is not None
    assert estimated.low == pytest.approx(-estimated.high) and estimated.low < 0


def test_intervals_on_logarithms_have_nominal_coverage() -> None:
    draw = np.random.default_rng(1)
    coverage = {}
    for spread in (0.03, 0.3):
        estimates = [estimate(row.tolist()) for row in draw.gamma(spread**-2, spread**2, (4000, 6))]
        coverage[spread] = statistics.fmean(
            (one.low or 0) <= 1 <= (one.high or 0) for one in estimates
        )
    assert coverage[0.03] == pytest.approx(0.95, abs=0.01)
    assert coverage[0.3] == pytest.approx(0.95, abs=0.015)


@given(st.lists(st.lists(st.integers(1, 10**9), max_size=20), min_size=1, max_size=5))
def test_merged_parts_equal_the_figures_of_all_samples(parts: list[list[int]]) -> None:
    every = [value for part in parts for value in part]
    figures_of_parts = [
        (len(part), statistics.fmean(part), statistics.pstdev(part)) if part else (0, 0.0, 0.0)
        for part in parts
    ]
    if not every:
        with pytest.raises(ValueError, match="no samples"):
            of_all(figures_of_parts)
        return
    mean, stdev = of_all(figures_of_parts)
    assert mean == pytest.approx(statistics.fmean(every))
    assert stdev == pytest.approx(statistics.pstdev(every), rel=1e-9, abs=1e-6)


def test_one_reading_has_no_interval_but_a_note() -> None:
    estimated = estimate([5.0])
    assert (estimated.low, estimated.high, estimated.stdev) == (None, None, None)
    assert "no confidence interval" in estimated.note
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
def test_interval_contains_the_mean(values: list[float]) -> None:
    estimated = estimate(values)
    assert estimated.low is not None
    assert estimated.high is not None
    assert estimated.low <= estimated.mean <= estimated.high


def test_equal_values_have_no_spread() -> None:
    """Also if their rounded mean differs from them."""
    assert estimate([2550691.002325191] * 6).stdev == 0
    assert estimate([0.1] * 3).stdev == 0
