"""The horizontal axis of throughput plots, and the rows of each plot.

The axis is the parameter that has at least three values in a run. Scales of network functions come
first, then the length of a chain and a CPU limit. The baseline has no VNFs, so its length is 0. It
has no CPU limit, so it does not appear in plots over a limit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.model.parameter_table import of_kinds
from switchmark.model.parameter_type import Axis, Kind
from switchmark.record.page_sizes import Point
from switchmark.report import words
from switchmark.results.groups import differing
from switchmark.results.rows import SummaryRow

_LETTER, _GAP = 0.02, 0.03  # of the axis: what a letter of a label takes, and the space between
LINE_FROM = 3  # values from which a line is drawn


@dataclass(frozen=True, slots=True)
class XAxis(Axis):
    """One parameter as an axis; rows that differ in it alone are one line."""

    field: str = ""  # of Trial

    def of(self, row: SummaryRow) -> float | None:
        """The row's place on the axis; None where it has none."""
        value = getattr(row.trial, self.field)
        return None if value is None else self.place(value)

    def values(self, rows: Sequence[SummaryRow]) -> list[float]:
        """The distinct values of the rows."""
        return sorted({value for row in rows if (value := self.of(row)) is not None})

    def ticks(self, rows: Sequence[SummaryRow]) -> list[float]:
        """The values that get a label: where there are many, only some, so that none overlap. The
        least and the greatest are among them."""
        held = self.values(rows)
        place = {value: math.log(value) if self.log else value for value in held}
        whole = (place[held[-1]] - place[held[0]]) if held else 0.0
        if not whole:
            return held
        kept = [held[0]]
        for value in [*held[1:-1], held[-1]]:
            room = whole * (_LETTER * len(self.label(value)) + _GAP)
            if value == held[-1]:
                while len(kept) > 1 and place[value] - place[kept[-1]] < room:
                    kept.pop()
            if value == held[-1] or place[value] - place[kept[-1]] >= room:
                kept.append(value)
        return kept


def _axes() -> tuple[XAxis, ...]:
    """The scales of functions, the other axes that the table describes, then every other number."""
    numbers = of_kinds(Kind.TRAFFIC, Kind.LAYOUT, Kind.CORES)
    scales = [one for one in of_kinds(Kind.FUNCTION) if one.axis]
    described = sorted(
        (one for one in numbers if one.axis),
        key=lambda one: (one.axis is not None and one.axis.log, one.kind is not Kind.TRAFFIC),
    )
    others = [one for one in numbers if one.is_number and not one.axis]
    return tuple(
        XAxis(axis.title, axis.place, axis.label, axis.log, one.field)
        for one in (*scales, *described, *others)
        if (axis := one.axis or Axis(f"{one.name} ({one.unit})" if one.unit else one.name))
    )


AXES = _axes()


def x_axis(rows: Sequence[SummaryRow]) -> XAxis | None:
    """The parameter to draw lines over: the first that takes enough values; None for bars."""
    for axis in AXES:
        if len(axis.values([row for row in rows if not row.is_baseline])) >= LINE_FROM:
            return axis
    return None


def end_of_cumulative(p90: float, p99: float) -> float:
    """Where the axis of a cumulative distribution with these percentiles ends: rarer times, far
    beyond the rest, would press all lines together."""
    return min(p99, 3 * p90)


def facets(rows: Sequence[SummaryRow], x: XAxis | None) -> list[tuple[str, list[SummaryRow]]]:
    """Group rows that differ in nothing but the contender (and x); each group has a title that
    names the other parameters that vary."""
    field = x.field if x else None
    groups: dict[Point, list[SummaryRow]] = defaultdict(list)
    for row in rows:
        groups[tuple(item for item in row.point if item[0] != field)].append(row)
    varying = differing(groups)
    titled = []
    for point, members in groups.items():
        workload = members[0].trial.workload
        parts = [words.field(name, value, workload) for name, value in point if name in varying]
        only = "" if field == "packet_size_bytes" else words.subject(dict(members[0].point))
        titled.append((", ".join(parts) or only, members))
    return titled


def compared_facets(
    rows: Sequence[SummaryRow], x: XAxis | None
) -> list[tuple[str, list[SummaryRow]]]:
    """Group rows as `facets` does, without groups of baselines alone if other rows exist."""
    groups = facets(rows, x)
    compared = [one for one in groups if not all(row.is_baseline for row in one[1])]
    return compared or groups


def ranked(rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """Sort the rows as they are drawn: the best first, the bare wire last."""
    return sorted(rows, key=lambda row: (row.is_baseline, -mean_forwarded_pps(row)))


def mean_forwarded_pps(row: SummaryRow) -> float:
    """The mean forwarded load in frames/s; 0 where the row has none."""
    return row.throughput.forwarded_pps.mean if row.throughput else 0.0


def bar_label(row: SummaryRow) -> str:
    """The contender's name, and whether its figure is not valid."""
    return row.contender if row.valid else f"{row.contender} (not valid)"
