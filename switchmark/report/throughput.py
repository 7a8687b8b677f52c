"""Plots of throughput: the forwarded load, and the three loads of each contender on one line.

With one or two frame sizes each contender has a bar. From three on it has a line over the size or
over another swept parameter (axes.py). Other parameters that vary make separate plots.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from switchmark.formatting import number
from switchmark.report import plot
from switchmark.report.axes import (
    XAxis,
    bar_label,
    compared_facets,
    facets,
    mean_forwarded_pps,
    ranked,
    x_axis,
)
from switchmark.report.figures import Drawing, Look, Panels
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate

_WIDEST = 1.5  # longest axis with whiskers, relative to the highest load


def throughput_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """Draw the forwarded load, with confidence intervals and the baseline."""
    x = x_axis(rows)
    figures: list[Drawing] = []
    for title, members in compared_facets(rows, x):
        figures.append(frames_drawing(title, members, look, x))
        if x is not None:
            figures.append(_lines(title, members, look, x, bits=True))
    return Panels(
        "Throughput",
        "Forwarded load: frames that arrived at the receivers. Whiskers are the 95 % confidence "
        "interval of the mean, cut off where it is much wider than the loads. Gbit/s count L2 "
        "frames with FCS. The baseline (direct) shows the limit of the applications without "
        "a switch; `1 core idle` in its name means that the core of the switch stayed idle.",
        figures,
    )


def frames_drawing(
    title: str, rows: Sequence[SummaryRow], look: dict[str, Look], x: XAxis | None
) -> Drawing:
    """Draw forwarded frames: a bar for each row, or lines over the swept parameter."""
    return _bars(title, rows, look) if x is None else _lines(title, rows, look, x, bits=False)


def _bars(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    drawn = ranked(rows)
    forwarded = [row.throughput.forwarded_pps for row in drawn if row.throughput]
    bits = [row.throughput.forwarded_l2_bps.mean for row in drawn if row.throughput]
    marker = {
        "color": [look[row.contender].color for row in drawn],
        "pattern": {"shape": ["" if row.valid else "/" for row in drawn]},
        "opacity": [0.55 if row.is_baseline else 1 for row in drawn],
    }
    labels = [bar_label(row) for row in drawn]
    trace = plot.bars(labels, [load.mean / 1e6 for load in forwarded], marker, "%{x:.4g} Mpps")
    longest = axis_end(forwarded, 1e6)
    names = [
        (label, f"{number(load.mean / 1e6)} Mpps, {number(b / 1e9)} Gbit/s")
        for label, load, b in zip(labels, forwarded, bits, strict=True)
    ]
    layout = {
        "xaxis": plot.axis("forwarded load (Mpps)", range=[0, longest * 1.02]),
        "yaxis": plot.row_axis(len(drawn)),
        "annotations": plot.row_names(names),
        "showlegend": False,
    }
    ends = whiskers("x", trace["y"], forwarded, 1e6, "@ink")
    return Drawing(title, [trace, ends], layout, plot.rows_height(len(drawn)))


def whiskers(
    along: str, places: Sequence[Any], values: Sequence[Estimate], scale: float, color: str
) -> plot.Trace:
    """Return confidence intervals as a separate trace, without missing intervals, because plotly
    draws a missing interval with width 0, which looks like certainty."""
    known = [
        (place, value.mean, value.low, value.high)
        for place, value in zip(places, values, strict=True)
        if value.low is not None and value.high is not None
    ]
    up = [(high - mean) / scale for _, mean, _, high in known]
    down = [(mean - low) / scale for _, mean, low, _ in known]
    ends = plot.error_bars(up, down, color=color, thickness=1.5, width=5)
    at = [place for place, *_ in known], [mean / scale for _, mean, _, _ in known]
    x, y = at if along == "y" else at[::-1]
    return plot.scatter("markers", x, y, marker={"opacity": 0}) | {f"error_{along}": ends}


def axis_end(values: Sequence[Estimate], scale: float) -> float:
    """Return the end of an axis of loads, in units of `scale`: beyond the whiskers, but at most 1.5
    times the highest load. Otherwise very long whiskers of two different runs would press all loads
    together; such whiskers leave the picture."""
    highest = max((load.mean for load in values), default=0.0)
    widest = max((load.high or load.mean for load in values), default=0.0)
    return min(widest, _WIDEST * highest) / scale or 1.0


def _lines(
    title: str, rows: Sequence[SummaryRow], look: dict[str, Look], x: XAxis, *, bits: bool
) -> Drawing:
    series: dict[str, list[SummaryRow]] = defaultdict(list)
    for row in rows:
        if x.of(row) is not None:
            series[row.contender].append(row)
    unit, scale = ("Gbit/s L2", 1e9) if bits else ("Mpps", 1e6)
    traces = []
    drawn: list[Estimate] = []
    loads_by_place: dict[float | None, list[float]] = defaultdict(list)
    for name, members in sorted(series.items()):
        members.sort(key=lambda row: x.of(row) or 0)
        loads = [row.throughput for row in members if row.throughput]
        values = [load.forwarded_l2_bps if bits else load.forwarded_pps for load in loads]
        drawn += values
        shape = look[name]
        places = [x.of(row) for row in members]
        heights = [value.mean / scale for value in values]
        for place, height in zip(places, heights, strict=True):
            loads_by_place[place].append(height)
        marks = {"symbol": [shape.marker if row.valid else shape.hollow for row in members]}
        hover_text = plot.hover(f", %{{x}}: %{{y:.4g}} {unit}", name)
        traces += [
            whiskers("y", places, values, scale, shape.color),
            plot.scatter("lines+markers", places, heights, name, hover_text, line=shape.line(),
                    marker=shape.mark(9) | marks),
        ]  # fmt: skip
    layout = {
        "xaxis": swept_axis(x, rows),
        "yaxis": plot.value_axis(
            f"forwarded {unit}",
            loads_by_place.values(),
            axis_end(drawn, scale) * 1.05,
        ),
        "legend": plot.LEGEND_BELOW,
    }
    return Drawing(", ".join(filter(None, (unit, title))), traces, layout, 380)


def swept_axis(x: XAxis, rows: Sequence[SummaryRow]) -> dict[str, Any]:
    """Return the axis of the swept parameter, with the values of these rows."""
    ticks = x.ticks(rows)
    kind = {"type": "log"} if x.log else {"type": "linear", "rangemode": "tozero"}
    return plot.axis(x.title, tickvals=ticks, ticktext=[x.label(tick) for tick in ticks], **kind)


def loads_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """Draw intended, offered and forwarded load as three separate numbers."""
    return Panels(
        "Three loads",
        "Intended: the load that the schedule requires (none for a saturating sender). "
        "Offered: the load that the port accepted. Forwarded: the frames that arrived. All are "
        "rates in the kept window, by the clocks of both ends, so a short or disturbed trial may "
        "show more arriving than was offered; loss is counted frame by frame over the whole trial.",
        [_loads(title, members, look) for title, members in facets(rows, None)],
    )


def _loads(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    drawn = ranked(rows)
    labels = [bar_label(row) for row in drawn]
    offered = [row.throughput.offered_pps.mean / 1e6 for row in drawn if row.throughput]
    forwarded = [mean_forwarded_pps(row) / 1e6 for row in drawn]
    intended = [row.throughput.intended_pps if row.throughput else None for row in drawn]
    colors = [look[row.contender].color for row in drawn]
    gaps = list(zip(forwarded, offered, strict=True))
    traces = [
        plot.scatter(
            "lines",
            [end for low, high in gaps for end in (low, high, None)],
            [end for place in range(len(gaps)) for end in (place, place, None)],
            line={"color": "@line", "width": 5},
        )
    ]
    if any(intended):
        due = [load and load / 1e6 for load in intended]
        traces.append(_marks("intended", due, labels, "line-ns", 16, "@ink"))
    traces.append(_marks("offered", offered, labels, "circle-open", 12, colors))
    traces.append(_marks("forwarded", forwarded, labels, "circle", 12, colors))
    remarks = [f"{number(low)} of {number(high)} Mpps" for low, high in gaps]
    layout = {
        "xaxis": plot.axis("Mpps", rangemode="tozero"),
        "yaxis": plot.row_axis(len(drawn)),
        "annotations": plot.row_names(list(zip(labels, remarks, strict=True))),
        "legend": plot.LEGEND_ABOVE,
    }
    return Drawing(title, traces, layout, plot.rows_height(len(drawn), legend=True))


def _marks(
    name: str,
    x: Sequence[float | None],
    labels: Sequence[str],
    symbol: str,
    size: int,
    color: str | Sequence[str],
) -> plot.Trace:
    marker = {"symbol": symbol, "size": size, "color": color, "line": {"width": 2, "color": color}}
    return plot.row_marks(name, x, labels, "Mpps", marker)
