"""The figures of the report: plotly traces and layouts as plain values.

Colours are names such as `@series0`, which the page's script replaces by those of the light, dark
or printed theme. A contender's colour is its own in every figure; parts of a whole are shades of
grey. Every series also has a marker or a pattern of its own, so that no reading depends on colour.

plotly reads tags in texts. So text is `Markup` where its tags are ours; everything else is escaped
on its way to the page, whatever a record calls its switch.
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

    def line(self, dash: str = "") -> dict[str, Any]:
        """Its line, with dashes of its own unless others are named."""
        return {"color": self.color, "dash": dash or self.dash, "width": 2}

    def mark(self, size: int = 8) -> dict[str, Any]:
        """Its marks, so many pixels wide."""
        return {"color": self.color, "symbol": self.marker, "size": size}

    @property
    def hollow(self) -> str:
        """Its marker without its filling."""
        return f"{self.marker.removesuffix('-open')}-open"


@dataclass(frozen=True, slots=True)
class Panels:
    """A row of figures under one heading."""

    heading: str
    intro: str
    figures: list[Drawing] = field(default_factory=list)
    folded: list[Drawing] = field(default_factory=list)  # of less need


def looks(rows: Sequence[SummaryRow]) -> dict[str, Look]:
    """Return a look for every contender. Baselines are always drawn grey and dashed, that of
    each port kind with a marker of its own."""
    names = sorted({row.contender for row in rows if not row.is_baseline})
    found = {
        name: Look(
            f"@series{i % _PALETTE_SIZE}", _MARKERS[i % len(_MARKERS)], DASHES[i % len(DASHES)]
        )
        for i, name in enumerate(names)
    }
    wires = sorted({row.contender for row in rows if row.is_baseline} - set(names))
    for i, name in enumerate(wires):
        marker, dash = _WIRES[i % len(_WIRES)]
        found[name] = Look("@muted", marker, dash)
    return found
