"""Latency in pictures: the spread of round trips, and how far the tail reaches.

All curves come from merged histograms, never from averaged percentiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from switchmark.report import words
from switchmark.report.axes import end_of_cumulative
from switchmark.report.drawn_rows import facets
from switchmark.report.figures import (
    Drawing,
    Look,
    Panels,
    axis,
    row_axis,
    row_names,
    rows_height,
)
from switchmark.results.rows import SummaryRow

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
        "Round-trip time, all repetitions together; from the median (circle) to the longest "
        "round trip seen (cross), on a logarithmic axis. Lower and shorter is better.",
        [_spread(title, members, look) for title, members in facets(rows, None)],
    )


def curve_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """Percentile curves of rows that have them."""
    return Panels(
        "Latency by percentile",
        "Each step to the right is ten times rarer. Solid: from the moment a request was really "
        "sent. Dotted, where it differs: from the moment it was due, so that a sender that fell "
        "behind cannot hide the wait (coordinated omission).",
        [_curves(title, members, look) for title, members in facets(rows, None)],
    )


def cumulative_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """The share of the round trips that took at most a given time, on linear axes, as papers draw
    it."""
    return Panels(
        "Latency, cumulative",
        "The share of the round trips that took at most a given time. Linear axes, up to the 99th "
        "percentile of the slowest at most; the picture before shows the tail.",
        [_cumulative(title, members, look) for title, members in facets(rows, None)],
    )


def _cumulative(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    traces: list[dict[str, Any]] = []
    longest_us = 0.0
    for row in sorted(rows, key=lambda row: row.contender):
        assert row.latency is not None and row.latency.curve is not None
        curve = row.latency.curve
        times_us = [value / 1e3 for value in curve.value_ns]
        shares = [100 * share for share in curve.quantile]
        told = Markup("{}: %{{y:.4g}} % within %{{x:.4g}} µs<extra></extra>")
        p90, p99 = (row.latency.percentiles_ns[name] / 1e3 for name in ("90", "99"))
        longest_us = max(longest_us, end_of_cumulative(p90, p99))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": row.contender,
                "x": [float(f"{time:.5g}") for time in times_us],
                "y": [float(f"{share:.5g}") for share in shares],
                "line": {"color": look[row.contender].color, "width": 2},
                "hovertemplate": told.format(row.contender),
            }
        )
    layout = {
        "xaxis": axis("round trip (µs)", range=[0, longest_us]),
        "yaxis": axis("share of round trips (%)", range=[0, 100]),
        "legend": {"orientation": "h", "y": -0.28},
    }
    return Drawing(title, traces, layout, 400)


def _spread(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    drawn = sorted(rows, key=lambda row: (row.is_baseline, _p50(row)))
    labels = [row.contender if row.valid else f"{row.contender} (not valid)" for row in drawn]
    colors = [look[row.contender].color for row in drawn]
    traces: list[dict[str, Any]] = []
    for place, (row, color) in enumerate(zip(drawn, colors, strict=True)):
        assert row.latency is not None
        traces.append(
            {
                "type": "scatter", "mode": "lines", "showlegend": False, "hoverinfo": "skip",
                "x": [_p50(row) / 1e3, row.latency.max_ns / 1e3], "y": [place, place],
                "line": {"color": color, "width": 2},
            }
        )  # fmt: skip
    for key, name, symbol in _MARKS:
        at = [row.latency.percentiles_ns[key] / 1e3 for row in drawn if row.latency]
        traces.append(_dots(name, symbol, at, labels, colors))
    longest = [row.latency.max_ns / 1e3 for row in drawn if row.latency]
    traces.append(_dots("longest", "x-thin", longest, labels, colors))
    ends = [*longest, *(_p50(row) / 1e3 for row in drawn)]
    told = [
        (label, f"{words.time_ns(_p50(row))}, 99 % {words.time_ns(_p99(row))}")
        for row, label in zip(drawn, labels, strict=True)
    ]
    layout = {
        "xaxis": axis("round trip (µs, log)", type="log", **_log_ticks(ends)),
        "yaxis": row_axis(len(drawn)),
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        "annotations": row_names(told),
    }
    return Drawing(title, traces, layout, rows_height(len(drawn), legend=True))


def _dots(
    name: str, symbol: str, x: list[float], labels: list[str], colors: list[str]
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": x,
        "y": list(range(len(x))),
        "text": labels,
        "marker": {
            "symbol": symbol,
            "size": 10,
            "color": colors,
            "line": {"width": 2 if symbol == "x-thin" else 0, "color": colors},
        },
        "hovertemplate": Markup("%{{text}}: {} %{{x:.4g}} µs<extra></extra>").format(name),
    }


def _curves(
    title: str,
    rows: Sequence[SummaryRow],
    look: dict[str, Look],
) -> Drawing:
    traces: list[dict[str, Any]] = []
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
                {
                    "type": "scatter",
                    "mode": "lines" if dotted else "lines+markers",
                    "name": name,
                    "showlegend": not dotted,
                    "x": [float(f"{value:.5g}") for value in rarity],
                    "y": [float(f"{value / 1e3:.5g}") for value in curve.value_ns],
                    "line": {
                        "color": shape.color,
                        "dash": "dot" if dotted else "solid",
                        "width": 1.5 if dotted else 2,
                    },
                    "marker": {
                        "symbol": shape.marker,
                        "color": shape.color,
                        "size": 8,
                        "maxdisplayed": 8,
                    },
                    "hovertemplate": Markup("{}: %{{y:.4g}} µs<extra></extra>").format(name),
                }
            )
    heights = [value for trace in traces for value in trace["y"]]
    ticks = [nine for nine in _NINES if 1 / (1 - nine / 100) <= rarest * 1.01]
    layout = {
        "xaxis": axis(
            "share of round trips at most so long",
            type="log",
            tickangle=0,
            tickvals=[1 / (1 - nine / 100) for nine in ticks],
            ticktext=[f"{nine:g} %" for nine in ticks],
        ),
        "yaxis": axis("round trip (µs, log)", type="log", **_log_ticks(heights)),
        "legend": {"orientation": "h", "y": -0.28},
        "hovermode": "closest",
    }
    return Drawing(title, traces, layout, 400)


def _differs(row: SummaryRow) -> bool:
    """Whether the times from due and actual send time differ by more than 2 % somewhere."""
    assert row.latency is not None
    actual, intended = row.latency.percentiles_ns, row.latency.intended_percentiles_ns
    return any(intended.get(key, 0.0) > actual[key] * 1.02 for key, *_ in _MARKS)


def _p50(row: SummaryRow) -> float:
    assert row.latency is not None
    return row.latency.percentiles_ns["50"]


def _p99(row: SummaryRow) -> float:
    assert row.latency is not None
    return row.latency.percentiles_ns["99"]


def _log10(value: float) -> float:
    return math.log10(max(value, 1e-3))


def _log_ticks(values: Sequence[float]) -> dict[str, Any]:
    """Ticks at 1, 2 and 5 of each decade; at the decades alone where there are many, or the
    labels would lie over each other."""
    decades = _log10(max(values, default=1.0)) - _log10(min(values, default=1.0))
    return {"dtick": "D2" if decades <= _FEW_DECADES else 1, "tickformat": "~g", "minexponent": 6}
