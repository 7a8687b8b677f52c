"""Throughput in pictures: forwarded load by frame size, the three loads, CPU cost.

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
from switchmark.results.rows import CpuSummary, SummaryRow
from switchmark.statistics.means import Estimate

_WIDEST = 1.5  # of the highest load: an axis with whiskers ends there at the latest
_LOADS = (("offered", "circle-open"), ("forwarded", "circle"))


def facets(rows: Sequence[SummaryRow], x: XAxis | None) -> list[tuple[str, list[SummaryRow]]]:
    """Rows that differ in nothing but the contender (and x), with what tells them apart."""
    field = x.field if x else None
    groups: dict[Any, list[SummaryRow]] = defaultdict(list)
    for row in rows:
        groups[tuple(item for item in row.point if item[0] != field)].append(row)
    if not groups:
        return []
    others = [name for name, _ in rows[0].point if name != field]
    varying = [name for name in others if len({dict(row.point)[name] for row in rows}) > 1]
    titled = []
    for point, members in groups.items():
        parts = [words.field(name, dict(point)[name]) for name in varying if name in dict(point)]
        only = "" if field == "packet_size_bytes" else words.field(*_size(members[0]))
        titled.append((", ".join(parts) or only, members))
    return titled


def _size(row: SummaryRow) -> tuple[str, Any]:
    return "packet_size_bytes", row.trial.packet_size_bytes


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


def cpu_panels(rows: Sequence[SummaryRow]) -> Panels:
    """Who used how many cores."""
    measured = [row for row in rows if row.cpu is not None]
    return Panels(
        "CPU cost",
        "Cores used by the switch's own processes, by the traffic applications (the soft "
        "interrupts that ran in their time are theirs), and by other soft interrupts. An "
        "in-kernel switch has no process of its own: its work is inside the other two. A polling "
        "switch uses its whole core at any load.",
        [_cpu(title, members) for title, members in facets(measured, None)],
    )


def _ranked(rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """The rows as drawn: the best on top, the bare wire at the bottom."""
    return sorted(rows, key=lambda row: (row.is_baseline, -_mean(row)))


def _mean(row: SummaryRow) -> float:
    return row.throughput.forwarded_pps.mean if row.throughput else 0.0


def _label(row: SummaryRow) -> str:
    return row.contender if row.valid else f"{row.contender} (not valid)"


def _bars(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    drawn = _ranked(rows)
    forwarded = [row.throughput.forwarded_pps for row in drawn if row.throughput]
    bits = [row.throughput.forwarded_l2_bps.mean for row in drawn if row.throughput]
    trace: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(drawn))),
        "x": [one.mean / 1e6 for one in forwarded],
        "text": [_label(row) for row in drawn],
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
        (_label(row), f"{words.number(one.mean / 1e6)} Mpps, {words.number(b / 1e9)} Gbit/s")
        for row, one, b in zip(drawn, forwarded, bits, strict=True)
    ]
    layout = {
        "xaxis": axis("Mpps", rangemode="tozero", range=[0, longest * 1.02]),
        "yaxis": row_axis(len(drawn)),
        "annotations": row_names(names),
        "showlegend": False,
    }
    whiskers = _whiskers("x", trace["y"], forwarded, 1e6, "@ink")
    return Drawing(title, [trace, whiskers], layout, rows_height(len(drawn)))


def _whiskers(
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
    """Where an axis of loads ends: beyond the whiskers, but never so far that those of two runs
    that differ press all the loads together at its beginning; such whiskers leave the picture."""
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
        traces.append(_whiskers("y", places, values, scale, shape.color))
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
    """Hollow where the number is not valid."""
    hollow = f"{shape.marker.removesuffix('-open')}-open"
    return [shape.marker if row.valid else hollow for row in rows]


def _loads(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    drawn = _ranked(rows)
    labels = [_label(row) for row in drawn]
    places = list(range(len(drawn)))
    values = {
        "offered": [row.throughput.offered_pps.mean / 1e6 for row in drawn if row.throughput],
        "forwarded": [_mean(row) / 1e6 for row in drawn],
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


def _beside(cpu: CpuSummary) -> float:
    """What of all the cores used is neither the switch's nor the applications', so that the bar
    is as long as all of them: most soft interrupts run in the applications' time."""
    total = cpu.total_cores
    if total is None:
        return cpu.softirq_cores or 0.0
    return max(0.0, total - (cpu.switch_cores or 0.0) - cpu.applications_cores)


def _cpu(title: str, rows: Sequence[SummaryRow]) -> Drawing:
    drawn = _ranked(rows)
    labels = [_label(row) for row in drawn]
    parts = (
        ("switch", "@part0", "", [row.cpu.switch_cores or 0 for row in drawn if row.cpu]),
        ("applications", "@part1", "/",
         [row.cpu.applications_cores for row in drawn if row.cpu]),
        ("soft interrupts beside them", "@part2", ".",
         [_beside(row.cpu) for row in drawn if row.cpu]),
    )  # fmt: skip
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "x": values,
            "y": list(range(len(drawn))),
            "text": labels,
            "textposition": "none",
            "width": BAR,
            "marker": {"color": color, "pattern": {"shape": pattern, "size": 6}},
            "hovertemplate": Markup("%{{text}}: {} %{{x:.2f}} cores<extra></extra>").format(name),
        }
        for name, color, pattern, values in parts
    ]
    layout = {
        "barmode": "stack",
        "xaxis": axis("cores used", rangemode="tozero"),
        "yaxis": row_axis(len(drawn)),
        "annotations": row_names([(_label(row), _cpu_told(row.cpu)) for row in drawn if row.cpu]),
        "legend": {
            "orientation": "h",
            "y": 1.0,
            "yanchor": "bottom",
            "x": 0,
            "traceorder": "normal",
        },
    }
    return Drawing(title, traces, layout, rows_height(len(drawn), legend=True))


def _cpu_told(cpu: CpuSummary) -> str:
    cores = "" if cpu.total_cores is None else f"{words.number(cpu.total_cores)} cores"
    each = cpu.more.get("ns_per_frame")
    told = "" if each is None else f"{words.number(each)} ns a frame"
    return ", ".join(filter(None, [cores, told]))
