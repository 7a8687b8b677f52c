"""Functions that several forms of an item's drawing share: rows, published values and labels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from switchmark.model.campaign import Published
from switchmark.model.parameter_table import BY_NAME
from switchmark.report import words
from switchmark.reproduction.paper import Figure, Item
from switchmark.reproduction.ratio_test import estimate_of
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDE = 30  # largest ratio of values on a linear axis
_LONG_NAME = 42  # two longer names in a legend do not fit side by side


def not_measured(
    item: Item, rows: Sequence[SummaryRow], published: Sequence[Published]
) -> list[Published]:
    """Return the published values of the item without a row, for example of other switches."""
    return [
        value
        for value in published
        if item.concerns(value) and not any(value.matches(row.trial) for row in rows)
    ]


def published_label(published: Published, without: Collection[str] = ()) -> str:
    """Return the label of a published value, without some fields: `bess, 64 B, both ways`."""
    others = [
        words.field(name, value)
        for name, value in published.match.items()
        if name != "switch" and name not in without
    ]
    return ", ".join(filter(None, [str(published.match.get("switch", "")), *others]))


@dataclass(frozen=True, slots=True)
class SweptAxis:
    """The axis of a drawing over a key: the positions and labels of values."""

    field: str
    place: Callable[[Any], float | None]
    label: Callable[[float], str]
    title: str
    log: bool

    @classmethod
    def of(cls, item: Item) -> SweptAxis:
        """Return the axis of the item's key `x`."""
        assert item.x is not None, f"{item.name} has no key on its axis"
        key = BY_NAME[item.x]
        if key.axis is None:
            return cls(key.field, float, "{:g}".format, item.x, log=True)
        return cls(key.field, key.axis.place, key.axis.label, key.axis.title, log=key.axis.log)

    def varying(self, rows: Sequence[SummaryRow]) -> list[str]:
        """Return the fields in which rows differ, without that of the axis."""
        return [name for name in words.varying_fields(list(rows)) if name != self.field]

    def label_of(self, row: SummaryRow, varying: Sequence[str], rows: Sequence[SummaryRow]) -> str:
        """Return the row's label without the value on the axis."""
        return row_label(row, varying, rows if self.field != "packet_size_bytes" else ())

    def not_here(
        self, absent: Sequence[Published], scale: float
    ) -> dict[str, list[tuple[float, float]]]:
        """Return published values without a row by label, as points of position and value."""
        points_of: dict[str, list[tuple[float, float]]] = {}
        for published in absent:
            value: Any = published.match.get(self.field)
            at = None if value is None else self.place(value)
            if at is not None:
                label = published_label(published, (self.field,))
                name = ", ".join(filter(None, [label, "published, not here"]))
                points_of.setdefault(name, []).append((at, published.value / scale))
        return {name: sorted(points) for name, points in sorted(points_of.items())}


def row_label(row: SummaryRow, varying: Sequence[str], rows: Sequence[SummaryRow]) -> str:
    """Return the contender with the fields in which rows differ."""
    fields = dict(row.point)
    parts = [words.field(name, fields[name]) for name in varying]
    if len({other.trial.packet_size_bytes for other in rows}) > 1:
        parts.insert(0, f"{row.trial.packet_size_bytes} B")
    return ", ".join([row.contender, *parts])


def figure_of(row: SummaryRow, figure: Figure) -> Estimate:
    """Return the figure of a row that has it."""
    estimate = estimate_of(row, figure)
    assert estimate is not None, "only rows with the figure are drawn"
    return estimate


def whiskers(estimates: Iterable[Estimate], scale: float) -> list[list[float]]:
    """Return the lengths of the intervals below and above their figures, for Matplotlib. Whiskers
    end at 0, and are NaN without an interval."""
    ends = [
        (math.nan, math.nan)
        if e.low is None or e.high is None
        else (min(e.mean - e.low, e.mean) / scale, (e.high - e.mean) / scale)
        for e in estimates
    ]
    return [list(side) for side in zip(*ends, strict=True)]


def is_wide(values: Collection[float]) -> bool:
    """Return True if a linear axis would hide the least of the values."""
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) > _WIDE * min(positive)


def in_order(name: str) -> list[tuple[float, str]]:
    """Return the sort key of a label, in which numbers are sorted by their value."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(float(part), "") if n % 2 else (0.0, part) for n, part in enumerate(parts)]


def legend(axes: Axes) -> None:
    """Add the legend of the drawing below it, in two columns if the names are short."""
    canvas: Any = axes.figure
    names = [name for part in canvas.axes for name in part.get_legend_handles_labels()[1]]
    columns = 1 if max(map(len, names), default=0) > _LONG_NAME else 2
    canvas.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
