"""Grouped bars, as most papers draw what was swept: a group for each value on the axis, in it a bar
for each contender, and the published value a diamond in front of its bar. A second figure of the
same rows, such as the rate in bits beside that in frames, stands as dots on an axis of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from switchmark.model.campaign import Published
from switchmark.model.parameters import BY_NAME
from switchmark.report import pen, words
from switchmark.reproduction.drawn import (
    figure_of,
    half_interval,
    legend,
    published_label,
    row_label,
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
    assert item.x is not None, f"{item.name} has no key on its axis"
    key = BY_NAME[item.x]
    place = key.axis.place if key.axis is not None else float
    at = {row.trial.id: place(getattr(row.trial, key.field)) for row in rows}
    rows = [row for row in rows if at[row.trial.id] is not None]
    given = {n: one.match.get(key.field) for n, one in enumerate(absent)}
    elsewhere = {n: place(value) for n, value in given.items() if value is not None}
    values = sorted({one for one in (*at.values(), *elsewhere.values()) if one is not None})
    varying = [name for name in words.varying_fields(list(rows)) if name != key.field]
    sizes = rows if key.field != "packet_size_bytes" else ()
    names = sorted({row_label(row, varying, sizes) for row in rows})
    width = _GROUP / len(names)
    dots = axes.twinx() if item.across is not None else None
    theirs: list[tuple[float, float]] = []
    for number, name in enumerate(names):
        own = [row for row in rows if row_label(row, varying, sizes) == name]
        x = [
            values.index(at[row.trial.id]) + (number + 0.5) * width - _GROUP / 2  # type: ignore[arg-type]
            for row in own
        ]
        scale = item.y.scale[0]
        found = [figure_of(row, item.y) for row in own]
        axes.bar(
            x, [one.mean / scale for one in found], width=0.9 * width, label=name,
            yerr=[half_interval(one, scale) for one in found], ecolor="#1c2128", capsize=2,
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
            held = [(a, one.mean / item.across.scale[0]) for a, one in shown if one is not None]
            dots.plot(
                [a for a, _ in held], [b for _, b in held], ".", color="#1c2128", markersize=6,
                label="" if number else item.across.words,
            )  # fmt: skip
    if theirs:
        axes.plot(
            [a for a, _ in theirs], [b for _, b in theirs], "D", mfc="white", mec="#1c2128",
            mew=1.4, label="published",
        )  # fmt: skip
    lone = sorted({published_label(absent[n], key.field) for n in elsewhere})
    for number, name in enumerate(lone):
        held = [
            (values.index(x), absent[n].value / item.y.scale[0])
            for n, x in elsewhere.items()
            if x is not None and published_label(absent[n], key.field) == name
        ]
        axes.plot(
            [a for a, _ in held], [b for _, b in held], mfc="white", color=pen.MUTED, linestyle="",
            marker=pen.MARKERS[number % len(pen.MARKERS)],
            label=", ".join(filter(None, [name, "published, not here"])),
        )  # fmt: skip
    label = key.axis.label if key.axis is not None else "{:g}".format
    axes.set_xticks(range(len(values)), [label(one) for one in values])
    axes.grid(axis="x", visible=False)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(key.axis.title if key.axis is not None else item.x)
    axes.set_ylabel(item.y.words)
    if dots is not None and item.across is not None:
        dots.set_ylim(bottom=0)
        dots.grid(visible=False)
        dots.set_ylabel(item.across.words)
    legend(axes)
