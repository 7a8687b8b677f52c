"""Order statistics: the interval of a percentile, and the typical value of a few repetitions.

Of n samples, the number above the true q-quantile is binomial, whatever the distribution. The
samples at the ranks that this number allows with 95 % confidence bound the quantile (e.g. H. A.
David, H. N. Nagaraja, Order Statistics, 2003, section 7.1). If n is too small for a percentile,
there is no upper bound. The interval takes the samples as independent. Round trips in one queue are
not quite independent, so the interval is the narrowest that can be claimed; the spread between
repetitions shows the rest.

The typical value is the median, which one disturbed repetition hardly moves. For an even number it
is the geometric mean of the two in the middle, as in comparisons by blocks. Its interval has 95 %
confidence from six repetitions on. Fewer than six get the smallest and the largest value instead
(`is_range`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from switchmark.statistics.histogram import PERCENTILES, Histogram
from switchmark.statistics.means import LEVEL, Estimate

Bounds = tuple[float | None, float | None]


def percentile_intervals_ns(histogram: Histogram, max_ns: float = math.inf) -> dict[str, Bounds]:
    """Return the lower and upper 95 % bound of each percentile in ns; None if there are too few
    samples. No bound is above `max_ns`, as in `Histogram.percentiles_ns`."""
    ranks = {name: ranks_of(histogram.count, float(name) / 100) for name in PERCENTILES}
    needed_ranks = sorted({rank for pair in ranks.values() for rank in pair if rank is not None})
    times_ns = [min(value, max_ns) for value in histogram.values_at_ranks(needed_ranks)]
    values = dict(zip(needed_ranks, times_ns, strict=True))
    return {
        name: (None if low is None else values[low], None if high is None else values[high])
        for name, (low, high) in ranks.items()
    }


@lru_cache(maxsize=4096)
def ranks_of(count: int, quantile: float, level: float = LEVEL) -> tuple[int | None, int | None]:
    """Return the ranks (1 is the smallest sample) that bound the quantile, except with probability
    `level`."""
    if count <= 0:
        return None, None
    tail = level / 2
    fewest, most = (_binomial_quantile(p, count, 1 - quantile) for p in (tail, 1 - tail))
    low, high = count - most, count - fewest + 1  # this number of samples is above the quantile
    return (low if low >= 1 else None), (high if high <= count else None)


def _binomial_quantile(p: float, count: int, chance: float) -> int:
    """Return the smallest number of successes that is not exceeded with probability `p`.

    It equals `scipy.stats.binom.ppf`, without the half second for the import of `scipy.stats`."""
    from scipy.special import bdtr, bdtrik

    found = max(0, math.ceil(float(bdtrik(p, count, chance))))
    return found - 1 if found and bdtr(found - 1, count, chance) >= p else found


def typical(values: Sequence[float]) -> float:
    """Return the median; of an even number of values above 0, by the geometric mean of the middle
    two. Raises ValueError without a value."""
    if not values:
        raise ValueError("no values to take the median of")
    if min(values) <= 0:
        return statistics.median(values)
    return math.sqrt(statistics.median_low(values) * statistics.median_high(values))


def median_interval(
    values: Sequence[float], level: float = LEVEL
) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of confidence 1 - `level` of the median of these values, in any order.
    Both ends are None if there are too few values: fewer than six for 95 %."""
    ordered = sorted(values)
    low, high = ranks_of(len(ordered), 0.5, level)
    if low is None or high is None:
        return None, None
    return ordered[low - 1], ordered[high - 1]


def by_median(mean: Estimate, level: float = LEVEL) -> Estimate:
    """Return the estimate of the same repetitions whose `mean` is their typical value, with its
    interval of confidence 1 - `level`. A single repetition keeps its own interval."""
    values = mean.values
    if len(values) < 2:
        return mean
    low, high = median_interval(values, level)
    is_range = low is None
    if is_range:
        low, high = min(values), max(values)
    return replace(mean, mean=typical(values), low=low, high=high, is_range=is_range)
