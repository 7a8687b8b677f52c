"""Latency in pictures: the spread of round trips, and how far the tail reaches.

All curves come from merged histograms, never from averaged percentiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from switchmark.formatting import format_ns
from switchmark.report import plot
from switchmark.report.axes import bar_label, end_of_cumulative, facets
from switchmark.report.figures import Drawing, Look, Panels
from switchmark.results.rows import SummaryRow
from switchmark.statistics.histogram import PercentileCurve

_MARKS = (
    ("50", "median", "circle"),
    ("90", "90 %", "square"),
    ("99", "99 %", "diamond"),
    ("99.9", "99.9 %", "triangle-up"),
)
_FEW_DECADES = 2
_NINES = (50, 90, 99, 99.9, 99.99, 99.999, 99.9999)


def spread_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """From the median to the maximum, of every contender at every point."""
    return Panels(
        "Latency",
        "Round-trip times on a logarithmic axis, from the median over the repetitions (circle) to "
        "the longest round trip (cross). The other percentiles are of all samples together. "
        "Further left and shorter is better.",
        [_spread(title, members, look) for title, members in facets(rows, None)],
    )


def curve_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """Percentile curves of rows that have them."""
    return Panels(
        "Latency by percentile",
        "Each step to the right is ten times rarer. Solid lines begin when a request was sent. "
        "Dotted lines begin when it was due; they are drawn if they differ, so that a sender "
        "that fell behind does not hide the wait (coordinated omission).",
        [_curves(title, members, look) for title, members in facets(rows, None)],
    )


def cumulative_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """The share of the round trips that took at most a given time, on linear axes, as papers draw
    it."""
    return Panels(
        "Latency, cumulative",
        "The share of the round trips that took at most the given time. The axes are linear and "
        "end at the 99th percentile of the slowest contender; the plot above shows the tail.",
        [_cumulative(title, members, look) for title, members in facets(rows, None)],
    )


def _cumulative(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    traces: list[plot.Trace] = []
    longest_us = 0.0
    for row in sorted(rows, key=lambda row: row.contender):
        assert row.latency is not None and row.latency.curve is not None
        line = {"color": look[row.contender].color, "width": 2}
        traces.append(share_line(row.contender, row.latency.curve, line))
        p90, p99 = (row.latency.percentiles_ns[name] / 1e3 for name in ("90", "99"))
        longest_us = max(longest_us, end_of_cumulative(p90, p99))
    layout = {
        "xaxis": plot.axis("round trip (µs)", range=[0, longest_us]),
        "yaxis": plot.axis("share of round trips (%)", range=[0, 100]),
        "legend": plot.LEGEND_BELOW,
    }
    return Drawing(title, traces, layout, 400)


def share_line(name: str, curve: PercentileCurve, line: dict[str, Any]) -> plot.Trace:
    """Return a trace of the share of times that are at most a given time."""
    times_us, shares = plot.rounded(curve.value_ns, 1e3), plot.rounded(curve.quantile, 0.01)
    hover_text = plot.hover(": %{y:.4g} % within %{x:.4g} µs", name)
    return plot.scatter("lines", times_us, shares, name, hover_text, line=line)


def _spread(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    drawn = sorted(rows, key=lambda row: (row.is_baseline, _p50_us(row)))
    labels = [bar_label(row) for row in drawn]
    colors = [look[row.contender].color for row in drawn]
    medians = [_p50_us(row) for row in drawn]
    longest = [row.latency.max_ns / 1e3 for row in drawn if row.latency]
    traces = [
        plot.scatter("lines", ends, [place, place], line={"color": color, "width": 2})
        for place, (color, *ends) in enumerate(zip(colors, medians, longest, strict=True))
    ]
    for key, name, symbol in _MARKS:
        of_all = [row.latency.percentiles_ns[key] / 1e3 for row in drawn if row.latency]
        at = medians if key == "50" else of_all
        marker = {"symbol": symbol, "size": 10, "color": colors}
        traces.append(plot.row_marks(name, at, labels, "µs", marker))
    cross = {"symbol": "x-thin", "size": 10, "line": {"width": 2, "color": colors}}
    traces.append(plot.row_marks("longest", longest, labels, "µs", cross | {"color": colors}))
    names = []
    for label, row in zip(labels, drawn, strict=True):
        assert row.latency is not None
        ends = (row.latency.median_ns.mean, row.latency.percentiles_ns["99"])
        p50, p99 = map(format_ns, ends)
        names.append((label, f"{p50}, 99 % of all {p99}"))
    layout = {
        "xaxis": plot.axis("round trip (µs, log)", type="log", **_log_ticks([*longest, *medians])),
        "yaxis": plot.row_axis(len(drawn)),
        "legend": plot.LEGEND_ABOVE,
        "annotations": plot.row_names(names),
    }
    return Drawing(title, traces, layout, plot.rows_height(len(drawn), legend=True))


def _curves(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    traces: list[plot.Trace] = []
    rarest = 100.0
    for row in sorted(rows, key=lambda row: row.contender):
        shape = look[row.contender]
        assert row.latency is not None and row.latency.curve is not None
        for curve, dotted in ((row.latency.curve, False), (row.latency.intended_curve, True)):
            if curve is None or (dotted and not _differs(row)):
                continue
            name = f"{row.contender}, from due time" if dotted else row.contender
            rarity = [1 / (1 - quantile) for quantile in curve.quantile]
            rarest = max(rarest, rarity[-1])
            traces.append(
                plot.scatter(
                    "lines" if dotted else "lines+markers",
                    plot.rounded(rarity),
                    plot.rounded(curve.value_ns, 1e3),
                    "" if dotted else name,
                    plot.hover(": %{y:.4g} µs", name),
                    line=shape.line("dot") | {"width": 1.5} if dotted else shape.line("solid"),
                    marker=shape.mark() | {"maxdisplayed": 8},
                )
            )
    heights = [value for trace in traces for value in trace["y"]]
    ticks = [nine for nine in _NINES if 1 / (1 - nine / 100) <= rarest * 1.01]
    layout = {
        "xaxis": plot.axis(
            "share of round trips at most so long",
            type="log",
            tickangle=0,
            tickvals=[1 / (1 - nine / 100) for nine in ticks],
            ticktext=[f"{nine:g} %" for nine in ticks],
        ),
        "yaxis": plot.axis("round trip (µs, log)", type="log", **_log_ticks(heights)),
        "legend": plot.LEGEND_BELOW,
        "hovermode": "closest",
    }
    return Drawing(title, traces, layout, 400)


def _differs(row: SummaryRow) -> bool:
    """Return True if the times from due and actual send time differ by more than 2 % anywhere."""
    assert row.latency is not None
    actual, intended = row.latency.percentiles_ns, row.latency.intended_percentiles_ns
    return any(intended.get(key, 0.0) > actual[key] * 1.02 for key, *_ in _MARKS)


def _p50_us(row: SummaryRow) -> float:
    assert row.latency is not None
    return row.latency.median_ns.mean / 1e3


def _log10(value: float) -> float:
    return math.log10(max(value, 1e-3))


def _log_ticks(values: Sequence[float]) -> dict[str, Any]:
    """Return ticks at 1, 2 and 5 of each decade, or only at the decades if there are many, because
    labels would overlap."""
    decades = _log10(max(values, default=1.0)) - _log10(min(values, default=1.0))
    return {"dtick": "D2" if decades <= _FEW_DECADES else 1, "tickformat": "~g", "minexponent": 6}
