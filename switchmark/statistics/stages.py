"""The ratio of two groups of figures that were taken in two stages, the second sized by the first.

Who sizes a second stage by the figures of the first, and then tests all figures as one group, is
wrong more often than the level says (M. Proschan, S. Hunsberger, 1995). So each stage is tested by
itself, by Welch's t on logarithms, and of the two normal deviates the sum is taken, with weights
that are equal whatever the sizes: of the true ratio it is normal, too (W. Lehmacher, G. Wassmer,
1999). The ratio is looked at after each stage, at the levels of two planned looks (boundaries.py),
so that the intervals of both looks hold together with 95 %, and what the first proves stays proven.

A first stage that is not over may be looked at, too. All these looks share a chance of their own to
be wrong, an equal part each (C. Bonferroni), which is so small that a look proves what is clear,
and the level of the two planned looks remains theirs (as of J. Haybittle, 1971, and R. Peto, 1976).
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

FIRST, SECOND = 2, 4  # looks of equal weight
RULE = StoppingRule((FIRST, SECOND), LEVEL)
EARLY_LEVEL = LEVEL / 10  # of all looks at a first stage that is not over, together
_ROUNDS = 20  # of an estimate that depends on itself
_LARGEST = math.log(sys.float_info.max)
_FAR = 37.0  # a deviate beyond which nothing is told from 0
Stages = Sequence[Sequence[float]]  # the figures of each stage, one a block


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """ln(ratio) as one stage tells it."""

    log_ratio: float
    error: float  # standard error
    degrees: float  # of freedom

    def deviate(self, log_ratio: float) -> float:
        """How far above this ln(ratio) the estimate lies, as a standard normal deviate."""
        from scipy.special import ndtri, stdtr

        t = (self.log_ratio - log_ratio) / self.error
        away = -float(ndtri(stdtr(self.degrees, -abs(t))))
        return math.copysign(min(away, _FAR), t)

    def interval(self, level: float) -> tuple[float, float]:
        """The two-sided interval of ln(ratio)."""
        from scipy.special import stdtrit

        half = float(stdtrit(self.degrees, 1 - level / 2)) * self.error
        return self.log_ratio - half, self.log_ratio + half


@dataclass(frozen=True, slots=True)
class StagedRatio:
    """The ratio of two groups of figures after one look or two."""

    value: float | None  # None: a figure of 0, or none
    low: float | None = None  # interval that holds at both looks together; None: no spread is known
    high: float | None = None
    stages: tuple[StageEstimate, ...] = ()
    early_looks: int = 0  # that there may be at a first stage that is not over; 0: it is over

    def p_of(self, ratio: float) -> float | None:
        """The two-sided p-value of this ratio, over all looks so far and those to come: below 5 %
        it is refused."""
        from scipy.special import ndtr

        if not self.stages:
            return None
        deviates = [one.deviate(math.log(ratio)) for one in self.stages]
        alone = 2 * float(ndtr(-abs(deviates[0])))
        if self.early_looks:
            return min(1.0, alone * self.early_looks * LEVEL / EARLY_LEVEL)
        p = RULE.overall(FIRST, alone)
        if len(deviates) > 1:
            both = abs(sum(deviates)) / math.sqrt(2)
            p = min(p, RULE.overall(SECOND, 2 * float(ndtr(-both))))
        return p

    def further(self, gap: float, family: int = 1) -> float:
        """How much more it takes until the interval probably ends within this distance of the
        estimate (on the scale of logarithms), at a level that is divided among `family` ratios.

        After one stage it is the size of a second one over the first's, after two that of a new
        first stage over both; infinite where it cannot be told."""
        from scipy.special import ndtr, ndtri, stdtrit

        if not self.stages or gap <= 0:
            return math.inf
        first = self.stages[0]
        is_new = len(self.stages) > 1
        reach = -float(ndtri(RULE.level_at(FIRST if is_new else SECOND) / family / 2))
        if is_new:
            told = sum((gap / one.error) ** 2 for one in self.stages)
            return float((reach + ndtri(POWER)) ** 2 / told)
        lacking = math.sqrt(2) * reach - first.deviate(first.log_ratio - gap)
        share = 1.0
        for _ in range(_ROUNDS):  # few blocks have few degrees of freedom, and so need more
            needed = float(stdtrit(max(1.0, share * first.degrees), ndtr(lacking)) + ndtri(POWER))
            share = (max(0.0, needed) * first.error / gap) ** 2
        return share


def ratio_in_stages(above: Stages, below: Stages, planned: int = 0) -> StagedRatio:
    """The ratio of geometric means, `above` over `below`.

    A stage counts from two figures of each group on, all of them above 0. `planned` is of how many
    blocks a first stage is that is not over, and 0 where it is."""
    both = zip_longest(above, below, fillvalue=())
    stages = tuple(one for a, b in both if (one := _estimate(a, b)) is not None)[:2]
    if not stages:
        return StagedRatio(ratio_of([*chain(*below)], [*chain(*above)]).value)
    if planned:
        early_looks = max(1, planned - 2)  # after each block from the second to the last but one
        ends = stages[0].interval(EARLY_LEVEL / early_looks)
        low, value, high = map(_exp, (ends[0], stages[0].log_ratio, ends[1]))
        return StagedRatio(value, low, high, stages[:1], early_looks)
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
    """The ratio; of two figures a group the interval may end where no number is."""
    return math.exp(log_ratio) if log_ratio < _LARGEST else math.inf


def _estimate(above: Sequence[float], below: Sequence[float]) -> StageEstimate | None:
    """Welch's estimate; equal readings prove no certainty."""
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
    """The ln(ratio) of which the deviates add up to 0, and the interval of the second look."""
    from scipy.optimize import brentq
    from scipy.special import ndtri

    reach = -math.sqrt(2) * float(ndtri(RULE.level_at(SECOND) / 2))

    def where(total: float) -> float:
        """The ln(ratio) at which the deviates have this sum."""
        level = 2 * statistics.NormalDist().cdf(-abs(total) / 2)
        ends = [one.interval(level) for one in stages]
        return float(
            brentq(
                lambda at: sum(one.deviate(at) for one in stages) - total,
                min(low for low, _ in ends) - 1e-12,
                max(high for _, high in ends) + 1e-12,
                xtol=1e-12,
            )
        )

    return where(0.0), (where(reach), where(-reach))
