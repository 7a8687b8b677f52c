"""The answer of a run on the terminal, in few lines: who leads at each point and by how much, what
is the same, what is not decided and what that would take.

Points get a line for each contender while there is room, else a line each; what no line holds is in
`show --full` and in the report.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from switchmark.language.duration import format_duration
from switchmark.report import words
from switchmark.results.answer import Lead, LeadRatio, PointAnswer, Verdict

WIDTH = 100
_FIGURES = {
    "forwarded": "throughput",
    "rtt-p50": "median round trip",
    "rtt-p99": "99th percentile of round trips",
}


def answer_lines(answers: Sequence[PointAnswer], most: int) -> list[str]:
    """The answers in `most` lines at most, each of at most `WIDTH` columns."""
    first = answers[0]
    head = (
        f"Leads from {first.prove * 100:.3g} % on, with {first.confidence * 100:.3g} % confidence, "
        f"paired within {max(one.blocks for one in answers)} blocks:"
    )
    for form in (_each_contender, _each_point):
        lines = [head, *(line for one in answers for line in form(one, answers))]
        if len(lines) <= most:
            return lines
    kept = lines[: most - 1]
    return [*kept, f"  ... and {len(answers)} points in all"]


def _each_contender(answer: PointAnswer, all_: Sequence[PointAnswer]) -> Iterator[str]:
    """A heading and a line a contender, best first."""
    yield f"  {_figure(answer)}, {_where(answer, all_)}{_states(answer)}"
    best = answer.standings[0].contender
    widest = max(len(one.contender) for one in answer.standings)
    for place, standing in enumerate(answer.standings, start=1):
        amount = words.amount(standing.typical, answer.metric.unit)
        found = answer.between(best, standing.contender) if place > 1 else None
        text = f"    {place}. {standing.contender:<{widest}}  {amount:>9}"
        yield fit(f"{text}  {_told(found)}" if found else text)


def _each_point(answer: PointAnswer, all_: Sequence[PointAnswer]) -> Iterator[str]:
    """One paragraph a point: the leader, then the others by what is known of them."""
    best = answer.standings[0]
    leader = f"{best.contender} {words.amount(best.typical, answer.metric.unit)}"
    told: list[str] = []
    same, undecided = [], []
    for one in answer.standings[1:]:
        lead = answer.between(best.contender, one.contender)
        if lead is None or lead.verdict is Verdict.UNDECIDED:
            undecided.append(one.contender)
        elif lead.verdict is Verdict.SAME:
            same.append(one.contender)
        else:
            told.append(f"{one.contender} {_ratios(lead, short=True)}")
    parts = [
        f"the same: {', '.join(same)}" if same else "",
        f"before {'; '.join(told)}" if told else "",
        f"undecided: {', '.join(undecided)}" if undecided else "",
    ]
    text = f"  {_figure(answer)}, {_where(answer, all_)}: {leader}; " + "; ".join(
        filter(None, parts)
    )
    yield from textwrap.wrap(text, WIDTH, subsequent_indent="      ")[:3]


def _figure(answer: PointAnswer) -> str:
    return _FIGURES.get(answer.metric.name, answer.metric.name)


def _where(answer: PointAnswer, all_: Sequence[PointAnswer]) -> str:
    """What tells this point from the others, and its frame size."""
    point = dict(answer.point)
    others = [dict(one.point) for one in all_ if one.metric == answer.metric]
    varying = [name for name in point if len({str(other[name]) for other in others}) > 1]
    size = "mixed sizes" if point.get("packet_mix") else f"{point['packet_size_bytes']} B"
    more = [words.field(name, point[name]) for name in varying if name != "packet_size_bytes"]
    return ", ".join([size, *more])


def _states(answer: PointAnswer) -> str:
    """The machine's two states, where it had two and answers differ by them."""
    if answer.lines is None or not any(one.state for lead in answer.leads for one in lead.ratios):
        return ""
    near, far = answer.lines.near_ns, answer.lines.far_ns
    return f" (near: a cache line takes {near:.0f} ns between the cores, far: {far:.0f} ns)"


def _told(lead: Lead) -> str:
    match lead.verdict:
        case Verdict.AHEAD:
            return f"{lead.ahead} is ahead {_ratios(lead)}"
        case Verdict.SAME:
            return f"the same: {_ratios(lead)}"
        case Verdict.DEPENDS:
            return f"depends on the machine's state: {_ratios(lead)}"
    more = "" if lead.further_s is None else f"; about {format_duration(lead.further_s)} more"
    return f"undecided: {_ratios(lead) if lead.ratios else 'too few pairs'}{more}"


def _ratios(lead: Lead, *, short: bool = False) -> str:
    return ", ".join(_ratio(one, short=short) for one in lead.ratios)


def _ratio(one: LeadRatio, *, short: bool) -> str:
    state = f" {one.state}" if one.state is not None and one.state != "only" else ""
    if short:
        return f"{one.value:.3g}x{state}"
    return f"{one.value:.3g}x [{one.low:.3g}, {one.high:.3g}]{state}"


def fit(text: str) -> str:
    """The line, cut where it is wider than `WIDTH`."""
    return text if len(text) <= WIDTH else text[: WIDTH - 4] + " ..."
