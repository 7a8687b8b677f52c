"""Who is ahead, and by how much, in pictures: the ratios of the answer with their intervals.

Each contender has a row (for each state of the machine, where the answer depends on it) on a
logarithmic axis: half as much and twice as much are equally far from 1, where the leader stands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from switchmark.report import answer_words
from switchmark.report.figures import (
    Drawing,
    Look,
    Panels,
    log_axis,
    row_axis,
    row_names,
    rows_height,
)
from switchmark.results.answer import LeadRatio, LeadVerdict, PointAnswer
from switchmark.statistics.states import State

_ROOM = 0.06  # of the axis, beyond what is drawn
_LEAST_SPAN = math.log(1.3)


@dataclass(frozen=True, slots=True)
class _RatioRow:
    """The row of a contender, or of the leader itself."""

    contender: str
    told: str
    ratio: LeadRatio | None = None  # None: the leader, or too few pairs
    is_leader: bool = False


def ratio_panels(answers: Sequence[PointAnswer], look: dict[str, Look]) -> Panels:
    """How far every contender is behind the leader of its point; figures that do not decide are
    folded away."""
    drawn = [one for one in answers if any(lead.ratios for lead in one.leads)]
    figures = [(one.decides, _figure(one, answers, look)) for one in drawn]
    return Panels(
        "Who is ahead, and by how much",
        "How many times better the leader is than each of the others, in trials of the same block. "
        "Bars are the intervals of the ratios. Band: the same for all that matters here. Filled: "
        "decided; hollow: not decided.",
        [figure for decides, figure in figures if decides],
        [figure for decides, figure in figures if not decides],
    )


def _figure(answer: PointAnswer, answers: Sequence[PointAnswer], look: dict[str, Look]) -> Drawing:
    rows = list(_rows(answer))
    low, high = _span([one for one in answers if one.metric == answer.metric])
    traces = []
    for place, row in enumerate(rows):
        shape = look[row.contender]
        if row.ratio is None and not row.is_leader:
            continue
        value = row.ratio.value if row.ratio else 1.0
        undecided = row.ratio is not None and row.ratio.verdict is LeadVerdict.UNDECIDED
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "showlegend": False,
                "x": [value],
                "y": [place],
                "marker": {
                    "color": shape.color,
                    "symbol": f"{shape.marker}-open" if undecided else shape.marker,
                    "size": 11,
                    "line": {"width": 2 if undecided else 0, "color": shape.color},
                },
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": [row.ratio.high - value] if row.ratio else [],
                    "arrayminus": [value - row.ratio.low] if row.ratio else [],
                    "color": shape.color,
                    "thickness": 3,
                    "width": 6,
                },
                "hovertemplate": Markup("{}: {}<extra></extra>").format(row.contender, row.told),
            }
        )
    layout = {
        "xaxis": log_axis("times better (log)", low, high, "{:g}x"),
        "yaxis": row_axis(len(rows)),
        "annotations": row_names([(row.contender, row.told) for row in rows]),
        "shapes": [
            {
                "type": "rect", "xref": "x", "yref": "paper", "layer": "below",
                "x0": 1 / (1 + answer.prove), "x1": 1 + answer.prove, "y0": 0, "y1": 1,
                "fillcolor": "@muted", "opacity": 0.18, "line": {"width": 0},
            },
            {
                "type": "line", "xref": "x", "yref": "paper", "layer": "below",
                "x0": 1, "x1": 1, "y0": 0, "y1": 1, "line": {"color": "@muted", "width": 1.5},
            },
        ],
    }  # fmt: skip
    name = answer_words.figure_name(answer)
    title = f"{name.capitalize()}, {answer_words.where(answer, answers)}"
    note = f"Band: within {answer.prove * 100:.3g} %, the same."
    return Drawing(title, traces, layout, rows_height(len(rows)), note + _states(answer))


def _rows(answer: PointAnswer) -> Iterator[_RatioRow]:
    best = answer.standings[0]
    yield _RatioRow(best.contender, answer_words.amount(answer, best), is_leader=True)
    for standing in answer.standings[1:]:
        lead = answer.between(best.contender, standing.contender)
        if lead is None or not lead.ratios:
            yield _RatioRow(standing.contender, "too few pairs")
        for one in lead.ratios if lead else ():  # (pairs may put ahead whose typical is behind)
            seen = one if lead is not None and lead.ahead == best.contender else one.turned()
            yield _RatioRow(standing.contender, _told(seen), seen)


def _told(one: LeadRatio) -> str:
    verdict = "" if one.verdict is LeadVerdict.AHEAD else f", {one.verdict}"
    return f"{answer_words.ratio(one)}{verdict}"


def _states(answer: PointAnswer) -> str:
    told = {one.state for lead in answer.leads for one in lead.ratios}
    if answer.lines is None or not told & {State.NEAR, State.FAR}:
        return ""
    near, far = answer.lines.near_ns, answer.lines.far_ns
    return f" near, far: a cache line takes {near:.0f}, {far:.0f} ns between the cores."


def _span(answers: Sequence[PointAnswer]) -> tuple[float, float]:
    """Both ends of the axis, the same for all points of a figure, so that they compare at a
    glance."""
    ends = [1 / (1 + answers[0].prove), 1 + answers[0].prove]
    for answer in answers:
        for row in _rows(answer):
            ends += [row.ratio.low, row.ratio.high] if row.ratio else []
    low, high = math.log(min(ends)), math.log(max(ends))
    room = max(high - low, _LEAST_SPAN) * _ROOM
    return math.exp(low - room), math.exp(max(high, low + _LEAST_SPAN) + room)
