"""Interim analyses: tests while a campaign is running, without more false claims.

A user who tests after every block and stops when p < 0.05 is wrong in far more than 5 % of cases.
Interim analyses are therefore planned, and each has its own level, such that the probability of a
false claim in any of them is the level of the campaign (Lan and DeMets, Biometrika 70, 1983). Until
each analysis, a given part of that level may be spent. The levels follow from the joint normal
distribution of the estimates in all analyses, which is integrated analysis by analysis (P.
Armitage, C. McPherson, B. Rowe, 1969). They are used with Student's t (C. Jennison, B. Turnbull,
2000, section 4.4). Intervals at these levels hold in all analyses together ("repeated confidence
intervals", the same book, chapter 9), so stopping early does not make them too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np

FIRST_ANALYSIS = 8  # blocks; fewer blocks do not show their spread
GROWTH = 1.3  # ratio of the numbers of blocks at successive analyses
EXPECTED_SHARE = 0.8  # share of the level that is spent by the expected number of blocks
# Total levels, for the interpolation of p-values.
_TOTAL_LEVELS = tuple(map(float, np.geomspace(1e-6, 0.99, 24)))
_NODES = 160  # nodes of the integration; more nodes change no digit in any output


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """The counts of blocks (or repetitions) at which figures are tested, and the level of each
    interim analysis."""

    analyses: tuple[int, ...]
    level: float = 0.05  # probability of a false claim in any analysis, divided among
    family: int = 1  # this number of simultaneous comparisons (Bonferroni)
    expected: int | None = None  # blocks by which most of the level may be spent

    def __post_init__(self) -> None:
        rises = all(a < b for a, b in zip(self.analyses, self.analyses[1:], strict=False))
        if not self.analyses or self.analyses[0] < 2 or not rises:
            raise ValueError(f"analyses {self.analyses}: rising counts from 2 on are needed")
        if not 0 < self.level < 1 or self.family < 1:
            raise ValueError(
                f"a level lies between 0 and 1, not {self.level} for {self.family} comparisons"
            )

    @classmethod
    def after_each(cls, first: int, last: int) -> Self:
        """Return the rule with an analysis after each repetition from the `first` one on."""
        first = max(2, first)
        return cls(tuple(range(first, max(first, last) + 1)))

    def is_analysis(self, count: int) -> bool:
        """Return True if an interim analysis is planned after this number of blocks."""
        return count in self.analyses

    def level_at(self, count: int, *, is_last: bool = False) -> float:
        """Return the two-sided level of the interval after `count` blocks.

        `is_last`: the time is over before the last planned analysis, and the rest of the level is
        spent now. Raises ValueError if no analysis is planned at `count`."""
        if not self.is_analysis(count) and not is_last:
            raise ValueError(
                f"no interim analysis is planned after {count} blocks, only after {self.analyses}"
            )
        before = tuple(planned for planned in self.analyses if planned < count)
        share = self.level / self.family
        budgets = [self._alpha_spent_by(planned, share) for planned in (*before, count)]
        if is_last:
            budgets[-1] = share
        return _levels((*before, count), tuple(budgets))[-1]

    def _alpha_spent_by(self, count: int, share: float) -> float:
        """Return the part of a level that may be spent by the analysis after `count` blocks. It
        depends only on `count`, so that it also holds for unplanned analyses."""
        last = max(self.analyses[-1], count)
        expected = last if self.expected is None else min(self.expected, last)
        if expected == last:
            return spent(count / last, share)
        until = EXPECTED_SHARE * share
        if count <= expected:
            return spent(count / expected, until)
        rest = (count - expected) / (last - expected)
        return until + spent(rest, share - until)

    def overall(self, count: int, p: float) -> float:
        """Return the total level at which this p-value in this analysis is just significant: the
        p-value that takes all analyses into account."""
        nominal, whole = _nominal_and_total_levels(self, count)
        if p >= nominal[-1]:
            return 1.0
        at = math.log(max(p, nominal[0]))
        return math.exp(float(np.interp(at, np.log(nominal), np.log(whole))))

    def next_analysis(self, count: int) -> int | None:
        """Return the count of the first analysis after `count` blocks; None after the last one."""
        return next((planned for planned in self.analyses if planned > count), None)


def planned_analyses(most: int, first: int = FIRST_ANALYSIS) -> tuple[int, ...]:
    """Return the counts of analyses from `first` on in growing steps; the last count is `most`."""
    analyses, count = [], float(first)
    while count * math.sqrt(GROWTH) < most:
        analyses.append(round(count))
        count = max(count * GROWTH, count + 1)
    return (*analyses, max(most, 2))


def spent(fraction: float, level: float) -> float:
    """Return the part of the level that may be spent after this fraction (0 to 1) of the time:
    about evenly, like S. Pocock's boundaries, so that large leads are proven early."""
    return level * math.log1p((math.e - 1) * fraction)


@lru_cache(maxsize=8)
def _nominal_and_total_levels(
    rule: StoppingRule, count: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the nominal levels of an analysis and their total levels, both rising."""
    return tuple(
        replace(rule, level=level).level_at(count) for level in _TOTAL_LEVELS
    ), _TOTAL_LEVELS


@lru_cache(maxsize=512)
def _levels(counts: tuple[int, ...], budgets: tuple[float, ...]) -> tuple[float, ...]:
    """Return the two-sided nominal level of each analysis, such that `budgets` are spent. The
    density of the sums that have not crossed a boundary is carried from analysis to analysis on
    Gauss-Legendre nodes."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    points, weights = np.polynomial.legendre.leggauss(_NODES)
    levels: list[float] = []
    at, mass = np.zeros(1), np.ones(1)  # values of the sum and their weights
    for index, count in enumerate(counts):
        scale = math.sqrt(count - (counts[index - 1] if index else 0))
        budget = budgets[index] - (budgets[index - 1] if index else 0.0)

        def crossing(
            z: float, count: int = count, scale: float = scale, budget: float = budget
        ) -> float:
            far = z * math.sqrt(count)
            beyond = ndtr((-far - at) / scale) + ndtr((at - far) / scale)  # noqa: B023
            return float(mass @ beyond) - budget  # noqa: B023

        z = float(brentq(crossing, 0.0, 40.0, xtol=1e-10)) if budget > 1e-12 else 40.0
        levels.append(float(2 * ndtr(-z)))
        far = z * math.sqrt(count)
        moved = points * far
        steps = np.exp(-(((moved[:, None] - at) / scale) ** 2) / 2)
        density = (steps @ mass) / (scale * math.sqrt(2 * math.pi))
        at, mass = moved, density * weights * far
    return tuple(levels)
