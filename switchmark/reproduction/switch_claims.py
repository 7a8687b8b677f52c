"""Claims about several switches: the correlation of two figures, and the best switch everywhere.

Both count pairs of switches. The ratio of a pair shows which switch leads, with Holm's correction
over the pairs. Pairs without a proven lead leave the result open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

from switchmark.reproduction.paper import Claim, Figure
from switchmark.reproduction.ratio_test import (
    LESS,
    TriedRatio,
    is_less_better,
    planned_of,
    try_ratio,
    values_of,
)
from switchmark.results.rows import SummaryRow
from switchmark.statistics.comparison import Correction, adjust
from switchmark.statistics.means import LEVEL
from switchmark.statistics.stages import StagedRatio, ratio_in_stages

_FEWEST = 3  # least number of switches for a rank correlation
Place = tuple[str, Figure, Sequence[SummaryRow]]  # an item, its figure, its rows


def correlated(claim: Claim, other: Figure, rows: Sequence[SummaryRow]) -> Iterator[TriedRatio]:
    """Yield the rank correlation (M. G. Kendall's tau, 1938) of two figures over the switches, for
    each test point. A pair without a proven order in both figures may have either sign, which gives
    the interval."""
    bounds = (
        -1.0 if claim.at_least is None else claim.at_least,
        1.0 if claim.at_most is None else claim.at_most,
    )
    figures = (claim.figure, other)
    upper, lower = (figure.words.partition(" (")[0] for figure in figures)
    for group in _by_point(rows):
        if len(group) < _FEWEST:
            continue
        signs, ps = [], []
        pairs: list[StagedRatio] = []
        for a, b in combinations(group, 2):
            found = [
                ratio_in_stages(values_of(a, figure), values_of(b, figure), planned_of(a, b))
                for figure in figures
            ]
            pairs += found
            logs = [math.log(ratio.value) if ratio.value else 0.0 for ratio in found]
            signs.append(int(math.copysign(1, logs[0] * logs[1])))
            known = [p for ratio in found if (p := ratio.p_of(1.0)) is not None]
            ps.append(max(known) if len(known) == len(found) else None)
        adjusted = [1.0 if p is None else p for p in adjust(ps, Correction.HOLM)]
        label = f"rank correlation of {upper} and {lower} over {len(group)} switches"
        value = sum(signs) / len(signs)
        if all(p is None for p in ps):
            yield TriedRatio(label, tuple(group), value, None, None, *bounds, None, tuple(pairs))
            continue
        low, high = _tau(signs, adjusted, LEVEL)
        p = _p_outside(signs, adjusted, bounds)
        yield TriedRatio(label, tuple(group), value, low, high, *bounds, p, tuple(pairs))


def _tau(signs: Sequence[int], ps: Sequence[float], level: float) -> tuple[float, float]:
    """Return the least and the greatest tau that the pairs proven at this level permit."""
    proven = [sign for sign, p in zip(signs, ps, strict=True) if p < level]
    unknown = len(signs) - len(proven)
    return (sum(proven) - unknown) / len(signs), (sum(proven) + unknown) / len(signs)


def _p_outside(signs: Sequence[int], ps: Sequence[float], bounds: tuple[float, float]) -> float:
    """Return the least level at which tau is proven to lie outside."""
    for p in sorted({value for value in ps if value < 1}):
        low, high = _tau(signs, ps, math.nextafter(p, 1))
        if low > bounds[1] or high < bounds[0]:
            return p
    return 1.0


@dataclass(frozen=True, slots=True)
class _Duel:
    """The ratio of a switch to a rival at one place, below 1 if the rival is better."""

    item: str
    ratio: TriedRatio
    p: float | None  # p-value of equality


def beaten_somewhere(places: Sequence[Place]) -> Iterator[TriedRatio]:
    """Yield, for every switch of the first place, the ratio below 1 to the rival that beats it most
    clearly at any place. If no rival is proven better (Holm's correction over all rivals), the
    ratio has no interval. A switch that is proven the best at all places contradicts the claim."""
    groups = [(item, figure, group) for item, figure, rows in places for group in _by_point(rows)]
    for name in dict.fromkeys(row.trial.switch for row in places[0][2]):
        duels = list(_duels(name, groups))
        if not duels:
            continue
        adjusted = adjust([duel.p for duel in duels], Correction.HOLM)
        ranked = [
            (1.0 if p is None else p, duel.ratio.value or math.inf, index)
            for index, (duel, p) in enumerate(zip(duels, adjusted, strict=True))
            if (duel.ratio.value or math.inf) < 1
        ]
        everywhere = {item for item, _, _ in places} == {duel.item for duel in duels}
        least, _, index = min(ranked, default=(1.0, 0.0, 0))
        best = duels[index]
        is_best = not ranked and everywhere and all(duel.p is not None for duel in duels)
        worst = max((duel.p for duel in duels if duel.p is not None), default=1.0)
        is_known = least < LEVEL
        ratio = best.ratio
        yield TriedRatio(
            f"{ratio.label} of {best.item}", ratio.rows, ratio.value,
            ratio.low if is_known else None, ratio.high if is_known else None, *LESS,
            worst if is_best else 1.0, ratio.made_of,
        )  # fmt: skip


def _duels(name: str, groups: Sequence[Place]) -> Iterator[_Duel]:
    for item, figure, group in groups:
        for row in (row for row in group if row.trial.switch == name):
            for rival in group:
                if rival.trial.switch == name:
                    continue
                above, below = values_of(row, figure), values_of(rival, figure)
                if is_less_better(figure):
                    above, below = below, above
                label = f"{row.contender} / {rival.contender}"
                ratio = try_ratio(label, (row, rival), above, below, LESS)
                yield _Duel(item, ratio, ratio.made_of[0].p_of(1.0))


def _by_point(rows: Sequence[SummaryRow]) -> Iterator[list[SummaryRow]]:
    """Yield the rows of each test point, which may be compared."""
    ordered = sorted(rows, key=lambda row: str(row.point))
    for _, group in groupby(ordered, key=lambda row: row.point):
        yield list(group)
