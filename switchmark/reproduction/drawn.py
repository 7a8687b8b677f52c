"""What the forms of an item's drawing share: which rows and published values it has, and what they
are called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from switchmark.model.campaign import Published
from switchmark.model.parameter import Known
from switchmark.model.parameters import BY_NAME
from switchmark.report import words
from switchmark.reproduction.paper import Figure, Item
from switchmark.reproduction.tried import estimate_of
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def not_measured(
    item: Item, rows: Sequence[SummaryRow], published: Sequence[Published]
) -> list[Published]:
    """The published values of the item that no row has: of switches that are not here, say."""
    wanted = {BY_NAME[name].field: (BY_NAME[name], text) for name, text in item.where.items()}
    return [
        one
        for one in published
        if not any(one.matches(row.trial) for row in rows)
        and all(
            field not in one.match or one.match[field] in key.parse(text, Known(scenarios=None))
            for field, (key, text) in wanted.items()
        )
    ]


def published_label(one: Published, without: str = "") -> str:
    """What a published value is of, in words: `bess, 64 B, both ways`."""
    others = [
        words.field(name, value)
        for name, value in one.match.items()
        if name not in ("switch", without)
    ]
    return ", ".join(filter(None, [str(one.match.get("switch", "")), *others]))


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


def half_interval(found: Estimate, scale: float) -> float:
    """Half an interval; one that is wider than the figure is cut, and without an interval nothing
    is drawn."""
    return math.nan if found.low is None else min(found.mean - found.low, found.mean) / scale


def legend(axes: Axes) -> None:
    """Set the legend of the whole drawing below it."""
    canvas: Any = axes.figure
    canvas.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
