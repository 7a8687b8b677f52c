"""Forwarded load by frame size.

With one or two frame sizes a bar for each contender says it best; from three on a line over
the size, or over what else was swept (axes.py). What varies besides makes figures of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from switchmark.report import words
from switchmark.report.axes import XAxis, x_axis
from switchmark.report.drawn_rows import bar_label, facets, ranked
from switchmark.report.figures import (
    BAR,
    Drawing,
    Look,
    Panels,
    axis,
    row_axis,
    row_names,
    rows_height,
)
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate

_WIDEST = 1.5  # of the highest load: an axis with whiskers ends there at the latest


def throughput_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """Forwarded load, with confidence intervals and the bare wire beside it."""
    x = x_axis(rows)
    figures: list[Drawing] = []
    for title, members in facets(rows, x):
        if x is None:
            figures.append(_bars(title, members, look))
        else:
            figures += [_lines(title, members, look, x, bits) for bits in (False, True)]
    return Panels(
        "Throughput",
        "Forwarded load: frames that arrived at the receivers. Whiskers are the 95 % confidence "
        "interval of the mean, cut off where it is much wider than the loads. Gbit/s count L2 "
        "frames with FCS. The bare wire (direct) is what "
        "the traffic applications reach without any switch: their ceiling here.",
        figures,
    )


def _bars(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    drawn = ranked(rows)
    forwarded = [row.throughput.forwarded_pps for row in drawn if row.throughput]
    bits = [row.throughput.forwarded_l2_bps.mean for row in drawn if row.throughput]
    trace: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(drawn))),
        "x": [one.mean / 1e6 for one in forwarded],
        "text": [bar_label(row) for row in drawn],
        "textposition": "none",
        "marker": {
            "color": [look[row.contender].color for row in drawn],
            "pattern": {"shape": ["" if row.valid else "/" for row in drawn]},
            "opacity": [0.55 if row.is_baseline else 1 for row in drawn],
        },
        "width": BAR,
        "hovertemplate": Markup("%{text}: %{x:.4g} Mpps<extra></extra>"),
    }
    longest = axis_end(forwarded, 1e6)
    names = [
        (bar_label(row), f"{words.number(one.mean / 1e6)} Mpps, {words.number(b / 1e9)} Gbit/s")
        for row, one, b in zip(drawn, forwarded, bits, strict=True)
    ]
    layout = {
        "xaxis": axis("Mpps", rangemode="tozero", range=[0, longest * 1.02]),
        "yaxis": row_axis(len(drawn)),
        "annotations": row_names(names),
        "showlegend": False,
    }
    ends = whiskers("x", trace["y"], forwarded, 1e6, "@ink")
    return Drawing(title, [trace, ends], layout, rows_height(len(drawn)))


def whiskers(
    along: str, places: Sequence[Any], values: Sequence[Estimate], scale: float, color: str
) -> dict[str, Any]:
    """Confidence intervals as a trace of their own, only where there are any: plotly draws a
    missing one as an interval of no width, which would claim a certainty that is not there."""
    known = [
        (place, value.mean, value.low, value.high)
        for place, value in zip(places, values, strict=True)
        if value.low is not None and value.high is not None
    ]
    across = "y" if along == "x" else "x"
    return {
        "type": "scatter",
        "mode": "markers",
        "marker": {"opacity": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        across: [place for place, *_ in known],
        along: [mean / scale for _, mean, _, _ in known],
        f"error_{along}": {
            "type": "data",
            "symmetric": False,
            "array": [(high - mean) / scale for _, mean, _, high in known],
            "arrayminus": [(mean - low) / scale for _, mean, low, _ in known],
            "color": color,
            "thickness": 1.5,
            "width": 5,
        },
    }


def axis_end(values: Sequence[Estimate], scale: float) -> float:
    """Where an axis of loads ends, in units of `scale`: beyond the whiskers, but at most 1.5 times
    the highest load. Whiskers of two runs that differ would else press all loads together at the
    beginning; such whiskers leave the picture."""
    highest = max((one.mean for one in values), default=0.0)
    widest = max((one.high or one.mean for one in values), default=0.0)
    return min(widest, _WIDEST * highest) / scale or 1.0


def _lines(
    title: str, rows: Sequence[SummaryRow], look: dict[str, Look], x: XAxis, bits: bool
) -> Drawing:
    series: dict[str, list[SummaryRow]] = defaultdict(list)
    for row in rows:
        if x.of(row) is not None:
            series[row.contender].append(row)
    unit, scale = ("Gbit/s L2", 1e9) if bits else ("Mpps", 1e6)
    traces = []
    drawn: list[Estimate] = []
    for name, members in sorted(series.items()):
        members.sort(key=lambda row: x.of(row) or 0)
        loads = [row.throughput for row in members if row.throughput]
        values = [one.forwarded_l2_bps if bits else one.forwarded_pps for one in loads]
        drawn += values
        shape = look[name]
        places = [x.of(row) for row in members]
        traces.append(whiskers("y", places, values, scale, shape.color))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": places,
                "y": [value.mean / scale for value in values],
                "line": {"color": shape.color, "dash": shape.dash, "width": 2},
                "marker": {"color": shape.color, "symbol": _symbols(members, shape), "size": 9},
                "hovertemplate": Markup("{}, %{{x}}: %{{y:.4g}} {}<extra></extra>").format(
                    name, unit
                ),
            }
        )
    ticks = x.ticks(rows)
    kind = {"type": "log"} if x.log else {"type": "linear", "rangemode": "tozero"}
    layout = {
        "xaxis": axis(x.title, tickvals=ticks, ticktext=[x.label(t) for t in ticks], **kind),
        "yaxis": axis(unit, range=[0, axis_end(drawn, scale) * 1.05]),
        "legend": {"orientation": "h", "y": -0.28},
    }
    return Drawing(", ".join(filter(None, (unit, title))), traces, layout, 380)


def _symbols(rows: Sequence[SummaryRow], shape: Look) -> list[str]:
    """The marker of each row: hollow where the number is not valid."""
    hollow = f"{shape.marker.removesuffix('-open')}-open"
    return [shape.marker if row.valid else hollow for row in rows]
