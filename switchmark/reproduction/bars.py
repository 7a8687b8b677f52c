"""Bars one above the other: ours, and the published value a diamond in front of its bar; below them
the published values of what was not measured here. Several figures of the rows, such as times at
three loads, are columns beside each other, as in the paper's table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from switchmark.model.campaign import Published
from switchmark.report import pen, words
from switchmark.reproduction.drawn import (
    figure_of,
    is_wide,
    legend,
    published_label,
    row_label,
    whiskers,
)
from switchmark.reproduction.paper import Figure
from switchmark.reproduction.tried import estimate_of
from switchmark.results.rows import SummaryRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_MOST = 100  # lines; what is beyond is in the table below the drawing
_ROOMY = 30


def height_in(lines: int) -> float:
    """The height of a drawing with so many lines, inches."""
    shown = min(lines, _MOST)
    return 1.3 + (0.3 if shown <= _ROOMY else 0.2) * shown


def draw_bars(
    canvas: Canvas,
    figures: Sequence[Figure],
    rows: Sequence[SummaryRow],
    published: Sequence[Published],
    absent: Sequence[Published],
) -> None:
    """A line for each row, and for each published value that no row has; a column a figure."""
    varying = words.varying_fields(list(rows))
    names = [row_label(row, varying, rows) for row in rows]
    same = _said_alike(published)
    absent_names = [f"{published_label(one, same)} (not here)" for one in absent]
    others = list(dict.fromkeys(absent_names))
    lines = [*names, *others][:_MOST]
    place = {name: -number for number, name in enumerate(lines)}
    columns = canvas.subplots(1, len(figures), sharex=True, sharey=True, squeeze=False)[0]
    drawn: list[float] = []
    for number, (axes, figure) in enumerate(zip(columns, figures, strict=True)):
        held = [
            (row, place[name])
            for row, name in zip(rows, names, strict=True)
            if name in place and estimate_of(row, figure) is not None
        ]
        elsewhere = [
            (one.value / figure.scale[0], place[name])
            for one, name in zip(absent, absent_names, strict=True)
            if name in place and figure.is_of(one)
        ]
        drawn += _column(axes, figure, held, published, elsewhere, named=number == 0)
        if len(figures) > 1:
            axes.set_title(f"{figure.at:g} R+" if figure.at is not None else figure.words)
    columns[0].set_yticks([place[name] for name in lines], lines)
    columns[0].set_ylim(-len(lines) + 0.4, 0.6)
    first = figures[0]
    several = len(figures) > 1
    told = first.model_copy(update={"at": None}) if several else first
    columns[len(columns) // 2].set_xlabel(told.words)
    if is_wide(drawn):
        columns[0].set_xscale("log")
        columns[0].set_xlim(min(drawn) / 3, 2 * max(drawn))
    if (left := len(names) + len(others) - len(lines)) > 0:
        canvas.suptitle(f"{left} more are in the table below", size=9)
    legend(columns[0])


def _column(
    axes: Axes,
    figure: Figure,
    held: Sequence[tuple[SummaryRow, int]],
    published: Sequence[Published],
    elsewhere: Sequence[tuple[float, int]],
    *,
    named: bool,
) -> list[float]:
    """Draw a column, and return the values in it; `named`: the legend is made from it."""
    scale = figure.scale[0]
    found = [figure_of(row, figure) for row, _ in held]
    ours = [one.mean / scale for one in found]
    axes.barh(
        [at for _, at in held], ours, height=0.6, color=pen.COLORS[0],
        xerr=whiskers(found, scale), ecolor="#1c2128", capsize=2.5,
        label="measured here" if named else "",
    )  # fmt: skip
    theirs = [
        *(
            (one.value / scale, at)
            for row, at in held
            for one in published
            if figure.is_of(one) and one.matches(row.trial)
        ),
        *elsewhere,
    ]
    axes.plot(
        [x for x, _ in theirs], [y for _, y in theirs], "D", mfc="white", mec=pen.COLORS[1],
        mew=1.6, label="published" if named and theirs else "",
    )  # fmt: skip
    axes.grid(axis="y", visible=False)
    return [value for value in (*ours, *(x for x, _ in theirs)) if value > 0]


def _said_alike(published: Sequence[Published]) -> tuple[str, ...]:
    """The fields that all published values have alike, which need no word."""
    if not published:
        return ()
    first = published[0].match
    return tuple(
        name
        for name, value in first.items()
        if all(name in one.match and one.match[name] == value for one in published)
    )
