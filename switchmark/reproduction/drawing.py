"""What the forms of an item's drawing share: which rows and published values it has, and what they
are called."""

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

_WIDE = 30  # times the least value: beyond, axes are logarithmic
_LONG_NAME = 42  # letters, of which two do not fit beside each other


def not_measured(
    item: Item, rows: Sequence[SummaryRow], published: Sequence[Published]
) -> list[Published]:
    """The published values of the item that no row has: of switches that are not here, say."""
    return [
        one
        for one in published
        if item.concerns(one) and not any(one.matches(row.trial) for row in rows)
    ]


def published_label(one: Published, without: Collection[str] = ()) -> str:
    """What a published value is of, in words: `bess, 64 B, both ways`, without some fields."""
    others = [
        words.field(name, value)
        for name, value in one.match.items()
        if name != "switch" and name not in without
    ]
    return ", ".join(filter(None, [str(one.match.get("switch", "")), *others]))


@dataclass(frozen=True, slots=True)
class SweptAxis:
    """The axis of a form that is drawn over a key: where a value lies, and what it is called."""

    field: str
    place: Callable[[Any], float | None]
    label: Callable[[float], str]
    title: str
    log: bool

    @classmethod
    def of(cls, item: Item) -> SweptAxis:
        """The axis of the item's key `x`."""
        assert item.x is not None, f"{item.name} has no key on its axis"
        key = BY_NAME[item.x]
        if key.axis is None:
            return cls(key.field, float, "{:g}".format, item.x, log=True)
        return cls(key.field, key.axis.place, key.axis.label, key.axis.title, log=key.axis.log)

    def varying(self, rows: Sequence[SummaryRow]) -> list[str]:
        """The fields in which rows differ, without that of the axis."""
        return [name for name in words.varying_fields(list(rows)) if name != self.field]

    def label_of(self, row: SummaryRow, varying: Sequence[str], rows: Sequence[SummaryRow]) -> str:
        """The row's label, in which the axis has no part."""
        return row_label(row, varying, rows if self.field != "packet_size_bytes" else ())

    def not_here(
        self, absent: Sequence[Published], scale: float
    ) -> dict[str, list[tuple[float, float]]]:
        """Published values that no row has, by what they are of: where they lie, and how much."""
        found: dict[str, list[tuple[float, float]]] = {}
        for one in absent:
            value: Any = one.match.get(self.field)
            at = None if value is None else self.place(value)
            if at is not None:
                name = ", ".join(
                    filter(None, [published_label(one, (self.field,)), "published, not here"])
                )
                found.setdefault(name, []).append((at, one.value / scale))
        return {name: sorted(points) for name, points in sorted(found.items())}


def row_label(row: SummaryRow, varying: Sequence[str], rows: Sequence[SummaryRow]) -> str:
    """The contender, and the fields in which rows differ."""
    fields = dict(row.point)
    parts = [words.field(name, fields[name]) for name in varying]
    if len({one.trial.packet_size_bytes for one in rows}) > 1:
        parts.insert(0, f"{row.trial.packet_size_bytes} B")
    return ", ".join([row.contender, *parts])


def figure_of(row: SummaryRow, figure: Figure) -> Estimate:
    """The figure of a row that has it."""
    found = estimate_of(row, figure)
    assert found is not None, "only rows with the figure are drawn"
    return found


def whiskers(found: Iterable[Estimate], scale: float) -> list[list[float]]:
    """How far each interval reaches below and above its figure, as Matplotlib takes it; none is
    drawn below 0, and nothing without an interval."""
    ends = [
        (math.nan, math.nan)
        if one.low is None or one.high is None
        else (min(one.mean - one.low, one.mean) / scale, (one.high - one.mean) / scale)
        for one in found
    ]
    return [list(side) for side in zip(*ends, strict=True)]


def is_wide(values: Collection[float]) -> bool:
    """Whether values lie so far apart that a linear axis would hide the least of them."""
    held = [value for value in values if value > 0]
    return bool(held) and max(held) > _WIDE * min(held)


def in_order(name: str) -> list[tuple[float, str]]:
    """The key by which labels are sorted: numbers in them by their size."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(float(one), "") if n % 2 else (0.0, one) for n, one in enumerate(parts)]


def legend(axes: Axes) -> None:
    """Set the legend of the whole drawing below it, in two columns where the names are short."""
    canvas: Any = axes.figure
    names = [name for one in canvas.axes for name in one.get_legend_handles_labels()[1]]
    columns = 1 if max(map(len, names), default=0) > _LONG_NAME else 2
    canvas.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
