"""Bars of our values with the published values as diamonds.

Horizontal bars stand one above the other, and published values without a value of ours below them.
Several figures of a row, such as times at three loads, are columns side by side, as in the table of
the paper. Grouped bars have a group for each value on the axis, with a bar for each contender. A
second figure of the same rows, such as bits beside frames, has dots on a second axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from switchmark.model.campaign import Published
from switchmark.report import plot_style, words
from switchmark.reproduction.drawing import (
    SweptAxis,
    figure_of,
    in_order,
    is_wide,
    legend,
    published_label,
    row_label,
    whiskers,
)
from switchmark.reproduction.paper import Figure, Item
from switchmark.reproduction.ratio_test import estimate_of
from switchmark.results.rows import SummaryRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        [at for _, at in held], ours, height=0.6, color=plot_style.COLORS[0],
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
        [x for x, _ in theirs], [y for _, y in theirs], "D", mfc="white", mec=plot_style.COLORS[1],
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


_GROUP = 0.8  # of the distance between two groups


def grouped_bars(
    axes: Axes,
    item: Item,
    rows: Sequence[SummaryRow],
    published: Sequence[Published],
    absent: Sequence[Published],
) -> None:
    """Draw the rows over the item's key `x`; `across` is the figure of the dots, `absent` are
    published values of what was not measured here."""
    over, (scale, _) = SweptAxis.of(item), item.y.scale
    placed = [(over.place(getattr(row.trial, over.field)), row) for row in rows]
    held = [(at, row) for at, row in placed if at is not None]
    rows = [row for _, row in held]
    elsewhere = over.not_here(absent, scale)
    values = sorted({at for at, _ in held} | {x for one in elsewhere.values() for x, _ in one})
    varying = over.varying(rows)
    bars: dict[str, list[tuple[float, SummaryRow]]] = {}
    for at, row in held:
        bars.setdefault(over.label_of(row, varying, rows), []).append((at, row))
    width = _GROUP / len(bars)
    dots = axes.twinx() if item.across is not None else None
    theirs: list[tuple[float, float]] = []
    for number, (name, bar) in enumerate(sorted(bars.items(), key=lambda one: in_order(one[0]))):
        own = [row for _, row in bar]
        x = [values.index(at) + (number + 0.5) * width - _GROUP / 2 for at, _ in bar]
        found = [figure_of(row, item.y) for row in own]
        axes.bar(
            x, [one.mean / scale for one in found], width=0.9 * width, label=name,
            yerr=whiskers(found, scale), ecolor="#1c2128", capsize=2,
            color=plot_style.COLORS[number % len(plot_style.COLORS)],
            hatch=("", "//", "..", "xx")[number // len(plot_style.COLORS) % 4],
        )  # fmt: skip
        theirs += [
            (middle, one.value / scale)
            for middle, row in zip(x, own, strict=True)
            for one in published
            if item.y.is_of(one) and one.matches(row.trial)
        ]
        if dots is not None and item.across is not None:
            shown = [(a, estimate_of(row, item.across)) for a, row in zip(x, own, strict=True)]
            known = [(a, one.mean / item.across.scale[0]) for a, one in shown if one is not None]
            dots.plot(
                [a for a, _ in known], [b for _, b in known], ".", color="#1c2128", markersize=6,
                label="" if number else item.across.words,
            )  # fmt: skip
    if theirs:
        axes.plot(
            [a for a, _ in theirs], [b for _, b in theirs], "D", mfc="white", mec="#1c2128",
            mew=1.4, label="published",
        )  # fmt: skip
    for number, (name, points) in enumerate(elsewhere.items()):
        axes.plot(
            [values.index(x) for x, _ in points], [y for _, y in points], mfc="white", linestyle="",
            color=plot_style.MUTED, label=name,
            marker=plot_style.MARKERS[number % len(plot_style.MARKERS)],
        )  # fmt: skip
    axes.set_xticks(range(len(values)), [over.label(one) for one in values])
    axes.grid(axis="x", visible=False)
    ours = [figure_of(row, item.y).mean / scale for row in rows]
    away = [y for one in elsewhere.values() for _, y in one]
    if is_wide([*ours, *(y for _, y in theirs), *away]):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(over.title)
    axes.set_ylabel(item.y.words)
    if dots is not None and item.across is not None:
        dots.set_ylim(bottom=0)
        dots.grid(visible=False)
        dots.set_ylabel(item.across.words)
    legend(axes)
