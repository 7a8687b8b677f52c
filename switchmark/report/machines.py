"""Two contenders over machines, in words and as a page: the ratio on each machine, their mean, and
the prediction for one more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from switchmark.report import plot, words
from switchmark.report.figures import Drawing, Panels
from switchmark.report.page import Page, Section, Table, page_html
from switchmark.report.ratios import ratio_mark, the_same
from switchmark.results.over_machines import FigureOverMachines, OverMachines
from switchmark.statistics.comparison import Verdict
from switchmark.statistics.machines import MachineSpread
from switchmark.statistics.paired import METHOD

_ROOM = 0.06  # of the axis, beyond what is drawn
_WIDEST = math.log(30)  # of the axis to either side: beyond, an interval says "anything"


def verdict_of(one: FigureOverMachines, prove: float) -> Verdict:
    """The conclusion from the mean's interval about B, in the words of `compare`."""
    over = one.over
    if over is None:
        return Verdict.UNTESTABLE
    if 1 / (1 + prove) <= over.low and over.high <= 1 + prove:
        return Verdict.SAME
    if not over.excludes(1.0):
        return Verdict.UNCLEAR
    return Verdict.BETTER if (over.low > 1) == one.metric.higher_is_better else Verdict.WORSE


def machine_words(spread: MachineSpread) -> str:
    """How far machines differ, in a sentence."""
    high = f"{spread.high:.3g}" if spread.high < 100 else "more than 100"
    return (
        f"machines differ by a factor of {spread.factor:.3g} (standard deviation; "
        f"95 % {spread.low:.3g} to {high})"
    )


def machines_page(found: OverMachines, prove: float) -> str:
    """The page as HTML."""
    varying = words.varying_among(one.point for one in found.figures)
    sections = [_section(one, found, prove, varying) for one in found.figures]
    if found.remarks:
        sections.append(Section("Remarks", warned=found.remarks))
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
    meta = f"{found.b} against {found.a}, on {', '.join(found.machines)}"
    title = f"{found.b} / {found.a} over {len(found.machines)} machines"
    return page_html(Page(title, "switchmark, over machines", meta, sections))


def machines_panels(found: Sequence[OverMachines], prove: float) -> Panels:
    """The figures over machines in one run's report: each contender against the first one."""
    drawings = []
    for each in found:
        varying = words.varying_among(one.point for one in each.figures)
        for one in each.figures:
            if one.over is not None:
                where = words.point(dict(one.point), varying)
                title = f"{each.b} / {each.a}, {one.metric.name}, {where}"
                note = " ".join(_sentences(one, each, prove))
                drawings.append(replace(_drawing(one, each, prove, where), title=title, note=note))
    return Panels(
        "Over machines",
        "The ratio on each machine from the pairs of its blocks, the mean over the machines, and "
        "the range that is expected on a further machine. Each interval alone has 95 % confidence.",
        drawings,
    )


def _section(
    one: FigureOverMachines, found: OverMachines, prove: float, varying: Sequence[str]
) -> Section:
    where = words.point(dict(one.point), varying)
    lines = list(_lines(one))
    return Section(
        f"{one.metric.name}, {where}",
        tuple(_sentences(one, found, prove)),
        (_drawing(one, found, prove, where),) if one.over is not None else (),
        Table(("machine", "B / A", "95 % interval", "of"), lines, right=("B / A",)),
    )


def _sentences(one: FigureOverMachines, found: OverMachines, prove: float) -> Iterator[str]:
    over = one.over
    if over is None:
        yield "Fewer than two machines have a ratio: nothing can be said over machines."
        return
    yield (
        f"{found.b} / {found.a} is {over.value:.3f} [{over.low:.3f}, {over.high:.3f}] in the mean "
        f"of {over.machines} machines: {verdict_of(one, prove)}."
    )
    if over.spread is None or over.predicted_low is None or over.predicted_high is None:
        yield "Two machines cannot tell how far machines differ: measure on a third."
        return
    yield f"{machine_words(over.spread).capitalize()}."
    yield (
        "On a machine of the kind that was not measured, the ratio is to be expected between "
        f"{over.predicted_low:.3f} and {over.predicted_high:.3f}."
    )


def _lines(one: FigureOverMachines) -> Iterator[tuple[str, str, str, str]]:
    for each in one.machines:
        ratio = each.ratio
        value = f"{ratio.value:.3f}" if ratio else "-"
        interval = f"{ratio.low:.3f} to {ratio.high:.3f}" if ratio else "-"
        yield (each.machine, value, interval, f"{each.pairs} pairs")
    over = one.over
    if over is None:
        return
    interval = f"{over.low:.3f} to {over.high:.3f}"
    yield ("mean", f"{over.value:.3f}", interval, f"{over.machines} machines")
    if over.predicted_low is not None and over.predicted_high is not None:
        predicted = f"{over.predicted_low:.3f} to {over.predicted_high:.3f}"
        yield ("a further machine", "", predicted, "")


def _drawing(one: FigureOverMachines, found: OverMachines, prove: float, where: str) -> Drawing:
    over = one.over
    assert over is not None
    rows = [
        (each.machine, each.ratio.value, each.ratio.low, each.ratio.high, "circle", "@series0")
        for each in one.machines
        if each.ratio is not None
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
        remark = f"{value:.3f} [{below:.3f}, {above:.3f}]"
        said = plot.hover(f": {remark}", name)
        traces.append(ratio_mark(place, value, (below, above), marker, said))
        names.append((name, remark))
    title = f"{found.b} / {found.a} (log)"[:60]
    layout = {
        "xaxis": plot.log_axis(title, math.exp(low - room), math.exp(high + room)),
        "yaxis": plot.row_axis(len(rows)),
        "annotations": plot.row_names(names),
        "shapes": the_same(prove),
    }
    note = f"Band: within {prove * 100:.3g} %, the same."
    return Drawing(f"{one.metric.name}, {where}", traces, layout, plot.rows_height(len(rows)), note)
