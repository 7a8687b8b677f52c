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

# Width of a letter of a label, and of the space between labels, as shares of the axis.
_LETTER, _GAP = 0.02, 0.03
LINE_FROM = 3  # number of values from which a line is drawn


@dataclass(frozen=True, slots=True)
class XAxis(Axis):
    """One parameter as an axis; rows that differ in it alone are one line."""

    field: str = ""  # field of Trial

    def of(self, row: SummaryRow) -> float | None:
        """Return the row's place on the axis; None if it has none."""
        value = getattr(row.trial, self.field)
        return None if value is None else self.place(value)

    def values(self, rows: Sequence[SummaryRow]) -> list[float]:
        """Return the distinct values of the rows."""
        return sorted({value for row in rows if (value := self.of(row)) is not None})

    def ticks(self, rows: Sequence[SummaryRow]) -> list[float]:
        """Return the values that get a label. If there are many, only some of them get one, so that
        labels do not overlap; the least and the greatest value always get one."""
        values = self.values(rows)
        place = {value: math.log(value) if self.log else value for value in values}
        whole = (place[values[-1]] - place[values[0]]) if values else 0.0
        if not whole:
            return values
        labelled = [values[0]]
        for value in [*values[1:-1], values[-1]]:
            room = whole * (_LETTER * len(self.label(value)) + _GAP)
            if value == values[-1]:
                while len(labelled) > 1 and place[value] - place[labelled[-1]] < room:
                    labelled.pop()
            if value == values[-1] or place[value] - place[labelled[-1]] >= room:
                labelled.append(value)
        return labelled


def _axes() -> tuple[XAxis, ...]:
    """Return the axes that the table of parameters describes, then those of every other number."""
    numbers = of_kinds(Kind.TRAFFIC, Kind.LAYOUT, Kind.CORES)
    scales = [parameter for parameter in of_kinds(Kind.FUNCTION) if parameter.axis]
    described = sorted(
        (parameter for parameter in numbers if parameter.axis),
        key=lambda parameter: (
            parameter.axis is not None and parameter.axis.log,
            parameter.kind is not Kind.TRAFFIC,
        ),
    )
    others = [parameter for parameter in numbers if parameter.is_number and not parameter.axis]
    return tuple(
        XAxis(axis.title, axis.place, axis.label, axis.log, parameter.field)
        for parameter in (*scales, *described, *others)
        if (
            axis := parameter.axis
            or Axis(f"{parameter.name} ({parameter.unit})" if parameter.unit else parameter.name)
        )
    )


AXES = _axes()


def x_axis(rows: Sequence[SummaryRow]) -> XAxis | None:
    """Return the first parameter with enough values for lines; None: draw bars."""
    for axis in AXES:
        if len(axis.values([row for row in rows if not row.is_baseline])) >= LINE_FROM:
            return axis
    return None


def end_of_cumulative(p90: float, p99: float) -> float:
    """Return the end of the axis of a cumulative distribution with these percentiles. Rarer times,
    far beyond the others, would press all lines together."""
    return min(p99, 3 * p90)


def facets(rows: Sequence[SummaryRow], x: XAxis | None) -> list[tuple[str, list[SummaryRow]]]:
    """Group rows that differ only in the contender (and x). Each group has a title with the other
    parameters that vary."""
    field = x.field if x else None
    groups: dict[Point, list[SummaryRow]] = defaultdict(list)
    for row in rows:
        groups[tuple(item for item in row.point if item[0] != field)].append(row)
    varying = differing(groups)
    titled = []
    for point, members in groups.items():
        workload = members[0].trial.workload
        fields = dict(members[0].point)
        parts = [
            words.field(name, value, workload)
            for name, value in point
            if name in varying and words.is_read(name, fields)
        ]
        only = "" if field == "packet_size_bytes" else words.subject(fields)
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
    """Return the rows in the order of drawing: the best first, the baseline last."""
    return sorted(rows, key=lambda row: (row.is_baseline, -mean_forwarded_pps(row)))


def mean_forwarded_pps(row: SummaryRow) -> float:
    """Return the mean forwarded load in frames/s; 0 for a row without it."""
    return row.throughput.forwarded_pps.mean if row.throughput else 0.0


def bar_label(row: SummaryRow) -> str:
    """Return the contender's name, with a note if its figure is not valid."""
    return row.contender if row.valid else f"{row.contender} (not valid)"
