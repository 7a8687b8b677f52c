"""Colours, marks and the style of all plots that matplotlib draws, and their files."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmark.atomic_files import atomic_writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Those of `template/report.css`, in its order: a contender looks alike on the page and in a file.
COLORS = ("#0b6fb3", "#c85400", "#00805f", "#a8477f", "#8a6d00", "#2f9fd0", "#6d4fa0", "#333c47")
MUTED = "#8a929b"  # what is beside the matter
THEME = {
    "@muted": MUTED, "@ink": "#1c2128", "@line": "#d6d9de", "@card": "#ffffff",
    "@part0": "#333c47", "@part1": "#8a939d", "@part2": "#c3c9d0",
}  # fmt: skip
_DPI = 160
_LEGEND_WIDTH = 80  # characters
LEGEND_LINE_IN = 0.18
MARKERS = ("o", "s", "D", "^", "P", "*", "h", "v")


def color(name: str) -> str:
    """The colour that a drawing names: `@series3`, `@ink`; any other name is one itself."""
    number = name.removeprefix("@series")
    if number != name and number.isdecimal():  # (a figure has texts of strangers, too)
        return COLORS[int(number) % len(COLORS)]
    return THEME.get(name, name)


def take_up() -> None:
    """Set matplotlib up: no screen, the same bytes each time, the style of all our plots."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams |= {
        "svg.fonttype": "none", "svg.hashsalt": "switchmark", "font.size": 9,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "grid.color": "#d6d9de", "axes.axisbelow": True,
    }  # fmt: skip


def wrapped(name: str, width: int = _LEGEND_WIDTH) -> str:
    """A name in a legend: on more lines where one is too short."""
    return "\n".join(textwrap.wrap(name, width)) or name


def legend_in(names: Iterable[str]) -> float:
    """The height in inches that a legend of these names takes below a drawing, a name a line."""
    return sum(LEGEND_LINE_IN * (1 + wrapped(name).count("\n")) for name in names)


def legend_below(figure: Figure) -> None:
    """Draw the legend below the axes, where it hides no line and long names have room."""
    figure.legend(loc="outside lower left", frameon=False, fontsize=8)


def save(figure: Figure, path: Path) -> None:
    """Write the figure in the format that the path ends with, the same bytes each time."""
    kind = path.suffix.removeprefix(".")
    undated: dict[str, Any] = {"Date": None} if kind == "svg" else {}
    with atomic_writer(path) as file:
        figure.savefig(file, format=kind, dpi=_DPI, metadata=undated)
