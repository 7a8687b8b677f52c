"""Looks at figures while they are still being taken, without more false claims for it.

Who looks after every block and stops when p < 0.05 is wrong far more often than in 5 % of
cases. Looks are therefore planned, and each has a level of its own, such that the chance of
any false claim at any look is the level of the whole (Lan and DeMets, Biometrika 70, 1983):
by then a stated share of it is spent. The levels follow from the joint normal distribution
of the estimates at all looks, integrated look by look (P. Armitage, C. McPherson, B. Rowe,
1969), and are used with Student's t (C. Jennison, B. Turnbull, 2000, section 4.4). Intervals
at these levels hold at all looks together ("repeated confidence intervals", the same,
chapter 9): stopping does not make them too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np

FIRST_LOOK = 8  # blocks; fewer do not tell their own spread
GROWTH = 1.3  # of the number of blocks from one look to the next
EXPECTED_SHARE = 0.8  # of the level, spent by the number of blocks that a campaign expects
_WHOLES = tuple(map(float, np.geomspace(1e-6, 0.99, 24)))  # levels that p-values are read from
_NODES = 160  # of the integration; more change no digit shown


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """The counts of blocks (or repetitions) at which figures are looked at, and the level of each
    look."""

    looks: tuple[int, ...]
    level: float = 0.05  # chance of a false claim at any look, divided by ...
    family: int = 1  # ... the number of comparisons that are claimed together (Bonferroni)
    expected: int | None = None  # looks until then may spend most of the level; None: the last

    def __post_init__(self) -> None:
        rises = all(a < b for a, b in zip(self.looks, self.looks[1:], strict=False))
        if not self.looks or self.looks[0] < 2 or not rises:
            raise ValueError(f"looks {self.looks}: rising counts from 2 on are needed")
        if not 0 < self.level < 1 or self.family < 1:
            raise ValueError(
                f"a level lies between 0 and 1, not {self.level} for {self.family} comparisons"
            )

    @classmethod
    def after_each(cls, first: int, last: int) -> Self:
        """The rule with a look after each repetition, from the first that may be the last."""
        first = max(2, first)
        return cls(tuple(range(first, max(first, last) + 1)))

    def is_look(self, count: int) -> bool:
        """Whether figures may be looked at after so many blocks."""
        return count in self.looks

    def level_at(self, count: int, *, is_last: bool = False) -> float:
        """The two-sided level of the interval after `count` blocks.

        `is_last`: time has run out before the last planned look, and the rest of the level is spent
        now. Raises ValueError at counts that are no look."""
        if not self.is_look(count) and not is_last:
            raise ValueError(f"no look is planned after {count} blocks, but after {self.looks}")
        before = tuple(look for look in self.looks if look < count)
        share = self.level / self.family
        budgets = [self._spent_by(look, share) for look in (*before, count)]
        if is_last:
            budgets[-1] = share
        return _levels((*before, count), tuple(budgets))[-1]

    def _spent_by(self, count: int, share: float) -> float:
        """How much of a level may be spent by this look. It depends on the look's number alone, so
        that it also holds at looks that nobody planned."""
        last = max(self.looks[-1], count)
        expected = last if self.expected is None else min(self.expected, last)
        if expected == last:
            return spent(count / last, share)
        until = EXPECTED_SHARE * share
        if count <= expected:
            return spent(count / expected, until)
        rest = (count - expected) / (last - expected)
        return until + spent(rest, share - until)

    def overall(self, count: int, p: float) -> float:
        """The level of the whole at which this p-value at this look is just significant: a p-value
        that holds for the look as one of all."""
        nominal, whole = _levels_of_wholes(self, count)
        if p >= nominal[-1]:
            return 1.0
        at = math.log(max(p, nominal[0]))
        return math.exp(float(np.interp(at, np.log(nominal), np.log(whole))))

    def next_look(self, count: int) -> int | None:
        """The first look after so many blocks; None after the last."""
        return next((look for look in self.looks if look > count), None)


def planned_looks(most: int, first: int = FIRST_LOOK) -> tuple[int, ...]:
    """Looks from `first` on in growing steps; the last one is after `most` blocks."""
    looks, count = [], float(first)
    while count * math.sqrt(GROWTH) < most:
        looks.append(round(count))
        count = max(count * GROWTH, count + 1)
    return (*looks, max(most, 2))


def spent(fraction: float, level: float) -> float:
    """How much of the level may be spent when this fraction (0 to 1) of the time is over: about
    evenly, as S. Pocock's boundaries do, so that large leads are proven early."""
    return level * math.log1p((math.e - 1) * fraction)


@lru_cache(maxsize=8)
def _levels_of_wholes(
    rule: StoppingRule, count: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The nominal levels of a look, and of the wholes that they belong to, rising."""
    return tuple(replace(rule, level=one).level_at(count) for one in _WHOLES), _WHOLES


@lru_cache(maxsize=512)
def _levels(counts: tuple[int, ...], budgets: tuple[float, ...]) -> tuple[float, ...]:
    """The two-sided nominal level of each look, such that `spent` is spent in all: sub-densities of
    the sum that has not yet crossed are carried from look to look on Gauss-Legendre nodes."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    points, weights = np.polynomial.legendre.leggauss(_NODES)
    levels: list[float] = []
    at, mass = np.zeros(1), np.ones(1)  # where the sum stands, and with what weight
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
