"""The ratio of two groups of figures from two stages, the second of which is sized by the first.

A test of all figures as one group is wrong more often than its level, because the first stage
determines the size of the second (M. Proschan, S. Hunsberger, 1995). So each stage is tested
separately, by Welch's t on logarithms, and the two normal deviates are added, with equal weights
for any sizes. For the true ratio, this sum has a normal distribution (W. Lehmacher, G. Wassmer,
1999). The ratio is tested after each stage, at the levels of two planned interim analyses
(boundaries.py), so that the intervals of both hold together with 95 %. A lead that the first
analysis proves stays proven.

An unfinished first stage may also be tested. All these early analyses share a separate error
probability, an equal part each (C. Bonferroni). It is small, so an early analysis proves only clear
leads, and the two planned analyses keep their level (as of J. Haybittle, 1971, and R. Peto, 1976).
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from switchmark.statistics.boundaries import StoppingRule
from switchmark.statistics.comparison import ratio_of
from switchmark.statistics.means import LEVEL, RESOLUTION
from switchmark.statistics.sequential import POWER

FIRST, SECOND = 2, 4  # interim analyses of equal weight
RULE = StoppingRule((FIRST, SECOND), LEVEL)
EARLY_LEVEL = LEVEL / 10  # for all early analyses of an unfinished first stage
_ROUNDS = 20  # iterations of an estimate that depends on itself
_LARGEST = math.log(sys.float_info.max)
_FAR = 37.0  # the probability of a larger deviate is 0 in floating point
Stages = Sequence[Sequence[float]]  # the figures of each stage, one a block


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """The estimate of ln(ratio) from one stage."""

    log_ratio: float
    error: float  # standard error
    degrees: float  # degrees of freedom

    def deviate(self, log_ratio: float) -> float:
        """Return the distance of the estimate from this ln(ratio), as a standard normal deviate."""
        from scipy.special import ndtri, stdtr

        t = (self.log_ratio - log_ratio) / self.error
        away = -float(ndtri(stdtr(self.degrees, -abs(t))))
        return math.copysign(min(away, _FAR), t)

    def interval(self, level: float) -> tuple[float, float]:
        """Return the two-sided interval of ln(ratio)."""
        from scipy.special import stdtrit

        half = float(stdtrit(self.degrees, 1 - level / 2)) * self.error
        return self.log_ratio - half, self.log_ratio + half


@dataclass(frozen=True, slots=True)
class StagedRatio:
    """The ratio of two groups of figures after one or two interim analyses."""

    value: float | None  # None: a figure is 0, or there is none
    low: float | None = None  # interval that holds in both analyses together; None: unknown spread
    high: float | None = None
    stages: tuple[StageEstimate, ...] = ()
    early_analyses: int = 0  # possible analyses of an unfinished first stage; 0: finished

    def p_of(self, ratio: float) -> float | None:
        """Return the two-sided p-value of this ratio, for all analyses so far and to come. A ratio
        with a value below 5 % is rejected."""
        from scipy.special import ndtr

        if not self.stages:
            return None
        deviates = [stage.deviate(math.log(ratio)) for stage in self.stages]
        alone = 2 * float(ndtr(-abs(deviates[0])))
        if self.early_analyses:
            return min(1.0, alone * self.early_analyses * LEVEL / EARLY_LEVEL)
        p = RULE.overall(FIRST, alone)
        if len(deviates) > 1:
            both = abs(sum(deviates)) / math.sqrt(2)
            p = min(p, RULE.overall(SECOND, 2 * float(ndtr(-both))))
        return p

    def further(self, gap: float, family: int = 1) -> float:
        """Return the relative size of another stage until the interval probably ends within this
        distance of the estimate (on the scale of logarithms), at a level that is divided among
        `family` ratios.

        After one stage, it is the size of a second stage divided by that of the first. After two
        stages, it is the size of a new first stage divided by both. It is infinite if it is
        unknown."""
        from scipy.special import ndtr, ndtri, stdtrit

        if not self.stages or gap <= 0:
            return math.inf
        first = self.stages[0]
        is_new = len(self.stages) > 1
        reach = -float(ndtri(RULE.level_at(FIRST if is_new else SECOND) / family / 2))
        if is_new:
            information = sum((gap / stage.error) ** 2 for stage in self.stages)
            return float((reach + ndtri(POWER)) ** 2 / information)
        lacking = math.sqrt(2) * reach - first.deviate(first.log_ratio - gap)
        share = 1.0
        for _ in range(_ROUNDS):  # few blocks have few degrees of freedom, and so need more
            needed = float(stdtrit(max(1.0, share * first.degrees), ndtr(lacking)) + ndtri(POWER))
            share = (max(0.0, needed) * first.error / gap) ** 2
        return share


def ratio_in_stages(above: Stages, below: Stages, planned: int = 0) -> StagedRatio:
    """Return the ratio of geometric means, `above` over `below`.

    A stage needs at least two figures of each group, all of them above 0. `planned` is the number
    of blocks of an unfinished first stage, 0 if it is finished."""
    both = zip_longest(above, below, fillvalue=())
    stages = tuple(stage for a, b in both if (stage := _estimate(a, b)) is not None)[:2]
    if not stages:
        return StagedRatio(ratio_of([*chain(*below)], [*chain(*above)]).value)
    if planned:
        early_analyses = max(1, planned - 2)  # after each block from the second to the last but one
        ends = stages[0].interval(EARLY_LEVEL / early_analyses)
        low, value, high = map(_exp, (ends[0], stages[0].log_ratio, ends[1]))
        return StagedRatio(value, low, high, stages[:1], early_analyses)
    low, high = stages[0].interval(RULE.level_at(FIRST))
    estimate = stages[0].log_ratio
    if len(stages) > 1:
        estimate, second = _together(stages)
        if max(low, second[0]) <= min(high, second[1]):
            low, high = max(low, second[0]), min(high, second[1])
        else:  # the stages contradict each other
            low, high = second
    estimate = min(max(estimate, low), high)
    return StagedRatio(_exp(estimate), _exp(low), _exp(high), stages)


def _exp(log_ratio: float) -> float:
    """Return the ratio; infinite if it is too large for a number, as with two figures a group."""
    return math.exp(log_ratio) if log_ratio < _LARGEST else math.inf


def _estimate(above: Sequence[float], below: Sequence[float]) -> StageEstimate | None:
    """Return Welch's estimate. Equal readings have at least the variance of the resolution."""
    if min(len(above), len(below)) < 2 or min(*above, *below) <= 0:
        return None
    means, shares, degrees = [], [], []
    for side in (above, below):
        logs = [math.log(value) for value in side]
        means.append(statistics.fmean(logs))
        shares.append(max(statistics.variance(logs), RESOLUTION**2 / 12) / len(logs))
        degrees.append(len(logs) - 1)
    welch = sum(shares) ** 2 / sum(s**2 / d for s, d in zip(shares, degrees, strict=True))
    return StageEstimate(means[0] - means[1], math.sqrt(sum(shares)), welch)


def _together(stages: Sequence[StageEstimate]) -> tuple[float, tuple[float, float]]:
    """Return the ln(ratio) for which the deviates add up to 0, and the interval of the second
    analysis."""
    from scipy.optimize import brentq
    from scipy.special import ndtri

    reach = -math.sqrt(2) * float(ndtri(RULE.level_at(SECOND) / 2))

    def where(total: float) -> float:
        """Return the ln(ratio) for which the deviates have this sum."""
        level = 2 * statistics.NormalDist().cdf(-abs(total) / 2)
        ends = [stage.interval(level) for stage in stages]
        return float(
            brentq(
                lambda at: sum(stage.deviate(at) for stage in stages) - total,
                min(low for low, _ in ends) - 1e-12,
                max(high for _, high in ends) + 1e-12,
                xtol=1e-12,
            )
        )

    return where(0.0), (where(reach), where(-reach))
