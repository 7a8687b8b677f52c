"""Plots of the comparison results: the ratio of each contender to the best one, with its interval.

Each contender has a row, or one for each state of the machine if the result depends on the state.
The axis is logarithmic, so that half and double are at the same distance from 1, the leader.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from switchmark.report import answer_words, plot
from switchmark.report.figures import Drawing, Look, Panels
from switchmark.results.answer import LeadRatio, LeadVerdict, PointAnswer
from switchmark.statistics.states import State

_ROOM = 0.06  # share of the axis beyond the drawn values
_LEAST_SPAN = math.log(1.3)


@dataclass(frozen=True, slots=True)
class _RatioRow:
    """The row of a contender, or of the leader."""

    contender: str
    remark: str
    ratio: LeadRatio | None = None  # None for the leader, and with too few pairs
    is_leader: bool = False


def ratio_panels(answers: Sequence[PointAnswer], look: dict[str, Look]) -> Panels:
    """Return the plots of all points; those of figures that do not decide are folded."""
    drawn = [one for one in answers if any(lead.ratios for lead in one.leads)]
    figures = [(one.decides, _figure(one, answers, look)) for one in drawn]
    return Panels(
        "Lead of the best contender",
        "The factor by which the best contender is better than each other one, from trials of the "
        "same block. Bars are the intervals of the ratios. If a whole bar is inside the band, the "
        "difference is too small to matter. A filled symbol is decided, a hollow symbol is not.",
        [figure for decides, figure in figures if decides],
        [figure for decides, figure in figures if not decides],
    )


def _figure(answer: PointAnswer, answers: Sequence[PointAnswer], look: dict[str, Look]) -> Drawing:
    rows = list(_rows(answer))
    low, high = _span([one for one in answers if one.metric == answer.metric])
    traces = []
    for place, row in enumerate(rows):
        if row.ratio is None and not row.is_leader:
            continue
        shape = look[row.contender]
        marker = shape.mark(11)
        if row.ratio is not None and row.ratio.verdict is LeadVerdict.UNDECIDED:
            outline = {"width": 2, "color": shape.color}
            marker |= {"symbol": shape.hollow, "line": outline}
        value, ends = 1.0, None
        if row.ratio is not None:
            value, ends = row.ratio.value, (row.ratio.low, row.ratio.high)
        label = plot.hover(f": {row.remark}", row.contender)
        traces.append(ratio_mark(place, value, ends, marker, label))
    layout = {
        "xaxis": plot.log_axis(
            f"{answer.ranking[0].contender} is better by this factor (log)", low, high, "{:g}x"
        ),
        "yaxis": plot.row_axis(len(rows)),
        "annotations": plot.row_names([(row.contender, row.remark) for row in rows]),
        "shapes": the_same(answer.prove),
    }
    name = answer_words.figure_name(answer)
    title = f"{name.capitalize()}, {answer_words.where(answer, answers)}"
    note = f"Band: a difference below {answer.prove * 100:.3g} %."
    return Drawing(title, traces, layout, plot.rows_height(len(rows)), note + _states(answer))


def ratio_mark(
    place: int,
    value: float,
    ends: tuple[float, float] | None,
    marker: dict[str, Any],
    label: Markup,
) -> plot.Trace:
    """Return the mark of a ratio, with its interval if it has one, in the row at this place."""
    reach = ([ends[1] - value], [value - ends[0]]) if ends else ([], [])
    error_x = plot.error_bars(*reach, color=marker["color"], thickness=3, width=6)
    return plot.scatter(
        "markers", [value], [place], hover_text=label, marker=marker, error_x=error_x
    )


def the_same(prove: float) -> list[dict[str, Any]]:
    """Return a band over the ratios that are too small to matter, and a line at 1."""
    below = {"layer": "below"}
    return [
        plot.band(1 / (1 + prove), 1 + prove) | below,
        plot.upright(1, color="@muted") | below,
    ]


def _rows(answer: PointAnswer) -> Iterator[_RatioRow]:
    best = answer.ranking[0]
    yield _RatioRow(best.contender, answer_words.amount(answer, best), is_leader=True)
    for ranked in answer.ranking[1:]:
        lead = answer.between(best.contender, ranked.contender)
        if lead is None or not lead.ratios:
            yield _RatioRow(ranked.contender, "too few pairs")
        for ratio in lead.seen_from(best.contender) if lead else ():
            yield _RatioRow(ranked.contender, _remark(ratio), ratio)


def _remark(ratio: LeadRatio) -> str:
    verdict = "" if ratio.verdict is LeadVerdict.AHEAD else f", {ratio.verdict}"
    return f"{answer_words.ratio(ratio)}{verdict}"


def _states(answer: PointAnswer) -> str:
    states = {one.state for lead in answer.leads for one in lead.ratios}
    if answer.lines is None or not states & {State.FAST, State.SLOW}:
        return ""
    return f" {answer_words.state_times(answer.lines).capitalize()}."


def _span(answers: Sequence[PointAnswer]) -> tuple[float, float]:
    """Return both ends of the axis. All points of a figure have the same axis."""
    ends = [1 / (1 + answers[0].prove), 1 + answers[0].prove]
    for answer in answers:
        for row in _rows(answer):
            ends += [row.ratio.low, row.ratio.high] if row.ratio else []
    low, high = math.log(min(ends)), math.log(max(ends))
    room = max(high - low, _LEAST_SPAN) * _ROOM
    return math.exp(low - room), math.exp(max(high, low + _LEAST_SPAN) + room)
