"""The table of an item: each measured figure beside the published figure of the same kind."""

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

    contender: str
    point: str
    figure: str
    measured: str
    published: str
    ratio: str
    marks: str

    @property
    def is_measured(self) -> bool:
        """True if it has a measured figure."""
        return self.measured not in (NOT_MEASURED, NOT_TAKEN)

    @property
    def is_valid(self) -> bool:
        """True if it has a valid measured figure."""
        return self.is_measured and not self.marks.startswith(NOT_VALID)


def lines_of(
    item: Item, rows: Sequence[SummaryRow], campaign: CampaignDefinition
) -> list[PaperLine]:
    """Return the table: the item's figures of every row, then other published figures of the
    campaign that match its rows, then published figures without a row."""
    done = [row for row in rows if row.finished]
    varying = words.varying_fields(list(done))
    published = [value for value in campaign.published if _concerns(value, item)]
    lines, used = [], set()
    for row in done:
        shown = [item.y, *item.more, *([item.across] if item.across else [])]
        for figure in shown:
            estimate = estimate_of(row, figure)
            equal = [value for value in published if figure.is_of(value)]
            equal = [value for value in equal if value.matches(row.trial)]
            used |= {id(value) for value in equal}
            if estimate is not None:
                lines.append(_line(row, varying, figure, estimate, equal[0] if equal else None))
        for value in published:
            if id(value) in used or not value.matches(row.trial):
                continue
            estimate = measured(row, value)
            if estimate is not None:
                used.add(id(value))
                lines.append(_line(row, varying, _figure_of(value), estimate, value))
    lines += [
        PaperLine(
            _switch(value), _point(value), value.words, _reason(value, done), _text(value), "", ""
        )
        for value in published
        if id(value) not in used
    ]
    return lines


def _concerns(value: Published, item: Item) -> bool:
    """Return True if a published figure belongs to the item, in bits or in packets."""
    return value.is_time == (item.y.unit == "us") and item.concerns(value)


def _figure_of(value: Published) -> Figure:
    return Figure(
        unit="us" if value.is_time else "bps" if value.unit == "bps" else "pps",
        statistic=value.of, layer=value.layer, path=value.path, at=value.at,
    )  # fmt: skip


def _line(
    row: SummaryRow,
    varying: list[str],
    figure: Figure,
    estimate: Estimate,
    published: Published | None,
) -> PaperLine:
    scale, unit = figure.scale
    spread = "" if estimate.low is None else f" ({words.from_to(estimate, scale)})"
    text = f"{number(estimate.mean / scale)} {unit}{spread}"
    name = figure.words.partition(" (")[0]
    point = words.point(dict(row.point), varying)
    if published is None:
        return PaperLine(row.contender, point, name, text, "", "", _marks(row))
    value = published.value
    ratio = f"{float(f'{estimate.mean / value:.2g}'):g}" if value else ""
    return PaperLine(row.contender, point, name, text, _text(published), ratio, _marks(row))


def _text(value: Published) -> str:
    """Return a published value with its note."""
    return value.text + (f" ({value.note})" if value.note else "")


def _reason(value: Published, done: Sequence[SummaryRow]) -> str:
    """Return why there is no measured figure: no such trial, or not this statistic."""
    return NOT_TAKEN if any(value.matches(row.trial) for row in done) else NOT_MEASURED


def _marks(row: SummaryRow) -> str:
    marks = ", ".join(row.marks)
    return marks if row.valid else f"{NOT_VALID}: {marks}"


def _switch(value: Published) -> str:
    return str(value.match.get("switch", ""))


def _point(published: Published) -> str:
    return ", ".join(
        words.field(name, value) for name, value in published.match.items() if name != "switch"
    )
