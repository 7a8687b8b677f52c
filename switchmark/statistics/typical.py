"""The typical value of a few repetitions: their median, which one spoiled repetition hardly moves.

The middle of an even number is the geometric mean of the two in the middle, as in comparisons by
blocks. The interval is that of order statistics, which holds for any distribution: with 95 %
confidence from six repetitions on. Fewer than six cannot give 95 %, so the smallest and the largest
value are given instead (`is_range`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from switchmark.statistics.means import LEVEL, Estimate
from switchmark.statistics.order_statistics import ranks_of


def typical(values: Sequence[float]) -> float:
    """Return the median; of an even number of values above 0, by the geometric mean of the middle
    two. Raises ValueError without a value."""
    if not values:
        raise ValueError("no values to take the median of")
    if min(values) <= 0:
        return statistics.median(values)
    return math.sqrt(statistics.median_low(values) * statistics.median_high(values))


def by_median(found: Estimate, level: float = LEVEL) -> Estimate:
    """Return the estimate of the same repetitions whose `mean` is their typical value, with its
    interval of confidence 1 - `level`. A single repetition keeps its own interval."""
    values = sorted(found.values)
    if len(values) < 2:
        return found
    low, high = ranks_of(len(values), 0.5, level)
    is_range = low is None or high is None
    return replace(
        found,
        mean=typical(values),
        low=values[0 if is_range or low is None else low - 1],
        high=values[-1 if is_range or high is None else high - 1],
        is_range=is_range,
    )
