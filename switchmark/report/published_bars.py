"""Bars of what was measured, with the published value of the same kind as a mark on each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from switchmark.formatting import number
from switchmark.model.campaign import Published
from switchmark.report import plot, words
from switchmark.report.figures import Drawing, Look, Panels
from switchmark.results.published import published_beside
from switchmark.results.rows import SummaryRow

_SCALES = {"pps": (1e6, "Mpps"), "bps": (1e9, "Gbit/s"), "ns": (1e3, "µs"), "us": (1.0, "µs")}
_MOST = 20  # of one drawing
Beside = tuple[Published, SummaryRow, float]


def published_panels(
    rows: Sequence[SummaryRow], published: Sequence[Published], look: dict[str, Look]
) -> Panels:
    """A drawing for each kind of published figure that was measured here."""
    kinds: dict[tuple[str, str], list[Beside]] = defaultdict(list)
    for one, row, value in published_beside(rows, published):
        if row is not None and value is not None:
            kinds[one.words, _SCALES[one.unit][1]].append((one, row, value))
    return Panels(
        "Beside what was published",
        "Bars: measured here. Diamonds: published, of the same statistic, on the same layer, over "
        "the same way; on other machines.",
        [
            _bars(f"{words_}, {unit}", held[first : first + _MOST], look, unit)
            for (words_, unit), held in kinds.items()
            for first in range(0, len(held), _MOST)
        ],
    )


def _bars(title: str, held: Sequence[Beside], look: dict[str, Look], unit: str) -> Drawing:
    rows = [row for _, row, _ in held]
    varying = words.varying_fields(rows)
    ours = [value / _SCALES[one.unit][0] for one, _, value in held]
    theirs = [one.value / _SCALES[one.unit][0] for one, _, _ in held]
    names = []
    for row, here, there in zip(rows, ours, theirs, strict=True):
        where = words.point(dict(row.point), varying)
        remark = f"{number(here)} {unit}, published {number(there)}"
        names.append((", ".join(filter(None, [row.contender, where])), remark))
    color = {"color": [look[row.contender].color for row in rows]}
    said = f"%{{x:.4g}} {unit}"
    diamond = {"color": "@ink", "symbol": "diamond-open", "size": 11, "line": {"width": 2}}
    traces = [
        plot.bars([name for name, _ in names], ours, color, said, "measured here"),
        plot.scatter("markers", theirs, list(range(len(held))), "published",
                     plot.hover(f"%{{text}}: {said}"), marker=diamond,
                     text=[one.source for one, _, _ in held]),
    ]  # fmt: skip
    layout = {
        "xaxis": plot.axis(unit, range=[0, 1.05 * max([*ours, *theirs])]),
        "yaxis": plot.row_axis(len(held)),
        "annotations": plot.row_names(names),
        "legend": plot.LEGEND_ABOVE,
    }
    return Drawing(title, traces, layout, plot.rows_height(len(held), legend=True))
