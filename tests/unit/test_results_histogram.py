"""Merged histograms are the histogram of all samples, and percentiles are samples."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.results.histogram import (
    PERCENTILES,
    decode_histogram,
    merge_histograms,
    percentile_curve,
    percentiles_ns,
)
from tests.unit.records import synthetic_histogram

SAMPLES = st.lists(st.integers(1, 5_000_000_000), min_size=1, max_size=200)


def encoded(values: list[int], highest: int = 10_000_000_000, digits: int = 3) -> str:
    histogram = HdrHistogram(1, highest, digits)
    for value in values:
        assert histogram.record_value(value)
    return str(histogram.encode().decode())


@settings(deadline=None, max_examples=50)
@given(st.lists(SAMPLES, min_size=1, max_size=4))
def test_merging_equals_recording_everything_in_one(parts: list[list[int]]) -> None:
    merged = merge_histograms(encoded(part) for part in parts)
    together = decode_histogram(encoded([value for part in parts for value in part]))
    assert merged.get_total_count() == sum(map(len, parts))
    assert percentiles_ns(merged) == percentiles_ns(together)


@settings(deadline=None, max_examples=50)
@given(SAMPLES)
def test_so_many_samples_lie_at_or_below_a_percentile_and_not_at_a_smaller_one(
    values: list[int],
) -> None:
    ours = percentiles_ns(decode_histogram(encoded(values)))
    for name in PERCENTILES:
        least = -(-len(values) * Fraction(name) // 100)  # rounded up
        assert ours[name] == pytest.approx(sorted(values)[int(least) - 1], rel=1e-3, abs=1)
    assert ours["99.999"] == pytest.approx(max(values), rel=1e-3, abs=1)


@pytest.mark.parametrize(
    ("count", "name", "rank"),
    [(16, "90", 15), (600, "99.9", 600), (1000, "99.9", 999), (100, "99", 99), (3, "50", 2)],
)
def test_ranks_are_rounded_up_as_the_engine_does(count: int, name: str, rank: int) -> None:
    histogram = decode_histogram(encoded(list(range(1, count + 1))))
    assert percentiles_ns(histogram, [name])[name] == rank


def test_merging_different_ranges_and_precisions_loses_nothing() -> None:
    narrow = encoded([1000] * 10, highest=1_000_000, digits=2)
    wide = encoded([5_000_000_000] * 10)
    merged = merge_histograms([narrow, wide])
    assert merged.get_total_count() == 20
    assert percentiles_ns(merged, ["50", "100"])["100"] == pytest.approx(5e9, rel=1e-3)


def test_the_percentile_of_a_union_is_not_the_mean_of_percentiles() -> None:
    fast, slow = encoded([1_000] * 900), encoded([100_000] * 100)
    assert percentiles_ns(merge_histograms([fast, slow]))["50"] == pytest.approx(1_000, rel=1e-3)


@pytest.mark.parametrize("text", ["", "AAAA", "not base64!", "HISTFAAAAB94"])
def test_what_is_not_a_histogram_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an HdrHistogram"):
        decode_histogram(text)
    with pytest.raises(ValueError, match="no histogram"):
        merge_histograms([])


def test_the_curve_rises_and_stops_where_samples_end() -> None:
    curve = percentile_curve(decode_histogram(synthetic_histogram(10_000, count=5_000)))
    assert list(curve.quantile) == sorted(curve.quantile)
    assert list(curve.value_ns) == sorted(curve.value_ns)
    assert curve.quantile[-1] == pytest.approx(1 - 1 / 5_000)
    at_median = np.interp(0.5, curve.quantile, curve.value_ns)
    assert at_median == pytest.approx(10_000, rel=0.05)
