"""A ratio of a claim: two groups of figures, the bounds, and the proof that it lies outside.

It is the ratio of geometric means over repetitions, with a 95 % interval for both interim analyses
(statistics/stages.py). "More" and "less" mean a relevant difference. If the whole interval lies
within 5 % of 1, the two figures are equal, and such a claim is contradicted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from switchmark.reproduction.paper import Figure
from switchmark.results.published import measured
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate, estimate
from switchmark.statistics.stages import StagedRatio, Stages, ratio_in_stages

MARGIN = 0.05  # smaller leads are not relevant
ALIKE = (1 - MARGIN, 1 / (1 - MARGIN))
MORE, LESS = (1.0, math.inf), (0.0, 1.0)  # bounds of claims that something is better or worse


@dataclass(frozen=True, slots=True)
class TriedRatio:
    """One ratio of a claim, with its bounds."""

    label: str
    rows: tuple[SummaryRow, ...]  # row of the upper figure, and of the lower
    value: float | None
    low: float | None
    high: float | None
    at_least: float
    at_most: float
    p_outside: float | None  # p-value of "it lies within", for a value outside or equal
    made_of: tuple[StagedRatio, ...] = ()  # the ratio, or all pairs of a rank correlation
    items: tuple[str, ...] = ()  # items of the claim

    @property
    def is_alike(self) -> bool:
        """True if the claim is a difference, and no relevant difference exists."""
        if self.low is None or self.high is None:
            return False
        return self.is_strict and ALIKE[0] <= self.low and self.high <= ALIKE[1]

    @property
    def is_strict(self) -> bool:
        """True if the claim is a difference."""
        return (self.at_least, self.at_most) in (MORE, LESS)

    @property
    def inside(self) -> bool:
        """True if the whole interval lies within the bounds."""
        if self.low is None or self.high is None or self.is_alike:
            return False
        return self.at_least <= self.low and self.high <= self.at_most

    @property
    def words(self) -> str:
        """The ratio as text: `vpp / snabb: 1.42 [1.31, 1.55]`."""
        if self.value is None:
            return f"{self.label}: no ratio"
        spread = "" if self.low is None else f" [{self.low:.3g}, {self.high:.3g}]"
        alike = f", no difference of {MARGIN * 100:g} %" if self.is_alike else ""
        return f"{self.label}: {self.value:.3g}{spread}{alike}"


def estimate_of(row: SummaryRow, figure: Figure) -> Estimate | None:
    """Return the figure of a row; None if the row has no figure of this kind."""
    if not row.finished:
        return None
    if figure.unit == "cores":
        cores = row.cpu.each_total_cores if row.cpu is not None else ()
        return estimate(cores) if cores else None
    return measured(row, figure.kind)


def values_of(row: SummaryRow, figure: Figure) -> Stages:
    """Return the figure of each repetition of a row, by stage."""
    return tuple(_values(stage, figure) for stage in row.stages or (row,))


def planned_of(*rows: SummaryRow) -> int:
    """Return the blocks of the first stage if it is not over; otherwise 0."""
    return max((row.planned for row in rows), default=0)


def _values(row: SummaryRow, figure: Figure) -> tuple[float, ...]:
    """Return the figure of each repetition; empty for a stage without the figure.

    For the standard deviation of a load, it is each repetition's distance from the median (M. B.
    Brown and A. B. Forsythe, 1974)."""
    if figure.statistic == "stdev" and figure.unit in ("pps", "bps"):
        loads = estimate_of(row, figure.model_copy(update={"statistic": "mean"}))
        if loads is not None:
            away = (abs(value - loads.median) for value in loads.values)
            return tuple(value for value in away if value > 0) or (0.0,)
    found = estimate_of(row, figure)
    return () if found is None else found.values or (found.mean,)


def is_less_better(figure: Figure) -> bool:
    """Return True if lower figures are better: times, cores."""
    return figure.unit in ("us", "cores")


def try_ratio(
    label: str,
    rows: tuple[SummaryRow, ...],
    above: Stages,
    below: Stages,
    bounds: tuple[float, float],
) -> TriedRatio:
    """Compare the ratio of two groups of figures with its bounds."""
    found = ratio_in_stages(above, below, planned_of(*rows))
    p = None
    if found.stages and found.value is not None:
        low, high = bounds
        bound = low if found.value < low else high if found.value > high else None
        p = _p_of(found, bound) if bound else 1.0
        if bounds in (MORE, LESS) and ALIKE[0] < found.value < ALIKE[1]:
            p = min(p, max(_p_of(found, bound) for bound in ALIKE))
    return TriedRatio(label, rows, found.value, found.low, found.high, *bounds, p, (found,))


def _p_of(found: StagedRatio, bound: float) -> float:
    p = found.p_of(bound)
    return 1.0 if p is None else p
