"""The cost of a longer chain, or of less CPU time: a sentence for each line of that plot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from switchmark.formatting import percent, with_prefix
from switchmark.report.axes import LINE_FROM, XAxis, facets, x_axis
from switchmark.results.rows import SummaryRow
from switchmark.statistics.comparison import difference
from switchmark.statistics.means import Estimate

_OF_COST = ("scenario", "cpu_limit")  # a size or a load speaks for itself


def trends(rows: Sequence[SummaryRow]) -> tuple[str, list[str]]:
    """The parameter in words, and how each contender's throughput changed over it; None where
    neither a chain's length nor a CPU limit was swept."""
    x = x_axis(rows)
    if x is None or x.field not in _OF_COST:
        return "", []
    lines = []
    for title, members in facets(rows, x):
        series: dict[str, list[SummaryRow]] = defaultdict(list)
        for row in members:
            if not row.is_baseline and x.of(row) is not None:
                series[row.contender].append(row)
        for name, own in sorted(series.items()):
            if sentence := _sentence(own, x):
                lines.append(f"{name}{f', {title}' if title else ''}: {sentence}")
    return x.title, lines


def _sentence(rows: Sequence[SummaryRow], x: XAxis) -> str:
    """The change from the first to the last value, whether it is certain, and where a step goes the
    other way."""
    valid = sorted((row for row in rows if row.valid), key=lambda row: x.of(row) or 0)
    seen = [(f"{x.of(row):.15g}", row.throughput.forwarded_pps) for row in valid if row.throughput]
    if len(seen) < LINE_FROM:
        return ""
    (first, begin), (last, end) = seen[0], seen[-1]
    falls = end.mean < begin.mean
    against = [
        f"from {one} to {other} ({_pps(a)} to {_pps(b)})"
        for (one, a), (other, b) in pairwise(seen)
        if (b.mean < a.mean) != falls
    ]
    high, low = (begin, end) if falls else (end, begin)
    found = difference(high, low)
    share = f", {percent(end.mean / begin.mean)} of that" if begin.mean else ""
    steps = f", but not {'; '.join(against)}" if against else " at each step"
    return (
        f"{_pps(begin)} at {first}, {_pps(end)} at {last}{share} ({found.note}); "
        f"{'less' if falls else 'more'}{steps}."
    )


def _pps(value: Estimate) -> str:
    return with_prefix(value.mean, "pps")
