"""Means with confidence intervals: Student's t, two-sided, each repetition one observation.

Rates and times are never below 0, and neither are their intervals. Student's deviation is applied
to the logarithm of the mean (the delta method). The interval reaches from mean / e^h to mean * e^h,
where h is that deviation divided by the mean. A narrow interval is close to the familiar mean +- h.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

LEVEL = 0.05  # two-sided: intervals of 95 %
RESOLUTION = 0.001  # relative; histograms have three significant digits
WIDEST = math.log(1e6)  # h of an interval; a wider interval has no use


def of_all(parts: Iterable[tuple[int, float, float]]) -> tuple[float, float]:
    """Return mean and standard deviation of all samples, from (count, mean, standard deviation) of
    parts.

    The result is exact. A merged histogram has the precision of its slots: for a constant delay of
    20 ms it would show a deviation of some microseconds. Raises ValueError without a sample."""
    nonempty = [part for part in parts if part[0]]
    if not nonempty:
        raise ValueError("no samples to combine")
    counts, means, spreads = zip(*nonempty, strict=True)
    # By rounding, the mean of equal values may be below the smallest value.
    mean = min(max(statistics.fmean(means, counts), min(means)), max(means))
    squares = [spread**2 + (each - mean) ** 2 for each, spread in zip(means, spreads, strict=True)]
    return mean, math.sqrt(statistics.fmean(squares, counts))


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean of one figure over the repetitions of a trial, in that figure's unit."""

    mean: float
    median: float
    count: int
    stdev: float | None = None  # sample standard deviation; None below two repetitions
    low: float | None = None  # confidence interval of the mean; None: one value, or beyond `WIDEST`
    high: float | None = None
    values: tuple[float, ...] = field(default=(), repr=False)  # one a repetition
    is_range: bool = False  # low and high are the smallest and the largest value (typical.py)

    @property
    def note(self) -> str:
        """The reason why there is no interval; empty if there is one."""
        if self.low is not None:
            return ""
        if self.count < 2:
            return "one repetition, so no confidence interval"
        return "too few repetitions for a confidence interval"

    @property
    def relative_half_width(self) -> float | None:
        """Half the interval as a share of the mean: h of its logarithm; None without an
        interval."""
        if not self.low or not self.high or min(self.mean, self.low) <= 0:
            return None
        return math.log(self.high / self.low) / 2


def estimate(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """Return mean, median and, from two values on, the interval of the mean with confidence 1 -
    `level`.

    If figures are tested repeatedly until the interval is narrow, the level is that of the interim
    analysis (boundaries.py)."""
    if not values:
        raise ValueError("no values to estimate from")
    mean, median, all_values = statistics.fmean(values), statistics.median(values), tuple(values)
    if len(values) < 2:
        return Estimate(mean, median, len(values), values=all_values)
    import numpy as np
    from scipy.special import stdtrit

    # statistics.stdev takes ten times as long. The first value is subtracted so that equal values
    # give 0.
    stdev = float(np.std(np.subtract(values, values[0]), ddof=1))
    half = float(stdtrit(len(values) - 1, 1 - level / 2)) * stdev / math.sqrt(len(values))
    low, high = _bounds(mean, half, is_positive=min(values) >= 0)
    return Estimate(mean, median, len(values), stdev, low, high, all_values)


def _bounds(
    mean: float, half: float, *, is_positive: bool
) -> tuple[float, float] | tuple[None, None]:
    """Return the bounds of the interval: on the scale of logarithms for values that are never below
    0; on the linear scale for values that may be negative. None if the values do not determine
    them."""
    if not is_positive or not mean:
        return mean - half, mean + half
    # At a strict level few values have a quantile of many thousands, and e^h could overflow.
    if not half / mean <= WIDEST:
        return None, None
    factor = math.exp(half / mean)
    return mean / factor, mean * factor
