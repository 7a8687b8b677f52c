"""The ratios that a claim of a finding is made of, each with its bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from switchmark.engine.loads import asked_pps
from switchmark.model.parameter_table import BY_NAME
from switchmark.record.page_sizes import PARAMETER, known_sizes
from switchmark.report import words
from switchmark.reproduction.paper import Claim, Figure, fulfils
from switchmark.reproduction.ratio_test import (
    LESS,
    MORE,
    Tried,
    estimate_of,
    is_less_better,
    tried,
    values_of,
)
from switchmark.reproduction.switch_claims import beaten_somewhere, correlated
from switchmark.results.rows import SummaryRow
from switchmark.statistics.stages import Stages


def tries(claim: Claim, rows_of: Mapping[str, Sequence[SummaryRow]]) -> Iterator[Tried]:
    """Return the ratios of a claim, from valid rows without baselines (item -> its rows)."""
    for one in _tries(claim, rows_of):
        if not _of_one_page_size(claim, one.rows):
            continue
        if claim.cores == "any" or one.rows[0].oversubscribed == (claim.cores == "lacking"):
            yield one


def _of_one_page_size(claim: Claim, rows: Sequence[SummaryRow]) -> bool:
    """Return True if these rows may be compared: their DPDK memory has pages of one size, unless
    the claim is about page sizes."""
    named = {*(claim.left or {}), *(claim.right or {}), claim.over, claim.rises, claim.falls}
    return PARAMETER in named or len(known_sizes(row.page_size_kib for row in rows)) < 2


def _tries(claim: Claim, rows_of: Mapping[str, Sequence[SummaryRow]]) -> Iterator[Tried]:
    able = _able(rows_of.get(claim.item, ()), claim.figure, claim.where, claim)
    if claim.other_item is not None:
        rows = rows_of.get(claim.other_item, ())
        yield from _across(claim, able, _able(rows, claim.figure, claim.other_where, claim))
    elif claim.correlated is not None:
        both = [row for row in able if estimate_of(row, claim.correlated) is not None]
        yield from correlated(claim, claim.correlated, both)
    elif claim.beaten_in:
        others = [
            (one.item, one.figure, _able(rows_of.get(one.item, ()), one.figure, one.where, claim))
            for one in claim.beaten_in
        ]
        yield from beaten_somewhere([(claim.item, claim.figure, able), *others])
    elif claim.link is not None:
        yield from _of_link(claim, claim.link, able)
    elif claim.asked:
        yield from _of_asked(claim, able)
    elif claim.flattens is not None:
        yield from _flatter(claim, able, claim.flattens)
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


def _able(
    rows: Sequence[SummaryRow], figure: Figure, where: Mapping[str, str], claim: Claim
) -> list[SummaryRow]:
    """The rows that the claim may compare: valid, with the figure."""
    return [
        row
        for row in rows
        if row.valid and not row.is_baseline and fulfils(row.trial, dict(where))
        if estimate_of(row, figure) is not None
        if not claim.cable or _over_cable(row)
    ]


def _over_cable(row: SummaryRow) -> bool:
    """Whether the row's frames went over NICs, or from one machine to another; between two virtual
    machines there is nothing to go over."""
    return row.one_machine is False or bool(row.trial.nics) or row.trial.scenario == "v2v"


def _across(
    claim: Claim, rows: Sequence[SummaryRow], other: Sequence[SummaryRow]
) -> Iterator[Tried]:
    fields = [BY_NAME[name].field for name in claim.alike]
    for a in rows:
        for b in other:
            if all(getattr(a.trial, one) == getattr(b.trial, one) for one in fields):
                what = f"{a.contender} / {b.contender} of {claim.other_item}"
                yield _try(a, b, claim.figure, _bounds(claim), what)


def _of_link(claim: Claim, link: float, rows: Sequence[SummaryRow]) -> Iterator[Tried]:
    """Ratios of loads to a rate that is known, for each direction of the traffic."""
    for row in rows:
        whole = link * (2 if row.trial.bidirectional else 1)
        what = f"{row.contender}, of {whole / 1e9:g} Gbit/s"
        above = values_of(row, claim.figure)
        below = [(whole,) * len(stage) for stage in above]
        yield tried(what, (row,), above, below, _bounds(claim))


def _of_asked(claim: Claim, rows: Sequence[SummaryRow]) -> Iterator[Tried]:
    """Ratios of loads to what the set rate asks for."""
    for row in rows:
        whole = asked_pps(row.trial, row.trial.streams)
        if whole is None or not row.trial.schedule.is_steady:
            continue
        what = f"{row.contender}, of {whole / 1e6:g} Mpps"
        above = values_of(row, claim.figure)
        yield tried(what, (row,), above, [(whole,) * len(one) for one in above], _bounds(claim))


def _lines(rows: Sequence[SummaryRow], over: str) -> list[list[tuple[float, SummaryRow]]]:
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
    return list(lines.values())


def _flatter(claim: Claim, rows: Sequence[SummaryRow], over: str) -> Iterator[Tried]:
    """Ratios of two slopes: that between the upper two of three values, over that between the lower
    two, a slope a repetition. Where one does not rise, there is no ratio."""
    for line in _lines(rows, over):
        points = list(dict(line).items())
        for (x, a), (y, b), (z, c) in zip(points, points[1:], points[2:], strict=False):
            low, middle, high = (values_of(one, claim.figure) for one in (a, b, c))
            above = _slopes(middle, high, z - y)
            below = _slopes(low, middle, y - x)
            what = f"{c.contender}, slope {over} {y:g} to {z:g} / {x:g} to {y:g}"
            yield tried(what, (a, b, c), above, below, LESS)


def _slopes(begin: Stages, end: Stages, width: float) -> Stages:
    """A slope a repetition, stage by stage."""
    return [
        [(v - u) / width for u, v in zip(low, high, strict=False)]
        for low, high in zip(begin, end, strict=False)
    ]


def _steadier(claim: Claim, rows: Sequence[SummaryRow]) -> Iterator[Tried]:
    """Ratios of two changes: each from the least to the greatest value of a key, which way it
    went."""
    assert claim.over is not None, "a change is over a key"
    changes: list[tuple[SummaryRow, Stages]] = []
    for line in _lines(rows, claim.over):
        (_, first_row), (_, last_row) = line[0], line[-1]
        begin, end = (estimate_of(one, claim.figure) for one in (first_row, last_row))
        if len(line) > 1 and begin is not None and end is not None:
            up = 1 if end.mean >= begin.mean else -1
            ends = zip(
                values_of(first_row, claim.figure), values_of(last_row, claim.figure), strict=False
            )
            ways = [
                [(b / a) ** up for a, b in zip(low, high, strict=False) if a > 0 and b > 0]
                for low, high in ends
            ]
            changes.append((first_row, ways))
    first, second = claim.steady
    for a, of_a in changes:
        for b, of_b in changes:
            if a.trial.switch in first and b.trial.switch in second and a.point == b.point:
                what = f"change over {claim.over}, {a.contender} / {b.contender}"
                yield tried(what, (a, b), of_a, of_b, LESS)


def _order(claim: Claim, rows: Sequence[SummaryRow]) -> Iterator[Tried]:
    bounds = LESS if is_less_better(claim.figure) else MORE
    for better, worse in pairwise(claim.order):
        for a in rows:
            for b in rows:
                if a.trial.switch in better and b.trial.switch in worse and a.point == b.point:
                    yield _try(a, b, claim.figure, bounds, f"{a.contender} / {b.contender}")


def _between(claim: Claim, rows: Sequence[SummaryRow]) -> Iterator[Tried]:
    assert claim.left is not None and claim.right is not None
    named = {BY_NAME[name].field for name in (*claim.left, *claim.right)}
    for a in rows:
        for b in rows:
            if not (fulfils(a.trial, claim.left) and fulfils(b.trial, claim.right)):
                continue
            if not _alike(a, b, named):
                continue
            what = f"{_name(a, named)} / {_name(b, named)}"
            yield _try(a, b, claim.figure, _bounds(claim), what)


def _within(claim: Claim, than: Figure, rows: Sequence[SummaryRow]) -> Iterator[Tried]:
    """Ratios of two figures of one row. Both are of the same trials; that they vary together is not
    used, so that the intervals are rather too wide."""
    for row in rows:
        if estimate_of(row, than) is not None:
            upper, lower = (one.words.partition(" (")[0] for one in (claim.figure, than))
            what = f"{row.contender}, {upper} / {lower}"
            yield _try(row, row, claim.figure, _bounds(claim), what, than)


def _along(claim: Claim, rows: Sequence[SummaryRow], over: str) -> Iterator[Tried]:
    """Ratios along lines: from each value to the next, or, of a power, from the first to each."""
    for line in _lines(rows, over):
        if claim.power is None:
            more, less = (claim.at_least or 1.0, math.inf), (0.0, claim.at_most or 1.0)
            bounds = more if claim.rises else less
            for (_, a), (_, b) in pairwise(line):
                told = f"{b.contender}, {over} {_text(over, b)} / {_text(over, a)}"
                yield _try(b, a, claim.figure, bounds, told)
            continue
        first_x, first = line[0]
        for x, row in line[1:]:
            due = (x / first_x) ** claim.power
            bounds = (due * (1 - claim.within), due / (1 - claim.within))
            told = f"{row.contender}, {over} {_text(over, row)} / {_text(over, first)}"
            yield _try(row, first, claim.figure, bounds, told)


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
    values = [
        (key, getattr(row.trial, key.field))
        for key in BY_NAME.values()
        if key.field in named and key.field != "switch"
    ]
    told = [
        said
        for key, value in values
        if (said := words.field(key.field, value)) not in row.contender
        and f"({key.text(value)})" not in row.contender
    ]
    return ", ".join([row.contender, *told])


def _text(over: str, row: SummaryRow) -> str:
    """A row's value of a key, as campaigns write it."""
    key = BY_NAME[over]
    return key.text(getattr(row.trial, key.field))


def _bounds(claim: Claim) -> tuple[float, float]:
    """The bounds that the claim itself sets."""
    return claim.at_least or 0.0, math.inf if claim.at_most is None else claim.at_most


def _try(
    a: SummaryRow,
    b: SummaryRow,
    figure: Figure,
    bounds: tuple[float, float],
    what: str,
    of_b: Figure | None = None,
) -> Tried:
    """The ratio of a's figure to b's (or to another one of b), against its bounds."""
    return tried(what, (a, b), values_of(a, figure), values_of(b, of_b or figure), bounds)
