"""Computes the ratios of a claim, each with its bounds."""

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
    TriedRatio,
    estimate_of,
    is_less_better,
    try_ratio,
    values_of,
)
from switchmark.reproduction.switch_claims import beaten_somewhere, correlated
from switchmark.results.rows import SummaryRow
from switchmark.statistics.stages import Stages


def tries(claim: Claim, rows_of: Mapping[str, Sequence[SummaryRow]]) -> Iterator[TriedRatio]:
    """Return the ratios of a claim, from valid rows without baselines (item -> its rows)."""
    for ratio in _tries(claim, rows_of):
        if not _have_one_page_size(claim, ratio.rows):
            continue
        if claim.cores == "any" or ratio.rows[0].oversubscribed == (claim.cores == "lacking"):
            yield ratio


def _have_one_page_size(claim: Claim, rows: Sequence[SummaryRow]) -> bool:
    """Return True if these rows may be compared: their DPDK memory has pages of one size, unless
    the claim is about page sizes."""
    named = {*(claim.left or {}), *(claim.right or {}), claim.over, claim.rises, claim.falls}
    return PARAMETER in named or len(known_sizes(row.page_size_kib for row in rows)) < 2


def _tries(claim: Claim, rows_of: Mapping[str, Sequence[SummaryRow]]) -> Iterator[TriedRatio]:
    able = _able(rows_of.get(claim.item, ()), claim.figure, claim.where, claim)
    if claim.other_item is not None:
        rows = rows_of.get(claim.other_item, ())
        yield from _across(claim, able, _able(rows, claim.figure, claim.other_where, claim))
    elif claim.correlated is not None:
        both = [row for row in able if estimate_of(row, claim.correlated) is not None]
        yield from correlated(claim, claim.correlated, both)
    elif claim.beaten_in:
        others = [
            (at.item, at.figure, _able(rows_of.get(at.item, ()), at.figure, at.where, claim))
            for at in claim.beaten_in
        ]
        yield from beaten_somewhere([(claim.item, claim.figure, able), *others])
    elif claim.link is not None:
        yield from _share_of_link(claim, claim.link, able)
    elif claim.of_set_rate:
        yield from _share_of_set_rate(claim, able)
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
    """Return the rows that the claim may compare: valid, with the figure."""
    return [
        row
        for row in rows
        if row.valid and not row.is_baseline and fulfils(row.trial, dict(where))
        if estimate_of(row, figure) is not None
        if not claim.cable or _over_cable(row)
    ]


def _over_cable(row: SummaryRow) -> bool:
    """Return True if the row's frames went over NICs or between machines. Between two virtual
    machines, there is no cable."""
    return row.one_machine is False or bool(row.trial.nics) or row.trial.scenario == "v2v"


def _across(
    claim: Claim, rows: Sequence[SummaryRow], other: Sequence[SummaryRow]
) -> Iterator[TriedRatio]:
    fields = [BY_NAME[name].field for name in claim.alike]
    for a in rows:
        for b in other:
            if all(getattr(a.trial, field) == getattr(b.trial, field) for field in fields):
                label = f"{a.contender} / {b.contender} of {claim.other_item}"
                yield _try(a, b, claim.figure, _bounds(claim), label)


def _share_of_link(claim: Claim, link: float, rows: Sequence[SummaryRow]) -> Iterator[TriedRatio]:
    """Yield ratios of loads to the rate of a link, for each direction of the traffic."""
    for row in rows:
        whole = link * (2 if row.trial.bidirectional else 1)
        label = f"{row.contender}, of {whole / 1e9:g} Gbit/s"
        above = values_of(row, claim.figure)
        below = [(whole,) * len(stage) for stage in above]
        yield try_ratio(label, (row,), above, below, _bounds(claim))


def _share_of_set_rate(claim: Claim, rows: Sequence[SummaryRow]) -> Iterator[TriedRatio]:
    """Yield ratios of loads to the set rate."""
    for row in rows:
        whole = asked_pps(row.trial, row.trial.streams)
        if whole is None or not row.trial.schedule.is_steady:
            continue
        label = f"{row.contender}, of {whole / 1e6:g} Mpps"
        above = values_of(row, claim.figure)
        below = [(whole,) * len(stage) for stage in above]
        yield try_ratio(label, (row,), above, below, _bounds(claim))


def _lines(rows: Sequence[SummaryRow], over: str) -> list[list[tuple[float, SummaryRow]]]:
    """Return lines of rows that only differ in one key, ordered by its value."""
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


def _flatter(claim: Claim, rows: Sequence[SummaryRow], over: str) -> Iterator[TriedRatio]:
    """Yield ratios of two slopes: between the upper two of three values, divided by that between
    the lower two, for each repetition. There is no ratio if a slope is not positive."""
    for line in _lines(rows, over):
        points = list(dict(line).items())
        for (x, a), (y, b), (z, c) in zip(points, points[1:], points[2:], strict=False):
            low, middle, high = (values_of(row, claim.figure) for row in (a, b, c))
            above = _slopes(middle, high, z - y)
            below = _slopes(low, middle, y - x)
            label = f"{c.contender}, slope {over} {y:g} to {z:g} / {x:g} to {y:g}"
            yield try_ratio(label, (a, b, c), above, below, LESS)


def _slopes(begin: Stages, end: Stages, width: float) -> Stages:
    """Return the slope of each repetition, by stage."""
    return [
        [(v - u) / width for u, v in zip(low, high, strict=False)]
        for low, high in zip(begin, end, strict=False)
    ]


def _steadier(claim: Claim, rows: Sequence[SummaryRow]) -> Iterator[TriedRatio]:
    """Yield ratios of two changes from the least to the greatest value of a key, in either
    direction."""
    assert claim.over is not None, "a change is over a key"
    changes: list[tuple[SummaryRow, Stages]] = []
    for line in _lines(rows, claim.over):
        (_, first_row), (_, last_row) = line[0], line[-1]
        begin, end = (estimate_of(row, claim.figure) for row in (first_row, last_row))
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
                label = f"change over {claim.over}, {a.contender} / {b.contender}"
                yield try_ratio(label, (a, b), of_a, of_b, LESS)


def _order(claim: Claim, rows: Sequence[SummaryRow]) -> Iterator[TriedRatio]:
    bounds = LESS if is_less_better(claim.figure) else MORE
    for better, worse in pairwise(claim.order):
        for a in rows:
            for b in rows:
                if a.trial.switch in better and b.trial.switch in worse and a.point == b.point:
                    yield _try(a, b, claim.figure, bounds, f"{a.contender} / {b.contender}")


def _between(claim: Claim, rows: Sequence[SummaryRow]) -> Iterator[TriedRatio]:
    assert claim.left is not None and claim.right is not None
    named = {BY_NAME[name].field for name in (*claim.left, *claim.right)}
    for a in rows:
        for b in rows:
            if not (fulfils(a.trial, claim.left) and fulfils(b.trial, claim.right)):
                continue
            if not _alike(a, b, named):
                continue
            label = f"{_name(a, named)} / {_name(b, named)}"
            yield _try(a, b, claim.figure, _bounds(claim), label)


def _within(claim: Claim, than: Figure, rows: Sequence[SummaryRow]) -> Iterator[TriedRatio]:
    """Yield ratios of two figures of one row. Their correlation over trials is not used, so the
    intervals are rather too wide."""
    for row in rows:
        if estimate_of(row, than) is not None:
            upper, lower = (figure.words.partition(" (")[0] for figure in (claim.figure, than))
            label = f"{row.contender}, {upper} / {lower}"
            yield _try(row, row, claim.figure, _bounds(claim), label, than)


def _along(claim: Claim, rows: Sequence[SummaryRow], over: str) -> Iterator[TriedRatio]:
    """Yield ratios along lines: of each value to the next, or for a power of the first to each."""
    for line in _lines(rows, over):
        if claim.power is None:
            more, less = (claim.at_least or 1.0, math.inf), (0.0, claim.at_most or 1.0)
            bounds = more if claim.rises else less
            for (_, a), (_, b) in pairwise(line):
                label = f"{b.contender}, {over} {_text(over, b)} / {_text(over, a)}"
                yield _try(b, a, claim.figure, bounds, label)
            continue
        first_x, first = line[0]
        for x, row in line[1:]:
            due = (x / first_x) ** claim.power
            bounds = (due * (1 - claim.within), due / (1 - claim.within))
            label = f"{row.contender}, {over} {_text(over, row)} / {_text(over, first)}"
            yield _try(row, first, claim.figure, bounds, label)


def _alike(a: SummaryRow, b: SummaryRow, named: set[str]) -> bool:
    """Return True if two rows only differ in these fields, and in fields that depend on the switch,
    for example the connect mode and options."""
    if "switch" not in named:
        return _rest(a, named) == _rest(b, named)
    return all(
        left == right or field in named
        for (field, left), (_, right) in zip(a.point, b.point, strict=True)
    )


def _rest(row: SummaryRow, named: set[str]) -> str:
    """Return the row's other fields as text."""
    return str(row.trial.model_dump(mode="json", exclude=named | {"repetition"}))


def _name(row: SummaryRow, named: set[str]) -> str:
    values = [
        (key, getattr(row.trial, key.field))
        for key in BY_NAME.values()
        if key.field in named and key.field != "switch"
    ]
    labels = [
        label
        for key, value in values
        if (label := words.field(key.field, value)) not in row.contender
        and f"({key.text(value)})" not in row.contender
    ]
    return ", ".join([row.contender, *labels])


def _text(over: str, row: SummaryRow) -> str:
    """Return a row's value of a key, as campaigns write it."""
    key = BY_NAME[over]
    return key.text(getattr(row.trial, key.field))


def _bounds(claim: Claim) -> tuple[float, float]:
    """Return the bounds of the claim."""
    return claim.at_least or 0.0, math.inf if claim.at_most is None else claim.at_most


def _try(
    a: SummaryRow,
    b: SummaryRow,
    figure: Figure,
    bounds: tuple[float, float],
    label: str,
    of_b: Figure | None = None,
) -> TriedRatio:
    """Compare the ratio of a's figure to b's (or to figure `of_b`) with its bounds."""
    return try_ratio(label, (a, b), values_of(a, figure), values_of(b, of_b or figure), bounds)
