"""The three loads of each contender: intended, offered and forwarded, on one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from switchmark.report import words
from switchmark.report.drawn_rows import bar_label, facets, mean_forwarded_pps, ranked
from switchmark.report.figures import Drawing, Look, Panels, axis, row_axis, row_names, rows_height
from switchmark.results.rows import SummaryRow

_LOADS = (("offered", "circle-open"), ("forwarded", "circle"))


def loads_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """Intended, offered and forwarded load: three numbers, never one."""
    return Panels(
        "Three loads",
        "Intended: what the schedule asked for (none when the sender was told to saturate). "
        "Offered: what the port accepted. Forwarded: what arrived. All are rates in the kept "
        "window, by the clocks of both ends, so that a short or disturbed trial may show more "
        "arriving than was offered; loss is counted frame by frame over the whole trial.",
        [_loads(title, members, look) for title, members in facets(rows, None)],
    )


def _loads(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    drawn = ranked(rows)
    labels = [bar_label(row) for row in drawn]
    places = list(range(len(drawn)))
    values = {
        "offered": [row.throughput.offered_pps.mean / 1e6 for row in drawn if row.throughput],
        "forwarded": [mean_forwarded_pps(row) / 1e6 for row in drawn],
    }
    gaps: dict[str, Any] = {
        "type": "scatter", "mode": "lines", "hoverinfo": "skip", "showlegend": False,
        "line": {"color": "@line", "width": 5}, "x": [], "y": [],
    }  # fmt: skip
    for place, low, high in zip(places, values["forwarded"], values["offered"], strict=True):
        gaps["x"] += [low, high, None]
        gaps["y"] += [place, place, None]
    traces = [gaps]
    intended = [row.throughput.intended_pps if row.throughput else None for row in drawn]
    if any(intended):
        traces.append(
            _load_marks("intended", "line-ns", [p and p / 1e6 for p in intended], labels, ["@ink"])
        )
    colors = [look[row.contender].color for row in drawn]
    for name, symbol in _LOADS:
        traces.append(_load_marks(name, symbol, values[name], labels, colors))
    told = [
        (label, f"{words.number(forwarded)} of {words.number(offered)} Mpps")
        for label, forwarded, offered in zip(
            labels, values["forwarded"], values["offered"], strict=True
        )
    ]
    layout = {
        "xaxis": axis("Mpps", rangemode="tozero"),
        "yaxis": row_axis(len(drawn)),
        "annotations": row_names(told),
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
    }
    return Drawing(title, traces, layout, rows_height(len(drawn), legend=True))


def _load_marks(
    name: str, symbol: str, x: Sequence[float | None], labels: list[str], colors: list[str]
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": x,
        "y": list(range(len(labels))),
        "text": labels,
        "marker": {
            "symbol": symbol,
            "size": 16 if symbol == "line-ns" else 12,
            "color": colors if len(colors) > 1 else colors[0],
            "line": {"width": 2, "color": colors if len(colors) > 1 else colors[0]},
        },
        "hovertemplate": Markup("%{{text}}: {} %{{x:.4g}} Mpps<extra></extra>").format(name),
    }
