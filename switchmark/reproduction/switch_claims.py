"""Claims about switches together: whether two figures go together, and whether one switch prevails.

Both count pairs of switches. Of each pair, its ratio tells which is ahead, with Holm's correction
over the pairs, so that what repetitions do not prove leaves the answer open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

from switchmark.reproduction.paper import Claim, Figure
from switchmark.reproduction.ratio_test import (
    LESS,
    Tried,
    is_less_better,
    planned_of,
    tried,
    values_of,
)
from switchmark.results.rows import SummaryRow
from switchmark.statistics.comparison import Correction, adjust
from switchmark.statistics.means import LEVEL
from switchmark.statistics.stages import StagedRatio, ratio_in_stages

_FEWEST = 3  # switches that can be ordered in more ways than one or its opposite
Place = tuple[str, Figure, Sequence[SummaryRow]]  # an item, the figure there, its rows


def correlated(claim: Claim, other: Figure, rows: Sequence[SummaryRow]) -> Iterator[Tried]:
    """The rank correlation (M. G. Kendall's tau, 1938) of two figures over the switches, between
    two bounds, for each point. A pair that is not proven to be ordered one way or the other in both
    figures may be either: that is the interval."""
    bounds = (
        -1.0 if claim.at_least is None else claim.at_least,
        1.0 if claim.at_most is None else claim.at_most,
    )
    figures = (claim.figure, other)
    upper, lower = (one.words.partition(" (")[0] for one in figures)
    for group in _by_point(rows):
        if len(group) < _FEWEST:
            continue
        signs, ps = [], []
        pairs: list[StagedRatio] = []
        for a, b in combinations(group, 2):
            found = [
                ratio_in_stages(values_of(a, one), values_of(b, one), planned_of(a, b))
                for one in (claim.figure, other)
            ]
            pairs += found
            logs = [math.log(one.value) if one.value else 0.0 for one in found]
            signs.append(int(math.copysign(1, logs[0] * logs[1])))
            known = [p for one in found if (p := one.p_of(1.0)) is not None]
            ps.append(max(known) if len(known) == len(found) else None)
        adjusted = [1.0 if p is None else p for p in adjust(ps, Correction.HOLM)]
        what = f"rank correlation of {upper} and {lower} over {len(group)} switches"
        value = sum(signs) / len(signs)
        if all(p is None for p in ps):
            yield Tried(what, tuple(group), value, None, None, *bounds, None, tuple(pairs))
            continue
        low, high = _tau(signs, adjusted, LEVEL)
        p = _p_outside(signs, adjusted, bounds)
        yield Tried(what, tuple(group), value, low, high, *bounds, p, tuple(pairs))


def _tau(signs: Sequence[int], ps: Sequence[float], level: float) -> tuple[float, float]:
    """The least and the greatest tau that pairs which are proven at this level leave."""
    proven = [sign for sign, p in zip(signs, ps, strict=True) if p < level]
    unknown = len(signs) - len(proven)
    return (sum(proven) - unknown) / len(signs), (sum(proven) + unknown) / len(signs)


def _p_outside(signs: Sequence[int], ps: Sequence[float], bounds: tuple[float, float]) -> float:
    """The least level at which tau is proven to lie outside."""
    for p in sorted({one for one in ps if one < 1}):
        low, high = _tau(signs, ps, math.nextafter(p, 1))
        if low > bounds[1] or high < bounds[0]:
            return p
    return 1.0


@dataclass(frozen=True, slots=True)
class _Duel:
    """A switch against a rival at one place, below 1 where the rival is better."""

    item: str
    ratio: Tried
    p: float | None  # that they are equal


def beaten_somewhere(places: Sequence[Place]) -> Iterator[Tried]:
    """For every switch of the first place: its ratio to the rival that beats it most clearly at any
    place, which is below 1. Where no rival is proven to (Holm's correction over all of them), the
    ratio has no interval; a switch that is proven the best at all places contradicts it."""
    groups = [(item, figure, group) for item, figure, rows in places for group in _by_point(rows)]
    for name in dict.fromkeys(row.trial.switch for row in places[0][2]):
        duels = list(_duels(name, groups))
        if not duels:
            continue
        adjusted = adjust([one.p for one in duels], Correction.HOLM)
        ranked = [
            (1.0 if p is None else p, one.ratio.value or math.inf, index)
            for index, (one, p) in enumerate(zip(duels, adjusted, strict=True))
            if (one.ratio.value or math.inf) < 1
        ]
        everywhere = {item for item, _, _ in places} == {one.item for one in duels}
        least, _, index = min(ranked, default=(1.0, 0.0, 0))
        best = duels[index]
        is_best = not ranked and everywhere and all(one.p is not None for one in duels)
        worst = max((one.p for one in duels if one.p is not None), default=1.0)
        is_known = least < LEVEL
        ratio = best.ratio
        yield Tried(
            f"{ratio.what} of {best.item}", ratio.rows, ratio.value,
            ratio.low if is_known else None, ratio.high if is_known else None, *LESS,
            worst if is_best else 1.0, ratio.made_of,
        )  # fmt: skip


def _duels(name: str, groups: Sequence[Place]) -> Iterator[_Duel]:
    for item, figure, group in groups:
        mine = [row for row in group if row.trial.switch == name]
        for row in mine:
            for rival in group:
                if rival.trial.switch == name:
                    continue
                above, below = values_of(row, figure), values_of(rival, figure)
                if is_less_better(figure):
                    above, below = below, above
                what = f"{row.contender} / {rival.contender}"
                ratio = tried(what, (row, rival), above, below, LESS)
                yield _Duel(item, ratio, ratio.made_of[0].p_of(1.0))


def _by_point(rows: Sequence[SummaryRow]) -> Iterator[list[SummaryRow]]:
    """The rows of each point: those that may be compared."""
    ordered = sorted(rows, key=lambda row: str(row.point))
    for _, group in groupby(ordered, key=lambda row: row.point):
        yield list(group)
