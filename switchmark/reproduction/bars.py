"""Bars of measured values, with the published values as diamonds.

Horizontal bars are in lines, with lines below them for published values without a measured value.
Several figures of a row, for example times at three loads, are columns side by side, as in the
table of the paper. Grouped bars have a group for each value on the axis, with a bar for each
contender. A second figure of the same rows, for example bits beside frames, has dots on a second
axis.
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

_MOST = 100  # largest number of lines; the table below the drawing has the others
_ROOMY = 30


def height_in(lines: int) -> float:
    """Return the height of a drawing with this number of lines, in inches."""
    shown = min(lines, _MOST)
    return 1.3 + (0.3 if shown <= _ROOMY else 0.2) * shown


def draw_bars(
    canvas: Canvas,
    figures: Sequence[Figure],
    rows: Sequence[SummaryRow],
    published: Sequence[Published],
    absent: Sequence[Published],
) -> None:
    """Draw a line for each row and for each published value without a row, and a column for each
    figure."""
    varying = words.varying_fields(list(rows))
    names = [row_label(row, varying, rows) for row in rows]
    same = _common_fields(published)
    absent_names = [f"{published_label(value, same)} (not here)" for value in absent]
    others = list(dict.fromkeys(absent_names))
    lines = [*names, *others][:_MOST]
    place = {name: -number for number, name in enumerate(lines)}
    columns = canvas.subplots(1, len(figures), sharex=True, sharey=True, squeeze=False)[0]
    drawn: list[float] = []
    for number, (axes, figure) in enumerate(zip(columns, figures, strict=True)):
        with_figure = [
            (row, place[name])
            for row, name in zip(rows, names, strict=True)
            if name in place and estimate_of(row, figure) is not None
        ]
        elsewhere = [
            (value.value / figure.scale[0], place[name])
            for value, name in zip(absent, absent_names, strict=True)
            if name in place and figure.is_of(value)
        ]
        drawn += _column(axes, figure, with_figure, published, elsewhere, named=number == 0)
        if len(figures) > 1:
            axes.set_title(f"{figure.at:g} R+" if figure.at is not None else figure.words)
    columns[0].set_yticks([place[name] for name in lines], lines)
    columns[0].set_ylim(-len(lines) + 0.4, 0.6)
    first = figures[0]
    several = len(figures) > 1
    shown = first.model_copy(update={"at": None}) if several else first
    columns[len(columns) // 2].set_xlabel(shown.words)
    if is_wide(drawn):
        columns[0].set_xscale("log")
        columns[0].set_xlim(min(drawn) / 3, 2 * max(drawn))
    if (left := len(names) + len(others) - len(lines)) > 0:
        canvas.suptitle(f"{left} more are in the table below", size=9)
    legend(columns[0])


def _column(
    axes: Axes,
    figure: Figure,
    placed: Sequence[tuple[SummaryRow, int]],
    published: Sequence[Published],
    elsewhere: Sequence[tuple[float, int]],
    *,
    named: bool,
) -> list[float]:
    """Draw a column, and return its values. The legend uses the column with `named`."""
    scale = figure.scale[0]
    estimates = [figure_of(row, figure) for row, _ in placed]
    measured = [estimate.mean / scale for estimate in estimates]
    axes.barh(
        [at for _, at in placed], measured, height=0.6, color=plot_style.COLORS[0],
        xerr=whiskers(estimates, scale), ecolor="#1c2128", capsize=2.5,
        label="measured here" if named else "",
    )  # fmt: skip
    points = [
        *(
            (value.value / scale, at)
            for row, at in placed
            for value in published
            if figure.is_of(value) and value.matches(row.trial)
        ),
        *elsewhere,
    ]
    axes.plot(
        [x for x, _ in points], [y for _, y in points], "D", mfc="white", mec=plot_style.COLORS[1],
        mew=1.6, label="published" if named and points else "",
    )  # fmt: skip
    axes.grid(axis="y", visible=False)
    return [value for value in (*measured, *(x for x, _ in points)) if value > 0]


def _common_fields(published: Sequence[Published]) -> tuple[str, ...]:
    """Return the fields with equal values in all published values, which labels leave out."""
    if not published:
        return ()
    first = published[0].match
    return tuple(
        name
        for name, value in first.items()
        if all(name in other.match and other.match[name] == value for other in published)
    )


_GROUP = 0.8  # width of a group, as a share of the distance between groups


def grouped_bars(
    axes: Axes,
    item: Item,
    rows: Sequence[SummaryRow],
    published: Sequence[Published],
    absent: Sequence[Published],
) -> None:
    """Draw the rows over the item's key `x`. The item's `across` is the figure of the dots, and
    `absent` are published values that were not measured here."""
    over, (scale, _) = SweptAxis.of(item), item.y.scale
    placed = [(over.place(getattr(row.trial, over.field)), row) for row in rows]
    on_axis = [(at, row) for at, row in placed if at is not None]
    rows = [row for _, row in on_axis]
    elsewhere = over.not_here(absent, scale)
    values = sorted({at for at, _ in on_axis} | {x for xy in elsewhere.values() for x, _ in xy})
    varying = over.varying(rows)
    bars: dict[str, list[tuple[float, SummaryRow]]] = {}
    for at, row in on_axis:
        bars.setdefault(over.label_of(row, varying, rows), []).append((at, row))
    width = _GROUP / len(bars)
    dots = axes.twinx() if item.across is not None else None
    diamonds: list[tuple[float, float]] = []
    for number, (name, bar) in enumerate(sorted(bars.items(), key=lambda item: in_order(item[0]))):
        bar_rows = [row for _, row in bar]
        x = [values.index(at) + (number + 0.5) * width - _GROUP / 2 for at, _ in bar]
        estimates = [figure_of(row, item.y) for row in bar_rows]
        axes.bar(
            x, [estimate.mean / scale for estimate in estimates], width=0.9 * width, label=name,
            yerr=whiskers(estimates, scale), ecolor="#1c2128", capsize=2,
            color=plot_style.COLORS[number % len(plot_style.COLORS)],
            hatch=("", "//", "..", "xx")[number // len(plot_style.COLORS) % 4],
        )  # fmt: skip
        diamonds += [
            (middle, value.value / scale)
            for middle, row in zip(x, bar_rows, strict=True)
            for value in published
            if item.y.is_of(value) and value.matches(row.trial)
        ]
        if dots is not None and item.across is not None:
            shown = [(a, estimate_of(row, item.across)) for a, row in zip(x, bar_rows, strict=True)]
            known = [(a, e.mean / item.across.scale[0]) for a, e in shown if e is not None]
            dots.plot(
                [a for a, _ in known], [b for _, b in known], ".", color="#1c2128", markersize=6,
                label="" if number else item.across.words,
            )  # fmt: skip
    if diamonds:
        axes.plot(
            [a for a, _ in diamonds], [b for _, b in diamonds], "D", mfc="white", mec="#1c2128",
            mew=1.4, label="published",
        )  # fmt: skip
    for number, (name, points) in enumerate(elsewhere.items()):
        axes.plot(
            [values.index(x) for x, _ in points], [y for _, y in points], mfc="white", linestyle="",
            color=plot_style.MUTED, label=name,
            marker=plot_style.MARKERS[number % len(plot_style.MARKERS)],
        )  # fmt: skip
    axes.set_xticks(range(len(values)), [over.label(value) for value in values])
    axes.grid(axis="x", visible=False)
    measured = [figure_of(row, item.y).mean / scale for row in rows]
    away = [y for points in elsewhere.values() for _, y in points]
    if is_wide([*measured, *(y for _, y in diamonds), *away]):
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
