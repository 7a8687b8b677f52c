"""Colours, marks and the style of all plots that matplotlib draws, and their files."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmark.atomic_files import atomic_writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Those of `template/report.css`, in its order: page and files use the same colours.
COLORS = ("#0b6fb3", "#c85400", "#00805f", "#a8477f", "#8a6d00", "#2f9fd0", "#6d4fa0", "#333c47")
MUTED = "#8a929b"  # less important parts
THEME = {
    "@muted": MUTED, "@ink": "#1c2128", "@line": "#d6d9de", "@card": "#ffffff",
    "@part0": "#333c47", "@part1": "#8a939d", "@part2": "#c3c9d0",
}  # fmt: skip
_DPI = 160
_LEGEND_WIDTH = 80  # characters
LEGEND_LINE_IN = 0.18
MARKERS = ("o", "s", "D", "^", "P", "*", "h", "v")


def color(name: str) -> str:
    """Return the colour of a name: `@series3`, `@ink`; any other name is itself a colour."""
    number = name.removeprefix("@series")
    if number != name and number.isdecimal():
        return COLORS[int(number) % len(COLORS)]
    return THEME.get(name, name)


def take_up() -> None:
    """Configure matplotlib: no screen, the same bytes each time, the common style of all plots."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams |= {
        "svg.fonttype": "none", "svg.hashsalt": "switchmark", "font.size": 9,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "grid.color": "#d6d9de", "axes.axisbelow": True,
    }  # fmt: skip


def wrapped(name: str, width: int = _LEGEND_WIDTH) -> str:
    """Return a name for a legend, with line breaks if it is too long for a line."""
    return "\n".join(textwrap.wrap(name, width)) or name


def legend_in(names: Iterable[str]) -> float:
    """Return the height in inches of a legend with these names below a drawing, a line for each."""
    return sum(LEGEND_LINE_IN * (1 + wrapped(name).count("\n")) for name in names)


def legend_below(figure: Figure) -> None:
    """Draw the legend below the axes, where it hides no line and has space for long names."""
    figure.legend(loc="outside lower left", frameon=False, fontsize=8)


def save(figure: Figure, path: Path) -> None:
    """Write the figure in the format of the path's ending, the same bytes each time."""
    kind = path.suffix.removeprefix(".")
    undated: dict[str, Any] = {"Date": None} if kind == "svg" else {}
    with atomic_writer(path) as file:
        figure.savefig(file, format=kind, dpi=_DPI, metadata=undated)
