"""Latency histograms: decode, merge, and read percentiles from HdrHistogram V2 text.

Repetitions are merged as histograms, never by averaging percentiles: the percentile of a
union is not the mean of percentiles. HdrHistogram: hdrhistogram.org (G. Tene).
"""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from hdrh.histogram import HdrHistogram

PERCENTILES = ("50", "90", "99", "99.9", "99.99", "99.999")


@dataclass(frozen=True, slots=True)
class PercentileCurve:
    """A latency distribution for plotting: `value_ns[i]` is reached at `quantile[i]` (0..1)."""

    quantile: tuple[float, ...]
    value_ns: tuple[float, ...]


def decode_histogram(text: str) -> HdrHistogram:
    """Decode HdrHistogram V2 compressed base64. Raises ValueError with a reason."""
    try:
        return HdrHistogram.decode(text)
    except Exception as error:  # the library raises several unrelated types
        raise ValueError(
            f"not an HdrHistogram (V2 compressed base64): {type(error).__name__}: {error}"
        ) from error


def merge_histograms(texts: Iterable[str]) -> HdrHistogram:
    """Add encoded histograms into one that is wide and precise enough for all of them.

    Raises ValueError when there is none, or when samples were lost in merging.
    """
    parts = [decode_histogram(text) for text in texts]
    if not parts:
        raise ValueError("no histogram to merge")
    merged = HdrHistogram(
        1,
        max(part.highest_trackable_value for part in parts),
        max(part.significant_figures for part in parts),
    )
    for part in parts:
        merged.add(part)
    due = sum(part.get_total_count() for part in parts)
    if merged.get_total_count() != due:
        raise ValueError(f"merged histogram holds {merged.get_total_count()} of {due} samples")
    return merged


def shift_histogram(text: str, less_ns: int) -> str:
    """The encoded histogram with every sample less by so much, at least 1 ns. What it cannot
    tell of a sample (below 0.1 %) is that of the sample before."""
    before = decode_histogram(text)
    after = HdrHistogram(1, before.highest_trackable_value, before.significant_figures)
    counts = np.ctypeslib.as_array(before.counts)
    for index in np.flatnonzero(counts):
        value = before.get_value_from_index(int(index))
        middle = (value + before.get_highest_equivalent_value(value)) // 2
        after.record_value(max(1, middle - less_ns), int(counts[index]))
    text_after: str = after.encode().decode()
    return text_after


def percentiles_ns(
    histogram: HdrHistogram, wanted: Iterable[str] = PERCENTILES
) -> dict[str, float]:
    """The values at or below which the given percentages of samples lie, nanoseconds."""
    names = list(wanted)
    values = _values_at(histogram, [float(name) for name in names])
    return dict(zip(names, values, strict=True))


@dataclass(frozen=True, slots=True)
class Distances:
    """Samples by their distance from a base (ns), as encoded histograms, one for each side: so
    that little variation of large values is kept."""

    base_ns: float
    above: str
    below: str


def percentiles_of_distances(
    parts: Iterable[Distances], wanted: Iterable[str] = PERCENTILES
) -> dict[str, float]:
    """Of all samples of all parts, as `percentiles_ns`; empty where there is none."""
    values, counts = [], []
    for part in parts:
        for text, sign in ((part.above, 1), (part.below, -1)):
            histogram = decode_histogram(text)
            held = np.ctypeslib.as_array(histogram.counts)
            for index in np.flatnonzero(held):
                low = histogram.get_value_from_index(int(index))
                far = histogram.get_highest_equivalent_value(low) if sign > 0 else low
                values.append(part.base_ns + sign * far)
                counts.append(int(held[index]))
    if not counts:
        return {}
    order = np.argsort(values)
    reached = np.cumsum(np.asarray(counts)[order])
    names = list(wanted)
    ranks = [_rank(float(name), int(reached[-1])) for name in names]
    found = np.asarray(values)[order][np.searchsorted(reached, ranks)]
    return dict(zip(names, (float(value) for value in found), strict=True))


def percentile_curve(histogram: HdrHistogram, points: int = 120) -> PercentileCurve:
    """The distribution at `points` quantiles, evenly spread on the log scale of 1/(1-q).

    Ends at the last quantile that the number of samples can tell: 1 - 1/count.
    """
    nines = float(np.log10(max(histogram.get_total_count(), 2)))
    quantiles = [float(quantile) for quantile in 1.0 - 10.0 ** -np.linspace(0.0, nines, points)]
    values = _values_at(histogram, [quantile * 100.0 for quantile in quantiles])
    return PercentileCurve(tuple(quantiles), tuple(values))


def values_at_ranks(histogram: HdrHistogram, ranks: Sequence[int]) -> list[float]:
    """The sample at each rank (1 is the smallest), as exactly as the histogram keeps it."""
    reached = np.cumsum(np.ctypeslib.as_array(histogram.counts))
    return [
        float(histogram.get_highest_equivalent_value(histogram.get_value_from_index(int(index))))
        for index in np.searchsorted(reached, ranks)
    ]


def _rank(percentage: float, count: int) -> int:
    """The rank (1 is the smallest) of the first sample that has this share at or below it.

    As the engine: a step down in the last bit, or 99.9 % of 1000 would round up to all of them."""
    return max(1, math.ceil(math.nextafter(percentage, 0) * count / 100))


def _values_at(histogram: HdrHistogram, percentages: list[float]) -> list[float]:
    """One cumulative sum, then a search for each percentage. (The library's own function loops over
    every bucket, and rounds to the nearest rank: 90 % of 16 samples would be the 14th.)"""
    reached = np.cumsum(np.ctypeslib.as_array(histogram.counts))
    targets = [_rank(wanted, int(histogram.get_total_count())) for wanted in percentages]
    values: list[float] = []
    for wanted, index in zip(percentages, np.searchsorted(reached, targets), strict=True):
        value = histogram.get_value_from_index(int(index))
        values.append(float(histogram.get_highest_equivalent_value(value) if wanted else value))
    return values
