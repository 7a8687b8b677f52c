"""Which rows go into one figure, and in which order a figure of bars draws them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from switchmark.report import words
from switchmark.report.axes import XAxis
from switchmark.results.points import Point, differing
from switchmark.results.rows import SummaryRow


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
        parts = [words.field(name, value) for name, value in point if name in varying]
        size = members[0].trial.packet_size_bytes
        only = "" if field == "packet_size_bytes" else words.field("packet_size_bytes", size)
        titled.append((", ".join(parts) or only, members))
    return titled


def ranked(rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """Sort the rows as they are drawn: the best first, the bare wire last."""
    return sorted(rows, key=lambda row: (row.is_baseline, -mean_forwarded_pps(row)))


def mean_forwarded_pps(row: SummaryRow) -> float:
    """The mean forwarded load in frames/s; 0 where the row has none."""
    return row.throughput.forwarded_pps.mean if row.throughput else 0.0


def bar_label(row: SummaryRow) -> str:
    """The contender's name, and whether its figure is not valid."""
    return row.contender if row.valid else f"{row.contender} (not valid)"
