"""Sentences about the cost of a longer chain, or of less CPU time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from switchmark.formatting import percent, with_prefix
from switchmark.report.axes import LINE_FROM, XAxis, facets, x_axis
from switchmark.results.rows import SummaryRow
from switchmark.statistics.comparison import difference
from switchmark.statistics.means import Estimate

_OF_COST = ("scenario", "cpu_limit")  # sizes and loads need no sentence


def trends(rows: Sequence[SummaryRow]) -> tuple[str, list[str]]:
    """Return the parameter as text, and the change of each contender's throughput over it; empty if
    neither the length of a chain nor a CPU limit was swept."""
    x = x_axis(rows)
    if x is None or x.field not in _OF_COST:
        return "", []
    lines = []
    for title, members in facets(rows, x):
        series: dict[str, list[SummaryRow]] = defaultdict(list)
        for row in members:
            if not row.is_baseline and x.of(row) is not None:
                series[row.contender].append(row)
        for name, members_of_line in sorted(series.items()):
            if sentence := _sentence(members_of_line, x):
                lines.append(f"{name}{f', {title}' if title else ''}: {sentence}")
    return x.title, lines


def _sentence(rows: Sequence[SummaryRow], x: XAxis) -> str:
    """Return the change from the first to the last value, its significance, and the steps in the
    other direction."""
    valid = sorted((row for row in rows if row.valid), key=lambda row: x.of(row) or 0)
    loads = [(f"{x.of(row):.15g}", row.throughput.forwarded_pps) for row in valid if row.throughput]
    if len(loads) < LINE_FROM:
        return ""
    (first, begin), (last, end) = loads[0], loads[-1]
    falls = end.mean < begin.mean
    against = [
        f"from {before} to {after} ({_pps(a)} to {_pps(b)})"
        for (before, a), (after, b) in pairwise(loads)
        if (b.mean < a.mean) != falls
    ]
    high, low = (begin, end) if falls else (end, begin)
    test = difference(high, low)
    share = f", {percent(end.mean / begin.mean)} of that" if begin.mean else ""
    steps = f", but not {'; '.join(against)}" if against else " at each step"
    return (
        f"{_pps(begin)} at {first}, {_pps(end)} at {last}{share} ({test.note}); "
        f"{'less' if falls else 'more'}{steps}."
    )


def _pps(value: Estimate) -> str:
    return with_prefix(value.mean, "pps")
