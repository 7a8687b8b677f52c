"""Plots of the throughput of applications, one panel for each unit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from switchmark.formatting import amount, number, scale_of
from switchmark.model.workload import BITS, REQUESTS
from switchmark.report import plot
from switchmark.report.axes import XAxis, bar_label, facets, ranked, x_axis
from switchmark.report.figures import Drawing, Look, Panels
from switchmark.report.throughput import axis_end, swept_axis, whiskers
from switchmark.results.ranking import headline
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate

_TITLES = {BITS: "Goodput", REQUESTS: "Requests answered"}
_MEANING = {
    BITS: "Payload that the server read. Segments that the kernel passed on whole (bytes a packet "
    "above the MTU) cost less than frames.",
    REQUESTS: "Requests that were answered. At `rate: max` a client waits for each answer, which "
    "is another figure than the answers at a set rate.",
}


def transfer_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> list[Panels]:
    """Return the throughput of applications with confidence intervals, and the baseline."""
    panels = []
    for unit, title in _TITLES.items():
        measured = [row for row in rows if row.transfer is not None and row.transfer.unit == unit]
        if not measured:
            continue
        x = x_axis(measured)
        figures = [
            _bars(name, members, look, unit) if x is None else _lines(name, members, look, x, unit)
            for name, members in facets(measured, x)
        ]
        meaning = f"{_MEANING[unit]} Whiskers are the 95 % confidence interval of the mean."
        panels.append(Panels(title, meaning, figures))
    return panels


def _scale(values: Sequence[Estimate], unit: str) -> tuple[float, str]:
    highest = max((one.mean for one in values), default=0.0)
    return scale_of(highest, unit) if unit == BITS else (1.0, unit)


def _bars(title: str, rows: Sequence[SummaryRow], look: dict[str, Look], unit: str) -> Drawing:
    drawn = ranked(rows)
    values = [headline(row) for row in drawn]
    scale, shown = _scale(values, unit)
    marker = {
        "color": [look[row.contender].color for row in drawn],
        "pattern": {"shape": ["" if row.valid else "/" for row in drawn]},
        "opacity": [0.55 if row.is_baseline else 1 for row in drawn],
    }
    labels = [bar_label(row) for row in drawn]
    trace = plot.bars(labels, [one.mean / scale for one in values], marker, f"%{{x:.4g}} {shown}")
    names = [
        (label, f"{amount(one.mean, unit)}{_packets(row)}")
        for label, one, row in zip(labels, values, drawn, strict=True)
    ]
    layout = {
        "xaxis": plot.axis(shown, range=[0, axis_end(values, scale) * 1.02]),
        "yaxis": plot.row_axis(len(drawn)),
        "annotations": plot.row_names(names),
        "showlegend": False,
    }
    ends = whiskers("x", trace["y"], values, scale, "@ink")
    return Drawing(title, [trace, ends], layout, plot.rows_height(len(drawn)))


def _packets(row: SummaryRow) -> str:
    size = row.transport.bytes_per_packet_forth if row.transport is not None else None
    return "" if size is None else f", {number(size)} bytes a packet"


def _lines(
    title: str, rows: Sequence[SummaryRow], look: dict[str, Look], x: XAxis, unit: str
) -> Drawing:
    series: dict[str, list[SummaryRow]] = defaultdict(list)
    for row in rows:
        if x.of(row) is not None:
            series[row.contender].append(row)
    drawn = [headline(row) for members in series.values() for row in members]
    scale, shown = _scale(drawn, unit)
    traces = []
    for name, members in sorted(series.items()):
        members.sort(key=lambda row: x.of(row) or 0)
        values, shape = [headline(row) for row in members], look[name]
        places = [x.of(row) for row in members]
        heights = [value.mean / scale for value in values]
        marks = {"symbol": [shape.marker if row.valid else shape.hollow for row in members]}
        label = plot.hover(f", %{{x}}: %{{y:.4g}} {shown}", name)
        traces += [
            whiskers("y", places, values, scale, shape.color),
            plot.scatter("lines+markers", places, heights, name, label, line=shape.line(),
                    marker=shape.mark(9) | marks),
        ]  # fmt: skip
    layout = {
        "xaxis": swept_axis(x, rows),
        "yaxis": plot.axis(shown, range=[0, axis_end(drawn, scale) * 1.05]),
        "legend": plot.LEGEND_BELOW,
    }
    return Drawing(title, traces, layout, 380)
