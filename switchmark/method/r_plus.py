"""R+: the mean throughput under saturating input, and the loads that are fractions of it.

After T. Zhang et al., "Comparing the performance of state-of-the-art software switches for
NFV" (CoNEXT 2019): latency is compared between switches of unequal speed at the same
fraction of each one's own R+. R+ is a mean: a switch may lose frames at R+ itself, which is
why the highest fraction is 0.99, and why NDR is another number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from switchmark.errors import UsageError
from switchmark.method.measurer import SATURATING, BudgetError, Ledger, LoadPoint, Measurer
from switchmark.results.outliers import Outlier, find_outliers
from switchmark.results.statistics import Estimate, estimate
from switchmark.results.two_bands import Bands, find_bands

FRACTIONS = (0.10, 0.50, 0.99)
DEFAULT_TRIAL_S = 10.0
MIN_REPETITIONS = 5  # fewer, and stopping at a narrow interval makes it lie (docs/methods.md)
MAX_REPETITIONS = 20
DEFAULT_PRECISION = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class RPlus:
    """Mean forwarded load under saturating input; total over all pairs, frames per second."""

    estimate: Estimate  # with its 95 % Student-t interval
    trials: tuple[LoadPoint, ...]
    stopped: Literal["precise", "repetitions", "budget"]
    outliers: tuple[Outlier, ...]  # reported; the mean includes them
    bands: Bands | None  # set when repetitions fall into two bands: the mean describes neither

    @property
    def pps(self) -> float:
        """R+ itself."""
        return self.estimate.mean

    @property
    def precision(self) -> float | None:
        """Half the interval over the mean; None with one repetition."""
        return relative_half_width(self.estimate)


def measure_r_plus(
    measurer: Measurer,
    *,
    trial_s: float = DEFAULT_TRIAL_S,
    precision: float = DEFAULT_PRECISION,
    min_repetitions: int = MIN_REPETITIONS,
    max_repetitions: int = MAX_REPETITIONS,
    budget_s: float = math.inf,
    warm_up_s: float = 1.0,
) -> RPlus:
    """Repeat saturating trials until the interval is narrow enough, or time or patience ends.

    `precision` is half the 95 % interval over the mean. Raises `BudgetError` when not even
    one trial fits.
    """
    if not 1 <= min_repetitions <= max_repetitions:
        raise UsageError(
            f"r-plus: repetitions from {min_repetitions} to {max_repetitions}: must be 1 or "
            "more, and the maximum no smaller than the minimum"
        )
    ledger = Ledger(measurer, budget_s)
    if warm_up_s > 0:
        ledger.measure(warm_up_s, SATURATING)
    points = [ledger.measure(trial_s, SATURATING)]
    stopped: Literal["precise", "repetitions", "budget"] = "repetitions"
    while len(points) < max_repetitions:
        reached = relative_half_width(estimate([p.forwarded_pps for p in points]))
        if len(points) >= min_repetitions and reached is not None and reached <= precision:
            stopped = "precise"
            break
        try:
            points.append(ledger.measure(trial_s, SATURATING))
        except BudgetError:
            stopped = "budget"
            break
    values = [point.forwarded_pps for point in points]
    return RPlus(
        estimate=estimate(values),
        trials=tuple(points),
        stopped=stopped,
        outliers=find_outliers(values),
        bands=find_bands(values),
    )


def loads_at(r_plus_pps: float, fractions: Sequence[float] = FRACTIONS) -> dict[float, float]:
    """The total load at each fraction of R+: fraction -> frames per second."""
    for fraction in fractions:
        if not 0 < fraction <= 1:
            raise UsageError(f"fraction of R+: {fraction:g} must be above 0 and at most 1")
    return {fraction: fraction * r_plus_pps for fraction in fractions}


def relative_half_width(found: Estimate) -> float | None:
    """Half the confidence interval over the mean; None where there is no interval."""
    if found.low is None or found.high is None or found.mean <= 0:
        return None
    return (found.high - found.low) / 2 / found.mean
