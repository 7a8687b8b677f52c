"""What a figure of the report is: plotly traces and layout as plain values.

Colours are names such as `@series0`, which the page's script replaces by those of the
light, dark or printed theme. Every series also has a marker or a pattern of its own, so
that no reading depends on colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from switchmark.results.rows import SummaryRow

PALETTE_SIZE = 8
_MARKERS = (
    "circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "triangle-down",
)  # fmt: skip
_WIRES = (("line-ns-open", "dot"), ("x-thin-open", "dashdot"), ("line-ew-open", "longdash"))
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True, slots=True)
class Figure:
    """One plot: what it is, what to look for, and what plotly needs to draw it."""

    title: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    height_px: int
    note: str = ""

    def payload(self) -> dict[str, Any]:
        """What the page's script reads."""
        return {"data": self.traces, "layout": self.layout, "height": self.height_px}


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
    figures: list[Figure] = field(default_factory=list)


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


def bar_height(bars: int) -> int:
    """Height of a figure with so many horizontal bars, pixels."""
    return 96 + 34 * max(bars, 1)


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with its quantity and unit."""
    return {"title": {"text": title, "font": {"size": 13}}, "automargin": True, **more}
