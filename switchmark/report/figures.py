"""The figures of the report: plotly traces and layouts as plain values.

Colours are names such as `@series0`, which the script of the page replaces by those of the light,
dark or printed theme. A contender has the same colour in every figure; parts of a whole are shades
of grey. Every series also has its own marker or pattern, so that a reader does not need colours.

plotly interprets tags in texts. Therefore text with tags of this project is `Markup`, and all other
text is escaped, for example the name of a switch in a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from switchmark.results.rows import SummaryRow

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_PALETTE_SIZE = 8
_MARKERS = (
    "circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "triangle-down",
)  # fmt: skip
_WIRES = (("line-ns-open", "dot"), ("x-thin-open", "dashdot"), ("line-ew-open", "longdash"))


@dataclass(frozen=True, slots=True)
class Drawing:
    """One plot: its title, its description, and its plotly data."""

    title: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    height_px: int
    note: str = ""

    def payload(self) -> dict[str, Any]:
        """Return the plot in the form that the script of the page reads."""
        drawn = {"data": self.traces, "layout": self.layout, "height": self.height_px}
        return {key: _harmless(value) for key, value in drawn.items()}


def _harmless(value: Any) -> Any:
    """Return the value, escaped except for `Markup`."""
    if isinstance(value, Markup):
        return str(value)
    if isinstance(value, str):
        return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if isinstance(value, Mapping):
        return {key: _harmless(item) for key, item in value.items()}
    return [_harmless(item) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class Look:
    """The plot style of a contender, the same in every figure."""

    color: str
    marker: str
    dash: str

    def line(self, dash: str = "") -> dict[str, Any]:
        """Return the style of its line, with its own dashes unless others are named."""
        return {"color": self.color, "dash": dash or self.dash, "width": 2}

    def mark(self, size: int = 8) -> dict[str, Any]:
        """Return the style of its marks, which are `size` pixels wide."""
        return {"color": self.color, "symbol": self.marker, "size": size}

    @property
    def hollow(self) -> str:
        """Its marker without filling."""
        return f"{self.marker.removesuffix('-open')}-open"


@dataclass(frozen=True, slots=True)
class Panels:
    """A row of figures under one heading."""

    heading: str
    intro: str
    figures: list[Drawing] = field(default_factory=list)
    folded: list[Drawing] = field(default_factory=list)  # less important figures


def looks(rows: Sequence[SummaryRow]) -> dict[str, Look]:
    """Return a plot style for every contender. Baselines are grey and dashed, with a separate
    marker for each port kind."""
    names = sorted({row.contender for row in rows if not row.is_baseline})
    styles = {
        name: Look(
            f"@series{i % _PALETTE_SIZE}", _MARKERS[i % len(_MARKERS)], DASHES[i % len(DASHES)]
        )
        for i, name in enumerate(names)
    }
    baselines = sorted({row.contender for row in rows if row.is_baseline} - set(names))
    for i, name in enumerate(baselines):
        marker, dash = _WIRES[i % len(_WIRES)]
        styles[name] = Look("@muted", marker, dash)
    return styles
