"""Grouped bars, as most papers draw what was swept: a group for each value on the axis, in it a bar
for each contender, and the published value a diamond in front of its bar. A second figure of the
same rows, such as the rate in bits beside that in frames, stands as dots on an axis of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from switchmark.model.campaign import Published
from switchmark.report import pen
from switchmark.reproduction.drawn import (
    SweptAxis,
    figure_of,
    in_order,
    is_wide,
    legend,
    whiskers,
)
from switchmark.reproduction.paper import Item
from switchmark.reproduction.tried import estimate_of
from switchmark.results.rows import SummaryRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
            color=pen.COLORS[number % len(pen.COLORS)],
            hatch=("", "//", "..", "xx")[number // len(pen.COLORS) % 4],
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
            color=pen.MUTED, marker=pen.MARKERS[number % len(pen.MARKERS)], label=name,
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
