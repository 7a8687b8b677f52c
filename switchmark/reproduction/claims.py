"""The ratios that a claim of a finding is made of, each with its bounds.

A ratio is that of geometric means over repetitions with its 95 % interval (Welch's t on
logarithms).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from switchmark.model.parameters import BY_NAME
from switchmark.reproduction.paper import Claim, Figure, fulfils
from switchmark.results.published import measured
from switchmark.results.rows import SummaryRow
from switchmark.statistics.comparison import ratio_of
from switchmark.statistics.means import Estimate, estimate


@dataclass(frozen=True, slots=True)
class Tried:
    """One ratio of a claim, with its bounds."""

    what: str
    row: SummaryRow  # of the upper figure
    value: float | None
    low: float | None
    high: float | None
    at_least: float
    at_most: float
    p_outside: float | None  # that it lies within, if it was found outside

    @property
    def inside(self) -> bool:
        """Whether the whole interval lies within the bounds."""
        if self.low is None or self.high is None:
            return False
        return self.at_least <= self.low and self.high <= self.at_most

    @property
    def words(self) -> str:
        """The ratio in words: `vpp / snabb: 1.42 [1.31, 1.55]`."""
        if self.value is None:
            return f"{self.what}: no ratio"
        spread = "" if self.low is None else f" [{self.low:.3g}, {self.high:.3g}]"
        return f"{self.what}: {self.value:.3g}{spread}"


def estimate_of(row: SummaryRow, figure: Figure) -> Estimate | None:
    """The figure of a row; None where the row has none of this kind."""
    if not row.finished:
        return None
    if figure.unit == "cores":
        cores = row.cpu.each_total_cores if row.cpu is not None else ()
        return estimate(cores) if cores else None
    return measured(row, figure.kind)


def tries(claim: Claim, rows_of: Mapping[str, Sequence[SummaryRow]]) -> Iterator[Tried]:
    """The ratios of a claim, from rows that are valid and no bare wire (item -> its rows)."""
    able = _able(claim, rows_of.get(claim.item, ()), claim.where)
    if claim.other_item is not None:
        other = rows_of.get(claim.other_item, ())
        yield from _across(claim, able, _able(claim, other, claim.other_where))
    elif claim.link is not None:
        yield from _of_link(claim, claim.link, able)
    elif claim.steady:
        yield from _steadier(claim, able)
    elif claim.order:
        yield from _order(claim, able)
    elif claim.than is not None:
        yield from _within(claim, claim.than, able)
    elif claim.left is not None and claim.right is not None:
        yield from _between(claim, able)
    elif (over := claim.over or claim.rises or claim.falls) is not None:
        yield from _along(claim, able, over)


def _able(claim: Claim, rows: Sequence[SummaryRow], where: Mapping[str, str]) -> list[SummaryRow]:
    return [
        row
        for row in rows
        if row.valid and not row.is_baseline and fulfils(row.trial, dict(where))
        if estimate_of(row, claim.figure) is not None
        if not claim.cable or _over_cable(row)
    ]


def _over_cable(row: SummaryRow) -> bool:
    """Whether the row's frames went over NICs, or from one machine to another."""
    return row.one_machine is False or bool(row.trial.nics)


def _across(
    claim: Claim, rows: Sequence[SummaryRow], other: Sequence[SummaryRow]
) -> Iterator[Tried]:
    fields = [BY_NAME[name].field for name in claim.alike]
    low, high = claim.at_least or 0.0, claim.at_most or math.inf
    for a in rows:
        for b in other:
            if all(getattr(a.trial, one) == getattr(b.trial, one) for one in fields):
                what = f"{a.contender} / {b.contender} of {claim.other_item}"
                yield _try(a, b, claim.figure, low, high, what)


def _of_link(claim: Claim, link: float, rows: Sequence[SummaryRow]) -> Iterator[Tried]:
    """Ratios of loads to a rate that is known, for each direction of the traffic."""
    low, high = claim.at_least or 0.0, claim.at_most or math.inf
    for row in rows:
        found = estimate_of(row, claim.figure)
        assert found is not None, "only rows with the figure are tried"
        whole = link * (2 if row.trial.bidirectional else 1)
        what = f"{row.contender}, of {whole / 1e9:g} Gbit/s"
        above = found.values or (found.mean,)
        yield _tried(what, row, above, (whole,) * len(above), low, high)


def _steadier(claim: Claim, rows: Sequence[SummaryRow]) -> Iterator[Tried]:
    """Ratios of two changes: each from the least to the greatest value of a key, which way it
    went."""
    assert claim.over is not None, "a change is over a key"
    key = BY_NAME[claim.over]
    place = key.axis.place if key.axis is not None else float
    lines: dict[str, list[SummaryRow]] = {}
    for row in rows:
        if place(getattr(row.trial, key.field)) is not None:
            lines.setdefault(_rest(row, {key.field}), []).append(row)
    changes: list[tuple[SummaryRow, list[float]]] = []
    for line in lines.values():
        line.sort(key=lambda row: place(getattr(row.trial, key.field)) or 0.0)
        begin, end = (estimate_of(one, claim.figure) for one in (line[0], line[-1]))
        if len(line) > 1 and begin is not None and end is not None:
            pairs = zip(begin.values or (begin.mean,), end.values or (end.mean,), strict=False)
            up = 1 if end.mean >= begin.mean else -1
            changes.append((line[0], [(b / a) ** up for a, b in pairs if a > 0 and b > 0]))
    first, second = claim.steady
    for a, of_a in changes:
        for b, of_b in changes:
            if a.trial.switch in first and b.trial.switch in second and a.point == b.point:
                what = f"change over {claim.over}, {a.contender} / {b.contender}"
                yield _tried(what, a, of_a, of_b, 0.0, 1.0)


def _order(claim: Claim, rows: Sequence[SummaryRow]) -> Iterator[Tried]:
    less = claim.figure.unit in ("us", "cores")
    low, high = (0.0, 1.0) if less else (1.0, math.inf)
    for better, worse in pairwise(claim.order):
        for a in rows:
            for b in rows:
                if a.trial.switch in better and b.trial.switch in worse and a.point == b.point:
                    yield _try(a, b, claim.figure, low, high, f"{a.contender} / {b.contender}")


def _between(claim: Claim, rows: Sequence[SummaryRow]) -> Iterator[Tried]:
    assert claim.left is not None and claim.right is not None
    named = {BY_NAME[name].field for name in (*claim.left, *claim.right)}
    for a in rows:
        for b in rows:
            if not (fulfils(a.trial, claim.left) and fulfils(b.trial, claim.right)):
                continue
            if not _alike(a, b, named):
                continue
            low, high = claim.at_least or 0.0, claim.at_most or math.inf
            yield _try(a, b, claim.figure, low, high, f"{_name(a, named)} / {_name(b, named)}")


def _within(claim: Claim, than: Figure, rows: Sequence[SummaryRow]) -> Iterator[Tried]:
    """Ratios of two figures of one row. Both are of the same trials; that they vary together is not
    used, so that the intervals are rather too wide."""
    low, high = claim.at_least or 0.0, claim.at_most or math.inf
    for row in rows:
        if estimate_of(row, than) is not None:
            upper, lower = (one.words.partition(" (")[0] for one in (claim.figure, than))
            what = f"{row.contender}, {upper} / {lower}"
            yield _try(row, row, claim.figure, low, high, what, than)


def _along(claim: Claim, rows: Sequence[SummaryRow], over: str) -> Iterator[Tried]:
    """Lines of rows that differ in one key alone, ordered by its value."""
    key = BY_NAME[over]
    place = key.axis.place if key.axis is not None else float
    lines: dict[str, list[tuple[float, SummaryRow]]] = {}
    for row in rows:
        at = place(getattr(row.trial, key.field))
        if at is not None:
            lines.setdefault(_rest(row, {key.field}), []).append((at, row))
    for line in lines.values():
        line.sort(key=lambda item: item[0])
        if claim.power is None:
            low, high = (1.0, math.inf) if claim.rises else (0.0, 1.0)
            for (x, a), (y, b) in pairwise(line):
                told = f"{b.contender}, {over} {y:g} / {x:g}"
                yield _try(b, a, claim.figure, low, high, told)
            continue
        first_x, first = line[0]
        for x, row in line[1:]:
            due = (x / first_x) ** claim.power
            low, high = due * (1 - claim.within), due / (1 - claim.within)
            told = f"{row.contender}, {over} {x:g} / {first_x:g}"
            yield _try(row, first, claim.figure, low, high, told)


def _alike(a: SummaryRow, b: SummaryRow, named: set[str]) -> bool:
    """Whether two rows differ in nothing but these fields, and in what goes with another switch:
    basicfwd cannot learn, and has other options."""
    if "switch" not in named:
        return _rest(a, named) == _rest(b, named)
    return all(
        left == right or field in named
        for (field, left), (_, right) in zip(a.point, b.point, strict=True)
    )


def _rest(row: SummaryRow, named: set[str]) -> str:
    """The row's fields without these."""
    return str(row.trial.model_dump(mode="json", exclude=named | {"repetition"}))


def _name(row: SummaryRow, named: set[str]) -> str:
    others = [
        key.text(getattr(row.trial, key.field))
        for key in BY_NAME.values()
        if key.field in named and key.field != "switch"
    ]
    return " ".join([row.contender, *others])


def _try(
    a: SummaryRow,
    b: SummaryRow,
    figure: Figure,
    low: float,
    high: float,
    what: str,
    of_b: Figure | None = None,
) -> Tried:
    """The ratio of a's figure to b's (or to another one of b), against its bounds."""
    upper, lower = estimate_of(a, figure), estimate_of(b, of_b or figure)
    assert upper is not None and lower is not None
    above, below = upper.values or (upper.mean,), lower.values or (lower.mean,)
    return _tried(what, a, above, below, low, high)


def _tried(
    what: str,
    row: SummaryRow,
    above: Sequence[float],
    below: Sequence[float],
    low: float,
    high: float,
) -> Tried:
    """The ratio of two groups of figures, against its bounds."""
    found = ratio_of(below, above)
    p = None
    if found.p is not None and found.value is not None:
        bound = low if found.value < low else high if found.value > high else None
        p = 1.0
        if bound is not None and bound > 0:
            p = ratio_of([value * bound for value in below], above).p
    return Tried(what, row, found.value, found.low, found.high, low, high, p)
