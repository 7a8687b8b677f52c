"""Histograms of times: merging, shifting, percentiles and curves.

Repetitions are merged as histograms. Percentiles are never averaged, because the percentile of a
union is not the mean of percentiles. HdrHistogram: hdrhistogram.org (G. Tene).
"""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray
from pydantic_core import CoreSchema, core_schema

from switchmark.statistics import decoded

PERCENTILES = ("50", "90", "99", "99.9", "99.99", "99.999")


@dataclass(frozen=True, slots=True)
class PercentileCurve:
    """A latency distribution for plotting: `value_ns[i]` is reached at `quantile[i]` (0..1)."""

    quantile: tuple[float, ...]
    value_ns: tuple[float, ...]


class Histogram:
    """Samples in nanoseconds, each exact to a thousandth; immutable.

    Engine output and records contain its text (HdrHistogram V2, compressed, base64). The text is
    decoded when the samples are first needed, and once in a process (decoded.py)."""

    __slots__ = ("_held", "_text")

    def __init__(self, text: str) -> None:
        self._text: str | None = text
        self._held: HdrHistogram | None = None

    @classmethod
    def of(cls, times: Mapping[int, int], highest: int = 100_000_000_000) -> Histogram:
        """Return the histogram with this number of samples of each value, in ns, from 1 to
        `highest`."""
        histogram = HdrHistogram(1, highest, 3)
        for value, count in times.items():
            histogram.record_value(value, count)
        return cls._of_samples(histogram)

    @classmethod
    def merged(cls, parts: Iterable[Histogram]) -> Histogram:
        """Merge all samples of all parts, with the widest range and the best precision of the
        parts.

        Raises ValueError if there is no part, or if samples were lost in merging."""
        all_ = list(parts)
        if not all_:
            raise ValueError("no histogram to merge")
        if len(all_) == 1:
            return all_[0]
        sources = [part._samples for part in all_]
        merged = HdrHistogram(
            1,
            max(part.highest_trackable_value for part in sources),
            max(part.significant_figures for part in sources),
        )
        for part in sources:
            merged.add(part)
        due = sum(part.count for part in all_)
        if merged.get_total_count() != due:
            raise ValueError(f"merged histogram holds {merged.get_total_count()} of {due} samples")
        return cls._of_samples(merged)

    @classmethod
    def _of_samples(cls, samples: HdrHistogram) -> Histogram:
        histogram = cls.__new__(cls)
        histogram._text, histogram._held = None, samples
        return histogram

    @property
    def text(self) -> str:
        """The text: HdrHistogram V2, compressed, base64."""
        if self._text is None:
            self._text = decoded.DECODER.encode(self._samples)
        return self._text

    @property
    def count(self) -> int:
        """The number of samples. Like every method that needs the samples, it raises ValueError if
        the text is not a histogram."""
        return int(self._samples.get_total_count())

    @property
    def _samples(self) -> HdrHistogram:
        if self._held is None:
            self._held = decoded.DECODER.decode(self._text or "")
        return self._held

    @property
    def _counts(self) -> Any:
        return np.ctypeslib.as_array(self._samples.counts)

    def shifted(self, less_ns: int) -> Histogram:
        """Return the histogram with `less_ns` subtracted from every sample, at least 1 ns. The
        error stays 0.1 % of the original samples."""
        before = self._samples
        after = HdrHistogram(1, before.highest_trackable_value, before.significant_figures)
        for low, high, count in self.slots():
            after.record_value(max(1, (low + high) // 2 - less_ns), count)
        return Histogram._of_samples(after)

    def slots(self) -> Iterable[tuple[int, int, int]]:
        """Yield the lowest and highest value of each slot with samples, and their number."""
        samples, counts = self._samples, self._counts
        for index in np.flatnonzero(counts):
            low = samples.get_value_from_index(int(index))
            yield low, samples.get_highest_equivalent_value(low), int(counts[index])

    def percentiles_ns(
        self, percentages: Iterable[str] = PERCENTILES, max_ns: float = math.inf
    ) -> dict[str, float]:
        """Return the values at or below which the given percentages of samples lie.

        The highest value of a slot represents its samples. It may be above the largest sample,
        therefore no percentile is above `max_ns`."""
        names = list(percentages)
        values = self._values_at([float(name) for name in names])
        return {name: min(value, max_ns) for name, value in zip(names, values, strict=True)}

    def curve(self, points: int = 120) -> PercentileCurve:
        """Return the distribution at `points` quantiles, evenly spread on the log scale of 1/(1-q).

        It ends at 1 - 1/count, the last quantile for which there are enough samples."""
        return self._curve(1 - np.geomspace(1, 1 / max(self.count, 2), points))

    def cumulative(self, points: int = 200) -> PercentileCurve:
        """Return the distribution at `points` quantiles, evenly spread from 0 to 1."""
        return self._curve(np.linspace(0, 1, points))

    def _curve(self, quantiles: NDArray[np.float64]) -> PercentileCurve:
        values = self._values_at((100 * quantiles).tolist())
        return PercentileCurve(tuple(quantiles.tolist()), tuple(values))

    def values_at_ranks(self, ranks: Sequence[int]) -> list[float]:
        """Return the sample at each rank (1 is the smallest), with the precision of the
        histogram."""
        samples = self._samples
        return [
            float(samples.get_highest_equivalent_value(samples.get_value_from_index(int(index))))
            for index in np.searchsorted(np.cumsum(self._counts), ranks)
        ]

    def _values_at(self, percentages: list[float]) -> list[float]:
        """Return the values at these percentages by one cumulative sum and a search for each. The
        library's own function is slow, because it loops over every bucket, and rounds to the
        nearest rank: its 90th percentile of 16 samples is the 14th."""
        samples, reached = self._samples, np.cumsum(self._counts)
        targets = [_rank(percentage, self.count) for percentage in percentages]
        values: list[float] = []
        for percentage, index in zip(percentages, np.searchsorted(reached, targets), strict=True):
            value = samples.get_value_from_index(int(index))
            values.append(
                float(samples.get_highest_equivalent_value(value) if percentage else value)
            )
        return values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Histogram({self.text!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> CoreSchema:
        """Accept the value itself or its text in a model, and print the text."""
        from_text = core_schema.no_info_after_validator_function(
            cls, core_schema.str_schema(strict=True)
        )
        return core_schema.json_or_python_schema(
            json_schema=from_text,
            python_schema=core_schema.union_schema(
                [core_schema.is_instance_schema(cls), from_text]
            ),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: value.text, return_schema=core_schema.str_schema()
            ),
        )


@dataclass(frozen=True, slots=True)
class Distances:
    """Samples by their distance from a base (ns), a histogram for each side, so that small
    variations of large values are kept."""

    base_ns: float
    above: Histogram
    below: Histogram


def percentiles_of_distances(parts: Iterable[Distances]) -> dict[str, float]:
    """Return percentiles of all samples of all parts, in ns, by the rule of
    `Histogram.percentiles_ns`; empty without samples."""
    values, counts = [], []
    for part in parts:
        for _, high, count in part.above.slots():
            values.append(part.base_ns + high)
            counts.append(count)
        for low, _, count in part.below.slots():
            values.append(part.base_ns - low)
            counts.append(count)
    if not counts:
        return {}
    order = np.argsort(values)
    reached = np.cumsum(np.asarray(counts)[order])
    ranks = [_rank(float(name), int(reached[-1])) for name in PERCENTILES]
    times = np.asarray(values)[order][np.searchsorted(reached, ranks)]
    return dict(zip(PERCENTILES, times.tolist(), strict=True))


def _rank(percentage: float, count: int) -> int:
    """Return the rank (1 is the smallest) of the first sample with this share at or below it.

    As in the engine, the percentage is decreased by one bit, because 99.9 % of 1000 would otherwise
    round up to all of them."""
    return max(1, math.ceil(math.nextafter(percentage, 0) * count / 100))
