"""The confidence interval of a percentile, from the ranks of the samples alone.

Of n samples, the number above the true q-quantile is binomial, whatever the distribution; the
samples at the ranks that this number allows with 95 % bound the quantile (order-statistic interval;
e.g. H. A. David, H. N. Nagaraja, Order Statistics, 2003, section 7.1). Where n is too small for a
percentile there is no upper bound, and that is said instead of a number.

The interval takes the samples as independent. Round trips in one queue are not quite independent,
so it is the narrowest that can be claimed; the spread between repetitions shows the rest.
"""

from __future__ import annotations

import math
from functools import lru_cache

from switchmark.statistics.histogram import PERCENTILES, Histogram
from switchmark.statistics.means import LEVEL

Bounds = tuple[float | None, float | None]


def percentile_intervals_ns(histogram: Histogram, max_ns: float = math.inf) -> dict[str, Bounds]:
    """Lower and upper 95 % bound of each percentile in ns; None where there are too few samples.
    As no percentile (`Histogram.percentiles_ns`), no bound is above `max_ns`."""
    ranks = {name: ranks_of(histogram.count, float(name) / 100) for name in PERCENTILES}
    wanted = sorted({rank for pair in ranks.values() for rank in pair if rank is not None})
    found = [min(value, max_ns) for value in histogram.values_at_ranks(wanted)]
    values = dict(zip(wanted, found, strict=True))
    return {
        name: (None if low is None else values[low], None if high is None else values[high])
        for name, (low, high) in ranks.items()
    }


@lru_cache(maxsize=4096)
def ranks_of(count: int, quantile: float, level: float = LEVEL) -> tuple[int | None, int | None]:
    """The ranks (1 is the smallest sample) that bound the quantile, except with the chance
    `level`."""
    if count <= 0:
        return None, None
    tail = level / 2
    fewest, most = (_binomial_quantile(p, count, 1 - quantile) for p in (tail, 1 - tail))
    low, high = count - most, count - fewest + 1  # that many samples are above the quantile
    return (low if low >= 1 else None), (high if high <= count else None)


def _binomial_quantile(p: float, count: int, chance: float) -> int:
    """The least number of successes that is not exceeded with probability `p`.

    It equals `scipy.stats.binom.ppf`, without the half second that `scipy.stats` takes to load."""
    from scipy.special import bdtr, bdtrik

    found = max(0, math.ceil(float(bdtrik(p, count, chance))))
    return found - 1 if found and bdtr(found - 1, count, chance) >= p else found
