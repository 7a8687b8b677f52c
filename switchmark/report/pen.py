"""Colours, marks and the style of all plots that matplotlib draws, and their files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmark.whole import writing_whole

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


def save(figure: Figure, path: Path) -> None:
    """Write the figure in the format that the path ends with, the same bytes each time."""
    kind = path.suffix.removeprefix(".")
    undated: dict[str, Any] = {"Date": None} if kind == "svg" else {}
    with writing_whole(path) as file:
        figure.savefig(file, format=kind, dpi=_DPI, metadata=undated)
