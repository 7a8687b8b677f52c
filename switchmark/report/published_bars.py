"""Bars of measured values, with the published value of the same kind as a mark on each."""

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
_MOST = 20  # bars in a drawing
Beside = tuple[Published, SummaryRow, float]


def published_panels(
    rows: Sequence[SummaryRow], published: Sequence[Published], look: dict[str, Look]
) -> Panels:
    """Return a drawing for each kind of published figure that was measured."""
    kinds: dict[tuple[str, str], list[Beside]] = defaultdict(list)
    for figure, row, value in published_beside(rows, published):
        if row is not None and value is not None:
            kinds[figure.words, _SCALES[figure.unit][1]].append((figure, row, value))
    return Panels(
        "Measured and published values",
        "Bars are measured here. Diamonds are published: the same statistic, layer and path, but "
        "on other machines.",
        [
            _bars(f"{words_}, {unit}", pairs[first : first + _MOST], look, unit)
            for (words_, unit), pairs in kinds.items()
            for first in range(0, len(pairs), _MOST)
        ],
    )


def _bars(title: str, pairs: Sequence[Beside], look: dict[str, Look], unit: str) -> Drawing:
    rows = [row for _, row, _ in pairs]
    varying = words.varying_fields(rows)
    measured = [value / _SCALES[figure.unit][0] for figure, _, value in pairs]
    published = [figure.value / _SCALES[figure.unit][0] for figure, _, _ in pairs]
    names = []
    for row, here, published_value in zip(rows, measured, published, strict=True):
        where = words.point(dict(row.point), varying)
        remark = f"{number(here)} {unit}, published {number(published_value)}"
        names.append((", ".join(filter(None, [row.contender, where])), remark))
    color = {"color": [look[row.contender].color for row in rows]}
    hover_text = f"%{{x:.4g}} {unit}"
    diamond = {"color": "@ink", "symbol": "diamond-open", "size": 11, "line": {"width": 2}}
    traces = [
        plot.bars([name for name, _ in names], measured, color, hover_text, "measured here"),
        plot.scatter("markers", published, list(range(len(pairs))), "published",
                     plot.hover(f"%{{text}}: {hover_text}"), marker=diamond,
                     text=[figure.source for figure, _, _ in pairs]),
    ]  # fmt: skip
    layout = {
        "xaxis": plot.axis(unit, range=[0, 1.05 * max([*measured, *published])]),
        "yaxis": plot.row_axis(len(pairs)),
        "annotations": plot.row_names(names),
        "legend": plot.LEGEND_ABOVE,
    }
    return Drawing(title, traces, layout, plot.rows_height(len(pairs), legend=True))
