"""A figure of the report as SVG and PNG, drawn by matplotlib from its traces.

It supports only the parts of plotly that the report uses: lines, marks, horizontal bars, intervals,
and named rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from switchmark.report import plot_style
from switchmark.report.figures import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH_IN, _PX_AN_INCH = 6.4, 95
_DASHES: dict[str, Any] = {
    "solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3)),
    "longdashdot": (0, (8, 3, 1, 3)),
}  # fmt: skip
_MARKERS = {
    "circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "cross": "P", "star": "*",
    "hexagon": "h", "triangle-down": "v", "line-ns": "|", "x-thin": "x", "line-ew": "_",
}  # fmt: skip
_LEGEND_WIDTH = 50  # characters in each of two columns
_USUAL_NAMES = 8  # names in a legend for which drawings have room
_UNFILLED = ("|", "x", "_")  # marks without an area


def write_drawing(drawing: Drawing, base: Path, heading: str = "") -> list[Path]:
    """Write the drawing beside `base`, with an ending for each format; returns the files."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_IN, drawing.height_px / _PX_AN_INCH), layout="constrained")
    axes: Axes = figure.subplots()
    for trace in drawing.traces:
        (_bars if trace["type"] == "bar" else _points)(axes, trace)
    _axis(axes, "x", drawing.layout["xaxis"])
    _axis(axes, "y", drawing.layout["yaxis"])
    _rows(axes, drawing.layout.get("annotations", ()))
    title = ": ".join(filter(None, (heading, drawing.title)))
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold", wrap=True)
    if axes.get_legend_handles_labels()[1]:
        _legend(figure, axes)
    paths = [base.with_name(f"{base.name}.{kind}") for kind in ("svg", "png")]
    for path in paths:
        plot_style.save(figure, path)
    return paths


def _legend(figure: Figure, axes: Axes) -> None:
    """Draw the legend below, in two columns; long names take more lines, and the drawing grows."""
    handles, names = axes.get_legend_handles_labels()
    names = [plot_style.wrapped(name, _LEGEND_WIDTH) for name in names]
    more = sum(name.count("\n") for name in names) + max(0, len(names) - _USUAL_NAMES) / 2
    figure.set_figheight(figure.get_figheight() + more * plot_style.LEGEND_LINE_IN)
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=8)


def _color(name: Any) -> Any:
    return plot_style.color(name) if isinstance(name, str) else [_color(each) for each in name]


def _bars(axes: Axes, trace: dict[str, Any]) -> None:
    color = _color(trace["marker"]["color"])
    label = trace.get("name", "_")
    axes.barh(trace["y"], trace["x"], height=2 * trace["width"], color=color, label=label)


def _points(axes: Axes, trace: dict[str, Any]) -> None:
    x, y = trace["x"], trace["y"]
    if not x:
        return
    shown = trace.get("showlegend", True) and "name" in trace
    label = trace["name"] if shown else "_"
    for name in ("error_x", "error_y"):
        if ends := trace.get(name):
            known: dict[str, Any] = {
                name.replace("error_", "") + "err": [ends["arrayminus"], ends["array"]]
            }
            axes.errorbar(x, y, fmt="none", ecolor=_color(ends["color"]), capsize=2.5, **known)
            return
    marker = trace.get("marker", {})
    line = trace.get("line", {})
    color = _color(line.get("color") or marker.get("color", "@ink"))
    symbol = marker.get("symbol", "circle")
    if isinstance(symbol, list) and len(set(symbol)) == 1:
        symbol = symbol[0]
    if isinstance(color, list):
        axes.scatter(x, y, c=color, marker=_MARKERS[symbol.removesuffix("-open")], label=label)
        return
    drawn: dict[str, Any] = {"color": color, "linestyle": "none", "label": label}
    if "lines" in trace["mode"]:
        steps = "steps-post" if line.get("shape") == "hv" else "default"
        width = line.get("width", 2) * 0.75
        drawn |= {"linestyle": _DASHES[line.get("dash", "solid")], "linewidth": width}
        drawn |= {"drawstyle": steps}
    if "markers" not in trace["mode"]:
        axes.plot(x, y, **drawn)
    elif isinstance(symbol, str):
        axes.plot(x, y, **drawn, **_mark(symbol, color), markersize=marker.get("size", 8) * 0.65)
    else:
        axes.plot(x, y, **drawn)
        _each(axes, x, y, symbol, color)
    if "text" in trace["mode"]:
        for place in zip(x, y, trace["text"], strict=True):
            axes.annotate(place[2], place[:2], (0, 5), textcoords="offset points", ha="center")


def _each(
    axes: Axes, x: Sequence[Any], y: Sequence[Any], symbols: Sequence[str], color: Any
) -> None:
    """Draw marks that differ from point to point."""
    for symbol in dict.fromkeys(symbols):
        points = [(a, b) for a, b, own in zip(x, y, symbols, strict=True) if own == symbol]
        axes.plot(*zip(*points, strict=True), linestyle="none", color=color, label="_",
                  **_mark(symbol, color))  # fmt: skip


def _mark(symbol: str, color: Any) -> dict[str, Any]:
    """Return matplotlib's arguments for a mark of plotly: hollow if the mark is open."""
    marker = _MARKERS[symbol.removesuffix("-open")]
    hollow = symbol.endswith("-open") and marker not in _UNFILLED
    return {"marker": marker, "markerfacecolor": "white" if hollow else color}


def _axis(axes: Axes, name: str, given: dict[str, Any]) -> None:
    logarithmic = given.get("type") == "log"
    (axes.set_xscale if name == "x" else axes.set_yscale)("log" if logarithmic else "linear")
    set_limits = axes.set_xlim if name == "x" else axes.set_ylim
    if (ends := given.get("range")) is not None:
        low, high = (10**end if logarithmic else end for end in ends)
        set_limits(low, high)
    elif given.get("rangemode") == "tozero":
        set_limits(0)
    if "tickvals" in given:
        ticks = axes.set_xticks if name == "x" else axes.set_yticks
        ticks(given["tickvals"], given["ticktext"])
        axes.minorticks_off()
    elif logarithmic:
        (axes.xaxis if name == "x" else axes.yaxis).set_major_formatter("{x:g}")
    (axes.set_xlabel if name == "x" else axes.set_ylabel)(given["title"]["text"])


def _rows(axes: Axes, names: Sequence[dict[str, Any]]) -> None:
    """Draw the names of rows, which the page writes above the drawing."""
    if names:
        labels = [Markup(str(name["text"]).replace("<br>", "\n")).striptags() for name in names]
        axes.set_yticks([name["y"] for name in names], labels)
        axes.grid(axis="y", visible=False)
        low, high = axes.get_ylim()
        if not math.isclose(low, high):
            axes.set_ylim(max(low, high), min(low, high))
