"""How sure is a percentile? Its confidence interval from the ranks of the samples alone.

Of n samples, the number above the true q-quantile is binomial, whatever the distribution; the
samples at the ranks that this number allows with 95 % bound the quantile (order-statistic
interval; e.g. H. A. David, H. N. Nagaraja, Order Statistics, 2003, section 7.1). Where n is too
small for a percentile there is no upper bound, and that is said instead of a number.

The interval takes the samples as independent. Round trips in one queue are not quite, so it is
the narrowest that can be claimed; the spread between repetitions shows the rest.
"""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from statistics import NormalDist

from hdrh.histogram import HdrHistogram

from switchmark.results.histogram import PERCENTILES, values_at_ranks

CONFIDENCE = 0.95
_EXACT_UP_TO = 200.0  # expected samples above; beyond, the normal approximation is good to 1 %
Bounds = tuple[float | None, float | None]


def percentile_intervals_ns(
    histogram: HdrHistogram, wanted: Iterable[str] = PERCENTILES
) -> dict[str, Bounds]:
    """Lower and upper 95 % bound of each percentile in ns; None where the samples do not reach."""
    total = int(histogram.get_total_count())
    ranks = {name: ranks_of(total, float(name) / 100) for name in wanted}
    asked = sorted({rank for pair in ranks.values() for rank in pair if rank is not None})
    values = dict(zip(asked, values_at_ranks(histogram, asked), strict=True))
    return {
        name: (
            None if low is None else values[low],
            None if high is None else values[high],
        )
        for name, (low, high) in ranks.items()
    }


@lru_cache(maxsize=4096)
def ranks_of(count: int, quantile: float) -> tuple[int | None, int | None]:
    """The ranks (1 is the smallest sample) between which the quantile lies with 95 %."""
    if count <= 0:
        return None, None
    fewest, most = _above(count, 1 - quantile)
    low, high = count - most, count - fewest + 1
    return (low if low >= 1 else None), (high if high <= count else None)


def _above(count: int, share: float) -> tuple[int, int]:
    """So many samples lie above the quantile, with 97.5 % each: at least and at most."""
    tail = (1 - CONFIDENCE) / 2
    mean = count * share
    if min(mean, count - mean) > _EXACT_UP_TO:
        half = NormalDist().inv_cdf(1 - tail) * math.sqrt(mean * (1 - share))
        return max(0, math.floor(mean - half)), min(count, math.ceil(mean + half))
    if mean > count / 2:  # few lie below instead
        fewest, most = _above(count, 1 - share)
        return count - most, count - fewest
    chance = math.exp(count * math.log1p(-share))  # that none does
    reached, fewest, number = 0.0, 0, 0
    while reached + chance < 1 - tail and number < count:
        reached += chance
        if reached <= tail:
            fewest = number + 1
        chance *= (count - number) / (number + 1) * share / (1 - share)
        number += 1
    return fewest, number
