"""Every trial as a dot: the spread of a contender's trials, and the state of the machine in each.

If a row has a single trial, the dots are its samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from switchmark.formatting import amount, number, scale_of
from switchmark.model.workload import BITS, REQUESTS
from switchmark.record import Record
from switchmark.report import answer_words, plot
from switchmark.report.axes import facets
from switchmark.report.figures import Drawing, Look, Panels
from switchmark.results.answer import MeasuredTrial, PointAnswer, RankedContender
from switchmark.results.blocks import observe
from switchmark.results.ranking import headline
from switchmark.results.rows import SummaryRow
from switchmark.statistics.states import State

_GOLDEN = 0.618034  # golden ratio, which spreads the dots of a row so that they do not overlap
_SPREAD = 0.13  # spread to each side, as a share of a row
_ROOM = 0.05
_UNUSED = "not used"
_SYMBOLS = {
    "": "circle",
    "fast": "circle",
    "slow": "diamond-open",
    "changed": "diamond-wide-open",
    _UNUSED: "x-thin-open",
}
_FEW_DOTS = 60


@dataclass(frozen=True, slots=True)
class Dot:
    """One trial, or one sample of a trial."""

    figure: float
    kind: str  # a key of `_SYMBOLS`: the state of the machine, or unused
    label: str


@dataclass(frozen=True, slots=True)
class Strip:
    """The dots of one contender."""

    contender: str
    remark: str
    dots: tuple[Dot, ...]
    low: float | None = None  # interval of the typical figure
    high: float | None = None
    typical: float | None = None


def distribution_panels(
    answers: Sequence[PointAnswer],
    rows: Sequence[SummaryRow],
    records: Iterable[Record],
    look: dict[str, Look],
) -> Panels:
    """Return the trials behind the comparison results; without a comparison, those behind the
    rows."""
    figures = [
        (point_answer.decides, _of_answer(point_answer, answers, look))
        for point_answer in answers
        if any(len(ranked.measured) > 1 for ranked in point_answer.ranking)
    ]
    if not figures:
        figures = [(True, point_answer) for point_answer in _of_rows(rows, records, look)]
    return Panels(
        "Spread of the trials",
        "Each dot is a trial, or a sample if there is only one trial. The vertical line is the "
        "median, and the thick line is its interval. The axis is logarithmic. Two groups of dots "
        "can be two states of the machine or of the switch, or the effect of other programs. A "
        "trial with the note `changed` began and ended in different states of the machine.",
        [figure for decides, figure in figures if decides],
        [figure for decides, figure in figures if not decides],
    )


def strip_figure(
    title: str, unit: str, strips: Sequence[Strip], look: Mapping[str, Look], note: str = ""
) -> Drawing:
    """Draw a row of dots for each contender on one logarithmic axis, without figures at or below 0.
    Raises ValueError if no figure is above 0."""
    scale, name = _scale(unit, [dot.figure for strip in strips for dot in strip.dots])
    traces: list[dict[str, Any]] = []
    ends = []
    for place, strip in enumerate(strips):
        color = look[strip.contender].color
        drawn = [dot for dot in strip.dots if dot.figure > 0]
        ends += [dot.figure / scale for dot in drawn]
        for kind, symbol in _SYMBOLS.items():
            dots = [(index, dot) for index, dot in enumerate(drawn) if dot.kind == kind]
            if dots:
                traces.append(_dots(place, dots, scale, symbol, color, strip))
        if strip.low and strip.high and strip.typical:
            traces += _interval(place, strip, scale, color)
    kinds = dict.fromkeys(dot.kind for strip in strips for dot in strip.dots if dot.kind)
    traces += [_legend(kind) for kind in kinds if len(kinds) > 1 or kind == _UNUSED]
    low, high = _span(ends)
    layout = {
        "xaxis": plot.log_axis(f"{name} (log)", low, high),
        "yaxis": plot.row_axis(len(strips)),
        "annotations": plot.row_names([(strip.contender, strip.remark) for strip in strips]),
        "legend": plot.LEGEND_ABOVE,
    }
    height_px = plot.rows_height(len(strips), legend=len(kinds) > 1)
    return Drawing(title, traces, layout, height_px, note)


def _of_answer(
    answer: PointAnswer, answers: Sequence[PointAnswer], look: Mapping[str, Look]
) -> Drawing:
    strips = [_strip(answer, one) for one in answer.ranking]
    name = answer_words.figure_name(answer)
    title = f"{name.capitalize()}, {answer_words.where(answer, answers)}"
    note = ""
    if answer.lines is not None:
        note = f"{answer_words.state_times(answer.lines).capitalize()}. "
    left = [f"{_trials(count)} ({why})" for why, count in answer.left_out.items()]
    note += f"Left out: {', '.join(left)}." if left else ""
    return strip_figure(title, answer.metric.unit, strips, look, note.strip())


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"


def _strip(answer: PointAnswer, ranked: RankedContender) -> Strip:
    interval = ""
    if ranked.low is not None and ranked.high is not None:
        scale, _ = _scale(answer.metric.unit, [ranked.typical])
        low, high = (number(end / scale) for end in (ranked.low, ranked.high))
        interval = f" ({low} to {high})"
    return Strip(
        ranked.contender,
        f"{answer_words.amount(answer, ranked)}{interval}, {_trials(ranked.trials)}",
        tuple(_dot(each, answer.metric.unit) for each in ranked.measured),
        ranked.low,
        ranked.high,
        ranked.typical,
    )


def _dot(trial: MeasuredTrial, unit: str) -> Dot:
    text = f"block {trial.block + 1}: {amount(trial.figure, unit)}"
    if trial.unused:
        return Dot(trial.figure, _UNUSED, f"{text}, {trial.unused}")
    if trial.state is State.CHANGED:
        text += ", the machine's state changed during it, so only its longest stretch counts"
    return Dot(trial.figure, "" if trial.state is State.ONLY else trial.state.value, text)


def _of_rows(
    rows: Sequence[SummaryRow], records: Iterable[Record], look: Mapping[str, Look]
) -> Iterator[Drawing]:
    """Yield the dots of each row: its repetitions, or the samples of a single repetition."""
    samples = {record.trial_id: observe(record).samples for record in records if record.throughput}
    for name, unit, rows_with_figure in (
        ("Throughput", "pps", [row for row in rows if row.throughput]),
        ("Goodput", BITS, [row for row in rows if row.transfer and row.transfer.unit == BITS]),
        (
            "Requests answered",
            REQUESTS,
            [row for row in rows if row.transfer and row.transfer.unit == REQUESTS],
        ),
        ("Median round trip", "ns", [row for row in rows if row.latency]),
    ):
        for title, members in facets(rows_with_figure, None):
            strips = [strip for row in members for strip in [_of_row(row, samples, unit)] if strip]
            if any(dot.figure > 0 for strip in strips for dot in strip.dots):
                yield strip_figure(f"{name}, {title}", unit, strips, look)


def _of_row(row: SummaryRow, samples: Mapping[str, Sequence[float]], unit: str) -> Strip | None:
    figure = headline(row)
    noun, values = "repetition", figure.values
    if len(values) == 1 and (inside := samples.get(row.trial_ids[0], ())):
        noun, values = "sample", tuple(inside)
    if len(values) < 2:
        return None
    dots = [
        Dot(value, "" if row.valid else _UNUSED, f"{noun} {n}: {amount(value, unit)}")
        for n, value in enumerate(values, start=1)
    ]
    ends = (figure.low, figure.high) if noun == "repetition" else (None, None)
    remark = f"{amount(figure.mean, unit)}, {len(values)} {noun}s"
    return Strip(row.contender, remark, tuple(dots), *ends, figure.mean)


def _dots(
    place: int,
    dots: Sequence[tuple[int, Dot]],
    scale: float,
    symbol: str,
    color: str,
    strip: Strip,
) -> plot.Trace:
    marker = {
        "color": color,
        "symbol": symbol,
        "size": 8 if len(strip.dots) <= _FEW_DOTS else 6,
        "opacity": 0.75,
        "line": {"width": 1.5 if symbol.endswith("open") else 0, "color": color},
    }
    return plot.scatter(
        "markers",
        plot.rounded((dot.figure for _, dot in dots), scale),
        [round(place + _SPREAD * (2 * (index * _GOLDEN % 1) - 1), 3) for index, _ in dots],
        hover_text=plot.hover(", %{text}", strip.contender),
        text=[dot.label for _, dot in dots],
        marker=marker,
    )


def _interval(place: int, strip: Strip, scale: float, color: str) -> list[plot.Trace]:
    assert strip.low and strip.high and strip.typical
    typical = strip.typical / scale
    ends = [max(strip.low / scale, typical / 100), min(strip.high / scale, typical * 100)]
    return [
        plot.scatter("lines", ends, [place, place], line={"color": color, "width": 4}),
        plot.scatter("lines", [typical] * 2, [place - 0.2, place + 0.2],
                     line={"color": "@ink", "width": 2}),
    ]  # fmt: skip


def _legend(kind: str) -> plot.Trace:
    outline = {"width": 1.5, "color": "@muted"}
    marker = {"color": "@muted", "symbol": _SYMBOLS[kind], "size": 9, "line": outline}
    return plot.scatter("markers", [None], [None], kind, marker=marker)


def _scale(unit: str, values: Sequence[float]) -> tuple[float, str]:
    highest = max(values, default=0.0)
    match unit:
        case "ns":
            return 1e3, "µs"
        case "pps" | "bit/s":
            return scale_of(highest, unit)
        case "ratio":
            return 0.01, "%"
    return 1.0, unit


def _span(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        raise ValueError("nothing above 0 to draw")
    low, high = math.log(min(values)), math.log(max(values))
    room = max(high - low, 0.1) * _ROOM
    return math.exp(low - room), math.exp(high + room)
