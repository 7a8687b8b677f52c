"""The comparison of two contenders over machines, as text and as a page: the ratio on each machine,
the mean ratio, and the prediction for another machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from switchmark.formatting import ratio as ratio_text
from switchmark.report import plot, words
from switchmark.report.figures import Drawing, Panels
from switchmark.report.page import Page, Section, Table, page_html
from switchmark.report.ratios import ratio_mark, the_same
from switchmark.results.over_machines import FigureOverMachines, OverMachines
from switchmark.statistics.comparison import Verdict
from switchmark.statistics.machines import MachineSpread
from switchmark.statistics.paired import METHOD

_ROOM = 0.06  # free space at the ends of the axis
_WIDEST = math.log(30)  # longest axis to each side, in logarithms


def verdict_of(figure: FigureOverMachines, prove: float) -> Verdict:
    """Return the verdict about B from the interval of the mean, as in `compare`."""
    over = figure.over
    if over is None:
        return Verdict.UNTESTABLE
    if 1 / (1 + prove) <= over.low and over.high <= 1 + prove:
        return Verdict.SAME
    if not over.excludes(1.0):
        return Verdict.UNCLEAR
    return Verdict.BETTER if (over.low > 1) == figure.metric.higher_is_better else Verdict.WORSE


def machine_words(spread: MachineSpread) -> str:
    """Return a sentence about the variation between machines."""
    high = f"{spread.high:.3g}" if spread.high < 100 else "more than 100"
    return (
        f"machines differ by a factor of {spread.factor:.3g} (standard deviation; "
        f"95 % {spread.low:.3g} to {high})"
    )


def machines_page(comparison: OverMachines, prove: float) -> str:
    """Return the page as HTML."""
    varying = words.varying_among(figure.point for figure in comparison.figures)
    sections = [_section(figure, comparison, prove, varying) for figure in comparison.figures]
    if comparison.remarks:
        sections.append(Section("Remarks", warned=comparison.remarks))
    sections.append(
        Section(
            "Method",
            (
                f"On each machine: {METHOD}. "
                "Over machines: a random effect, weighted by both errors (Paule and Mandel), "
                "intervals by Hartung, Knapp, Sidik and Jonkman, of the deviation between machines "
                "by the Q-profile, of a further machine by Nagashima, Noma and Furukawa. Each "
                "interval holds by itself with 95 %.",
            ),
        )
    )
    meta = f"{comparison.b} against {comparison.a}, on {', '.join(comparison.machines)}"
    title = f"{comparison.b} / {comparison.a} over {len(comparison.machines)} machines"
    return page_html(Page(title, "switchmark, over machines", meta, sections))


def machines_panels(comparisons: Sequence[OverMachines], prove: float) -> Panels:
    """Return the figures over machines for the report of one run: each contender against the
    first."""
    drawings = []
    for comparison in comparisons:
        varying = words.varying_among(figure.point for figure in comparison.figures)
        for figure in comparison.figures:
            if figure.over is not None:
                where = words.point(dict(figure.point), varying)
                title = f"{comparison.b} / {comparison.a}, {figure.metric.name}, {where}"
                note = " ".join(_sentences(figure, comparison, prove))
                drawings.append(
                    replace(_drawing(figure, comparison, prove, where), title=title, note=note)
                )
    return Panels(
        "Over machines",
        "The ratio on each machine from the pairs of its blocks, the mean over the machines, and "
        "the range that is expected on a further machine. Each interval alone has 95 % confidence.",
        drawings,
    )


def _section(
    figure: FigureOverMachines, comparison: OverMachines, prove: float, varying: Sequence[str]
) -> Section:
    where = words.point(dict(figure.point), varying)
    lines = list(_lines(figure))
    return Section(
        f"{figure.metric.name}, {where}",
        tuple(_sentences(figure, comparison, prove)),
        (_drawing(figure, comparison, prove, where),) if figure.over is not None else (),
        Table(("machine", "B / A", "95 % interval", "of"), lines, right=("B / A",)),
    )


def _sentences(figure: FigureOverMachines, comparison: OverMachines, prove: float) -> Iterator[str]:
    over = figure.over
    if over is None:
        yield "Fewer than two machines have a ratio: there is no mean over machines."
        return
    yield (
        f"{comparison.b} / {comparison.a} is {ratio_text(over.value)} "
        f"[{ratio_text(over.low)}, {ratio_text(over.high)}] "
        f"in the mean of {over.machines} machines: {verdict_of(figure, prove)}."
    )
    if over.spread is None or over.predicted_low is None or over.predicted_high is None:
        yield "Two machines do not show how far machines differ; measure on a third one."
        return
    yield f"{machine_words(over.spread).capitalize()}."
    yield (
        "On another machine of this kind, a ratio is expected between "
        f"{ratio_text(over.predicted_low)} and {ratio_text(over.predicted_high)}."
    )


def _lines(figure: FigureOverMachines) -> Iterator[tuple[str, str, str, str]]:
    for measured in figure.machines:
        ratio = measured.ratio
        value = ratio_text(ratio.value) if ratio else "-"
        interval = f"{ratio_text(ratio.low)} to {ratio_text(ratio.high)}" if ratio else "-"
        yield (measured.machine, value, interval, f"{measured.pairs} pairs")
    over = figure.over
    if over is None:
        return
    interval = f"{ratio_text(over.low)} to {ratio_text(over.high)}"
    yield ("mean", ratio_text(over.value), interval, f"{over.machines} machines")
    if over.predicted_low is not None and over.predicted_high is not None:
        predicted = f"{ratio_text(over.predicted_low)} to {ratio_text(over.predicted_high)}"
        yield ("a further machine", "", predicted, "")


def _drawing(
    figure: FigureOverMachines, comparison: OverMachines, prove: float, where: str
) -> Drawing:
    over = figure.over
    assert over is not None
    rows = [
        (
            measured.machine,
            measured.ratio.value,
            measured.ratio.low,
            measured.ratio.high,
            "circle",
            "@series0",
        )
        for measured in figure.machines
        if measured.ratio is not None
    ]
    rows.append(("mean of machines", over.value, over.low, over.high, "diamond", "@ink"))
    if over.predicted_low is not None and over.predicted_high is not None:
        predicted = (over.predicted_low, over.predicted_high)
        rows.append(("a further machine", over.value, *predicted, "line-ns-open", "@muted"))
    ends = [math.log(end) for _, _, low, high, _, _ in rows for end in (low, high)]
    ends += [-math.log1p(prove), math.log1p(prove)]
    low, high = max(min(ends), -_WIDEST), min(max(ends), _WIDEST)
    room = _ROOM * (high - low)
    traces, names = [], []
    for place, (name, value, below, above, symbol, color) in enumerate(rows):
        marker = {"color": color, "symbol": symbol, "size": 11}
        remark = f"{ratio_text(value)} [{ratio_text(below)}, {ratio_text(above)}]"
        hover_text = plot.hover(f": {remark}", name)
        traces.append(ratio_mark(place, value, (below, above), marker, hover_text))
        names.append((name, remark))
    title = f"{comparison.b} / {comparison.a} (log)"[:60]
    layout = {
        "xaxis": plot.log_axis(title, math.exp(low - room), math.exp(high + room)),
        "yaxis": plot.row_axis(len(rows)),
        "annotations": plot.row_names(names),
        "shapes": the_same(prove),
    }
    note = f"Band: within {prove * 100:.3g} %, the same."
    return Drawing(
        f"{figure.metric.name}, {where}", traces, layout, plot.rows_height(len(rows)), note
    )
