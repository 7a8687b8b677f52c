"""Two-band behaviour: repetitions or samples that fall into two groups with nothing between.

A mean over two bands describes neither. The test splits the sorted values where the sum of squares
within both parts is smallest, and compares this sum with that of the whole. One broad group keeps
at least a quarter of it in the long run (uniform distribution, the unimodal shape closest to two
bands); two bands keep almost nothing. The critical values are the 1 % quantiles of that ratio for
uniform values, from 20,000 simulated series for each length."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

MIN_VALUES = 6
MIN_SHARE = 0.15  # share of values in the smaller band; fewer are outliers
MIN_GAP = 0.01  # distance of the bands' means divided by the larger; less is irrelevant
STEPS_AT_ENDS = 2  # a count over an interval may have one step more or less at each end
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
        """Return both groups in one phrase; `amount` formats a value with its unit."""
        return (
            f"{self.low_count} values around {amount(self.low_mean)}, {self.high_count} around "
            f"{amount(self.high_mean)}, {self.crossings} changes between them"
        )


def find_bands(values: Sequence[float], step: float = 0.0) -> Bands | None:
    """Return the two bands, or None if the values are one group or too few.

    `step` is the step in which values move, for counts in bursts: bands within `STEPS_AT_ENDS`
    steps are one group."""
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
    """Return the ratio below which `count` values are called two bands (at most 1 % false
    alarms)."""
    counts, ratios = zip(*_CRITICAL, strict=True)
    return float(np.interp(count, counts, ratios, left=0.0))


def best_split(values: Array, smallest: int = 1) -> tuple[int, float]:
    """Return the best split of sorted values (N. Otsu, 1979) or of a series in two: the size of the
    first part, and the share of the sum of squares that remains within both parts. Neither part is
    smaller than `smallest`."""
    deviations = values - values.mean()  # keeps the squares from cancelling
    whole = float(deviations @ deviations)
    if whole == 0:
        return smallest, 1.0
    sizes = np.arange(smallest, values.size - smallest + 1)
    totals = deviations.cumsum()[sizes - 1]
    between = totals**2 * (1 / sizes + 1 / (values.size - sizes))
    best = int(between.argmax())
    return int(sizes[best]), max(0.0, 1 - float(between[best]) / whole)
