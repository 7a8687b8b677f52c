"""Two-band behaviour: repetitions or samples that fall into two groups with nothing between.

A mean over two bands describes neither. The test: split the sorted values where the sum of
squares within both parts is smallest, and compare it with the whole's. One broad group
keeps a quarter of it at least in the long run (uniform distribution, the unimodal shape
hardest to tell from two); two bands keep next to nothing. The critical values are the 1 %
quantiles of that ratio for uniform values, from 20,000 simulated series a length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

MIN_VALUES = 6
MIN_SHARE = 0.15  # of the values in the smaller band; fewer are outliers
MIN_GAP = 0.01  # between the bands' means, over the larger: less changes no decision
STEPS_AT_ENDS = 2  # a count over some time has one step more or less at either end of it
_CRITICAL = (
    (6, 0.018), (8, 0.036), (10, 0.051), (12, 0.067), (15, 0.090), (20, 0.112),
    (30, 0.134), (50, 0.159), (100, 0.186), (200, 0.205), (500, 0.221),
)  # fmt: skip
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bands:
    """Two groups of values, in the values' unit."""

    low_mean: float
    low_count: int
    high_mean: float
    high_count: int
    crossings: int  # changes of band along the series: 1 is a step, many is flapping

    def describe(self, amount: Callable[[float], str] = "{:.6g}".format) -> str:
        """The two groups in one phrase; `amount` shows a value with its unit."""
        return (
            f"{self.low_count} values around {amount(self.low_mean)}, {self.high_count} around "
            f"{amount(self.high_mean)}, {self.crossings} changes between them"
        )


def find_bands(values: Sequence[float], step: float = 0.0) -> Bands | None:
    """Return the two bands, or None when the values are one group (or too few to tell).

    `step` is the step in which values move, for counts in bursts: bands that lie within
    `STEPS_AT_ENDS` of it are one group."""
    count = len(values)
    if count < MIN_VALUES:
        return None
    ordered = np.sort(np.asarray(values, float))
    split, ratio = best_split(ordered, max(2, math.ceil(MIN_SHARE * count)))
    low, high = ordered[:split], ordered[split:]
    low_mean, high_mean = float(low.mean()), float(high.mean())
    largest = max(abs(low_mean), abs(high_mean))
    gap = high_mean - low_mean
    if ratio >= critical_ratio(count) or gap < max(MIN_GAP * largest, STEPS_AT_ENDS * step):
        return None
    sides = [value >= high[0] for value in values]
    crossings = sum(a != b for a, b in pairwise(sides))
    return Bands(low_mean, low.size, high_mean, high.size, crossings)


def critical_ratio(count: int) -> float:
    """The ratio below which `count` values are called two bands (1 % false alarms at most)."""
    counts, ratios = zip(*_CRITICAL, strict=True)
    return float(np.interp(count, counts, ratios, left=0.0))


def best_split(values: Array, smallest: int = 1) -> tuple[int, float]:
    """Where to cut values in two, sorted ones (N. Otsu, 1979) or a series: the size of the first
    part, and the share of the sum of squares that is left within both parts. Neither part is below
    `smallest` values."""
    deviations = values - values.mean()  # keeps the squares from cancelling
    whole = float(deviations @ deviations)
    if whole == 0:
        return smallest, 1.0
    sizes = np.arange(smallest, values.size - smallest + 1)
    totals = deviations.cumsum()[sizes - 1]
    between = totals**2 * (1 / sizes + 1 / (values.size - sizes))
    best = int(between.argmax())
    return int(sizes[best]), max(0.0, 1 - float(between[best]) / whole)
