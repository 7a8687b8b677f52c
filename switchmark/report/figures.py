"""The figures of the report: plotly traces and layouts as plain values.

Colours are names such as `@series0`, which the page's script replaces by those of the light, dark
or printed theme. A contender's colour is its own in every figure; parts of a whole are shades of
grey. Every series also has a marker or a pattern of its own, so that no reading depends on colour.

plotly reads tags in texts. So text is `Markup` where its tags are ours; everything else is escaped
on its way to the page, whatever a record calls its switch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from switchmark.results.rows import SummaryRow

PALETTE_SIZE = 8
ROW_PX = 54  # of a figure with a row a contender, whose name stands above what is drawn
BAR = 0.3  # of a row, the thickness of a bar
_AROUND_PX = 76
_LETTERS = 42  # that a narrow page has room for in a line
_MARKERS = (
    "circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "triangle-down",
)  # fmt: skip
_WIRES = (("line-ns-open", "dot"), ("x-thin-open", "dashdot"), ("line-ew-open", "longdash"))
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True, slots=True)
class Drawing:
    """One plot: its title, its description, and what plotly needs to draw it."""

    title: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    height_px: int
    note: str = ""

    def payload(self) -> dict[str, Any]:
        """The plot as the page's script reads it."""
        drawn = {"data": self.traces, "layout": self.layout, "height": self.height_px}
        return {key: _harmless(value) for key, value in drawn.items()}


def _harmless(value: Any) -> Any:
    """The value, with tags only in what is `Markup`."""
    if isinstance(value, Markup):
        return str(value)
    if isinstance(value, str):
        return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if isinstance(value, Mapping):
        return {key: _harmless(one) for key, one in value.items()}
    return [_harmless(one) for one in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class Look:
    """How a contender is drawn, the same in every figure."""

    color: str
    marker: str
    dash: str


@dataclass(frozen=True, slots=True)
class Panels:
    """A row of figures under one heading."""

    heading: str
    intro: str
    figures: list[Drawing] = field(default_factory=list)
    folded: list[Drawing] = field(default_factory=list)  # of less need


def looks(rows: Sequence[SummaryRow]) -> dict[str, Look]:
    """A look for every contender. The bare wire is always drawn grey and dashed, that of
    each port kind with a marker of its own."""
    names = sorted({row.contender for row in rows if not row.is_baseline})
    found = {
        name: Look(
            f"@series{i % PALETTE_SIZE}", _MARKERS[i % len(_MARKERS)], _DASHES[i % len(_DASHES)]
        )
        for i, name in enumerate(names)
    }
    wires = sorted({row.contender for row in rows if row.is_baseline})
    for i, name in enumerate(wires):
        marker, dash = _WIRES[i % len(_WIRES)]
        found[name] = Look("@muted", marker, dash)
    return found


def rows_height(rows: int, *, legend: bool = False) -> int:
    """The height of a figure with so many rows, in pixels."""
    return _AROUND_PX + ROW_PX * max(rows, 1) + (40 if legend else 0)


def row_axis(rows: int) -> dict[str, Any]:
    """The axis of a figure with a row a contender: row 0 on top, named by `row_names`."""
    return axis(
        "",
        range=[rows - 0.6, -0.8],
        showticklabels=False,
        ticks="",
        showgrid=False,
        zeroline=False,
    )


def row_names(names: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The name of each row, bold, with a remark: above what is drawn, so that a long one takes no
    room from it on any page."""
    return [
        {
            "xref": "paper", "x": 0, "xanchor": "left", "y": place, "yanchor": "bottom",
            "yshift": 11, "showarrow": False, "align": "left", "bgcolor": "@card", "borderpad": 0,
            "text": Markup("<b>{}</b>{}{}").format(_shortened(name), _between(name, told), told),
        }
        for place, (name, told) in enumerate(names)
    ]  # fmt: skip


def _shortened(name: str) -> str:
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"


def _between(name: str, told: str) -> Markup:
    return Markup("  " if len(name) + len(told) < _LETTERS else "<br>")


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values between two positive ones, for a logarithmic axis."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    kept: list[float] = []
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        ticks = [digit * 10.0**decade for decade in decades for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most or digits == (1,):
            kept = ticks
    while len(kept) > most:  # many decades
        kept = kept[::2]
    if len(kept) >= 3:
        return kept
    step = next_round((high - low) / most)
    first = math.ceil(low / step)
    return [float(f"{n * step:.6g}") for n in range(first, math.floor(high / step) + 1)]


def next_round(value: float) -> float:
    """The next of 1, 2, 5, 10 ... that is not below the value."""
    unit = 10.0 ** math.floor(math.log10(value))
    return next(digit * unit for digit in (1, 2, 5, 10) if digit * unit >= value * (1 - 1e-9))


def log_axis(title: str, low: float, high: float, label: str = "{:g}") -> dict[str, Any]:
    """A logarithmic axis between these values, with round values as ticks."""
    ticks = log_ticks(low, high)
    return axis(
        title,
        type="log",
        range=[math.log10(low), math.log10(high)],
        tickvals=ticks,
        ticktext=[label.format(tick) for tick in ticks],
        zeroline=False,
    )


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with its quantity and unit."""
    return {"title": {"text": title, "font": {"size": 13}}, "automargin": True, **more}
