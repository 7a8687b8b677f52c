"""Intervals of percentiles have nominal coverage, and are open where samples end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from switchmark.statistics.histogram import Histogram
from switchmark.statistics.order_statistics import (
    _binomial_quantile,
    percentile_intervals_ns,
    ranks_of,
)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 50_000_000), st.sampled_from([0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999]))
def test_ranks_bracket_the_quantile(count: int, quantile: float) -> None:
    low, high = ranks_of(count, quantile)
    if low is not None:
        assert 1 <= low <= count * quantile + 1
    if high is not None:
        assert count * quantile <= high <= count
    if quantile**count > 0.0251:  # no sample may lie above, so the largest is not a bound
        assert high is None


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 50_000_000), st.sampled_from([0.5, 0.1, 1e-5]), st.sampled_from([0.025, 0.975])
)
def test_binomial_quantiles_equal_those_of_scipy(count: int, chance: float, p: float) -> None:
    assert _binomial_quantile(p, count, chance) == binom.ppf(p, count, chance)


@pytest.mark.parametrize(
    ("count", "quantile"), [(200, 0.5), (2000, 0.99), (3000, 0.9), (60_000, 0.999)]
)
def test_interval_has_nominal_coverage(count: int, quantile: float) -> None:
    source = np.random.default_rng(7)
    low, high = ranks_of(count, quantile)
    assert low is not None and high is not None
    runs, covered = 1500, 0
    for _ in range(runs):  # uniform samples: the quantile is its own value
        samples = np.sort(source.random(count))
        covered += bool(samples[low - 1] <= quantile <= samples[high - 1])
    assert 0.94 <= covered / runs <= 0.985, "discrete ranks cover a little more than required"


def test_bounds_are_values_of_the_histogram() -> None:
    found = percentile_intervals_ns(Histogram.of(dict.fromkeys(range(1000, 2000), 1)))
    low, high = found["50"]
    assert low is not None and high is not None
    assert 1450 < low < 1500 < high < 1550
    assert found["99.999"][0] is not None
    assert found["99.999"][1] is None, "1000 samples cannot bound it from above"


def test_empty_histogram_gives_no_bounds() -> None:
    assert percentile_intervals_ns(Histogram.of({}))["50"] == (None, None)


def test_no_percentile_is_below_its_interval() -> None:
    """A slot's highest value may be above the greatest sample, which caps the percentiles."""
    histogram, greatest = Histogram.of({26_200_123: 200}), 26_200_123
    values = histogram.percentiles_ns(max_ns=greatest)
    for name, (low, high) in percentile_intervals_ns(histogram, greatest).items():
        assert low is not None and low <= values[name] <= (high or greatest)
    assert percentile_intervals_ns(histogram)["99.9"][0] > greatest, "the case of the test"
