"""Parts of plotly's figures: traces, axes, legends, shades and the names of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup, escape

LEGEND_ABOVE = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0}
LEGEND_BELOW = {"orientation": "h", "y": -0.28}
_BAR = 0.3  # thickness of a bar, as a share of a row
_LINEAR_UP_TO = 10  # above this ratio of the highest to the lowest value, an axis is logarithmic
_ROW_PX = 54  # height of a row, with the contender's name above its drawing
_AROUND_PX = 76
_LETTERS = 42  # letters in a line of a narrow page

Trace = dict[str, Any]


def rows_height(rows: int, *, legend: bool = False) -> int:
    """Return the height of a figure with this number of rows, in pixels."""
    return _AROUND_PX + _ROW_PX * max(rows, 1) + (40 if legend else 0)


def row_axis(rows: int) -> dict[str, Any]:
    """Return the axis of a figure with a row for each contender: row 0 on top, named by
    `row_names`."""
    return axis(
        "",
        range=[rows - 0.6, -0.8],
        showticklabels=False,
        ticks="",
        showgrid=False,
        zeroline=False,
    )


def row_names(names: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the name of each row, bold, with a remark. It is above the drawing, so that a long
    name takes no space from the drawing on any page."""
    return [
        {
            "xref": "paper", "x": 0, "xanchor": "left", "y": place, "yanchor": "bottom",
            "yshift": 11, "showarrow": False, "align": "left", "bgcolor": "@card", "borderpad": 0,
            "text": _row_name(name, remark),
        }
        for place, (name, remark) in enumerate(names)
    ]  # fmt: skip


def _row_name(name: str, remark: str) -> Markup:
    between = Markup("  " if len(name) + len(remark) < _LETTERS else "<br>")
    if len(name) > _LETTERS:
        name = f"{name[: _LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
    return Markup("<b>{}</b>{}{}").format(name, between, remark)


def scatter(
    mode: str,
    x: Sequence[Any],
    y: Sequence[Any],
    name: str = "",
    hover_text: Markup | None = None,
    **more: Any,
) -> Trace:
    """Return a trace of lines, marks or both. Without a name it is not in the legend; `hover_text`
    comes from `hover`."""
    shown = {"name": name} if name else {"showlegend": False}
    hovered = {"hovertemplate": hover_text} if hover_text else {"hoverinfo": "skip"}
    return {"type": "scatter", "mode": mode, **shown, "x": x, "y": y, **hovered, **more}


def bars(
    labels: Sequence[str], x: Sequence[float], marker: dict[str, Any], details: str, name: str = ""
) -> Trace:
    """Return a trace with a bar in each row; `details` is plotly's template after a label."""
    named = {"name": name} if name else {}
    return {
        "type": "bar", "orientation": "h", **named, "x": x, "y": list(range(len(x))), "width": _BAR,
        "marker": marker, "text": labels, "textposition": "none",
        "hovertemplate": hover(f"%{{text}}: {details}"),
    }  # fmt: skip


def row_marks(
    name: str, x: Sequence[Any], labels: Sequence[str], unit: str, marker: dict[str, Any]
) -> Trace:
    """Return a trace with a mark in each row."""
    hover_text = hover(f"%{{text}}: {name} %{{x:.4g}} {unit}")
    return scatter("markers", x, list(range(len(x))), name, hover_text, text=labels, marker=marker)


def error_bars(up: Sequence[float], down: Sequence[float], **more: Any) -> dict[str, Any]:
    """Return the lengths of an interval from each value of a trace, up and down."""
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, **more}


def hover(text: str, name: str = "") -> Markup:
    """Return the text beside a mark under the pointer: the name, then plotly's template."""
    return escape(name) + Markup(f"{text}<extra></extra>")


def rounded(values: Iterable[float], scale: float = 1.0) -> list[float]:
    """Return the values in units of `scale`, without invisible digits, which make a page longer."""
    return [float(f"{value / scale:.5g}") for value in values]


def band(low: float, high: float, **more: Any) -> dict[str, Any]:
    """Return a shade over the whole height of a figure."""
    return {
        "type": "rect", "xref": "x", "yref": "paper", "x0": low, "x1": high, "y0": 0, "y1": 1,
        "fillcolor": "@muted", "opacity": 0.18, "line": {"width": 0}, **more,
    }  # fmt: skip


def upright(x: Any, **line: Any) -> dict[str, Any]:
    """Return a line over the whole height of a figure."""
    return {
        "type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1,
        "line": {"width": 1.5, **line},
    }  # fmt: skip


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round values between two positive values, for a logarithmic axis."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    chosen: list[float] = []
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        ticks = [digit * 10.0**decade for decade in decades for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most or digits == (1,):
            chosen = ticks
    while len(chosen) > most:  # many decades
        chosen = chosen[::2]
    if len(chosen) >= 3:
        return chosen
    step = next_round((high - low) / most)
    first = math.ceil(low / step)
    return [float(f"{n * step:.6g}") for n in range(first, math.floor(high / step) + 1)]


def next_round(value: float) -> float:
    """Return the next of 1, 2, 5, 10 ... that is not below the value."""
    unit = 10.0 ** math.floor(math.log10(value))
    return next(digit * unit for digit in (1, 2, 5, 10) if digit * unit >= value * (1 - 1e-9))


def log_axis(title: str, low: float, high: float, label: str = "{:g}") -> dict[str, Any]:
    """Return a logarithmic axis between these values, with round values as ticks."""
    ticks = log_ticks(low, high)
    return axis(
        title,
        type="log",
        range=[math.log10(low), math.log10(high)],
        tickvals=ticks,
        ticktext=[label.format(tick) for tick in ticks],
        zeroline=False,
    )


def value_axis(
    title: str, groups: Iterable[Iterable[float]], end: float | None = None
) -> dict[str, Any]:
    """Return an axis for values that are compared within their groups: linear from 0 to `end`, by
    default beyond the highest value. It is logarithmic if the highest value of a group is more than
    `_LINEAR_UP_TO` times the lowest above 0: the low values would otherwise lie on the axis."""
    drawn = [values for group in groups if (values := [value for value in group if value > 0])]
    low = min(map(min, drawn), default=1.0)
    high = max(map(max, drawn), default=1.0)
    if any(max(values) > _LINEAR_UP_TO * min(values) for values in drawn):
        return log_axis(f"{title}, log", low / 1.3, high * 1.3)
    return axis(title, range=[0, end or 1.1 * high])


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Return an axis with its quantity and unit."""
    return {"title": {"text": title, "font": {"size": 13}}, "automargin": True, **more}
