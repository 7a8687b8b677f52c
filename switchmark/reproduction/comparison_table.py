"""An item's table: each of our figures beside the published one of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.formatting import number
from switchmark.model.campaign import CampaignDefinition, Published
from switchmark.report import words
from switchmark.reproduction.paper import Figure, Item
from switchmark.reproduction.ratio_test import estimate_of
from switchmark.results.published import measured
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate

NOT_VALID = "NOT VALID"
NOT_MEASURED = "not measured here"
NOT_TAKEN = "not taken here"


@dataclass(frozen=True, slots=True)
class PaperLine:
    """One line of the table."""

    who: str
    point: str
    what: str
    ours: str
    theirs: str
    ratio: str
    marks: str

    @property
    def is_measured(self) -> bool:
        """Whether it has a figure of ours."""
        return self.ours not in (NOT_MEASURED, NOT_TAKEN)

    @property
    def is_valid(self) -> bool:
        """Whether it has a figure of ours that is valid."""
        return self.is_measured and not self.marks.startswith(NOT_VALID)


def lines_of(
    item: Item, rows: Sequence[SummaryRow], campaign: CampaignDefinition
) -> list[PaperLine]:
    """The table: what the item draws of every row, then other published figures of the campaign
    that match this item's rows, then those that match none."""
    done = [row for row in rows if row.finished]
    varying = words.varying_fields(list(done))
    published = [one for one in campaign.published if _concerns(one, item)]
    lines, told = [], set()
    for row in done:
        shown = [item.y, *item.more, *([item.across] if item.across else [])]
        for figure in shown:
            found = estimate_of(row, figure)
            held = [one for one in published if figure.is_of(one) and one.matches(row.trial)]
            told |= {id(one) for one in held}
            if found is not None:
                lines.append(_line(row, varying, figure, found, held[0] if held else None))
        for one in published:
            if id(one) in told or not one.matches(row.trial):
                continue
            found = measured(row, one)
            if found is not None:
                told.add(id(one))
                figure = _figure_of(one)
                lines.append(_line(row, varying, figure, found, one))
    lines += [
        PaperLine(_who(one), _point(one), one.words, _lacking(one, done), _told(one), "", "")
        for one in published
        if id(one) not in told
    ]
    return lines


def _concerns(one: Published, item: Item) -> bool:
    """Whether a figure of the campaign belongs to the item: bits and packets of one figure do."""
    return one.is_time == (item.y.unit == "us") and item.concerns(one)


def _figure_of(one: Published) -> Figure:
    return Figure(
        unit="us" if one.is_time else "bps" if one.unit == "bps" else "pps",
        statistic=one.of, layer=one.layer, path=one.path, at=one.at,
    )  # fmt: skip


def _line(
    row: SummaryRow, varying: list[str], figure: Figure, found: Estimate, held: Published | None
) -> PaperLine:
    scale, unit = figure.scale
    spread = "" if found.low is None else f" ({words.from_to(found, scale)})"
    ours = f"{number(found.mean / scale)} {unit}{spread}"
    what = figure.words.partition(" (")[0]
    point = words.point(dict(row.point), varying)
    if held is None:
        return PaperLine(row.contender, point, what, ours, "", "", _marks(row))
    ratio = f"{float(f'{found.mean / held.value:.2g}'):g}" if held.value else ""
    return PaperLine(row.contender, point, what, ours, _told(held), ratio, _marks(row))


def _told(one: Published) -> str:
    """A published value with what is to be said of it."""
    return one.text + (f" ({one.note})" if one.note else "")


def _lacking(one: Published, done: Sequence[SummaryRow]) -> str:
    """Why no figure of ours stands beside: nothing of it was measured, or not this statistic."""
    return NOT_TAKEN if any(one.matches(row.trial) for row in done) else NOT_MEASURED


def _marks(row: SummaryRow) -> str:
    marks = ", ".join(row.marks)
    return marks if row.valid else f"{NOT_VALID}: {marks}"


def _who(one: Published) -> str:
    return str(one.match.get("switch", ""))


def _point(one: Published) -> str:
    return ", ".join(
        words.field(name, value) for name, value in one.match.items() if name != "switch"
    )
