"""The answer of a run in words: who leads at each point and by how much, which are equal, and what
is undecided and would take how long.

The terminal and the report say the same words: both take them from here. Points get a line for each
contender while there is room, else a sentence each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from switchmark import formatting
from switchmark.formatting import format_duration
from switchmark.report import words
from switchmark.results.answer import Lead, LeadRatio, LeadVerdict, PointAnswer, RankedContender
from switchmark.results.points import differing
from switchmark.statistics.states import State

FIGURES = {
    "forwarded": "throughput",
    "rtt-p50": "median round trip",
    "rtt-p99": "99th percentile of round trips",
}


@dataclass(frozen=True, slots=True)
class ContenderWords:
    """The words about one contender at one point."""

    place: int  # 1 is the best
    contender: str
    amount: str
    lead: str  # of the best over it; empty of the best itself
    verdict: LeadVerdict | None  # None: of the best itself, or nothing is known


@dataclass(frozen=True, slots=True)
class PointWords:
    """The words about one point."""

    title: str
    lines: tuple[ContenderWords, ...]  # the best first


def deciding(answers: Sequence[PointAnswer]) -> list[PointAnswer]:
    """The answers that a summary gives: of the figures that decide, where there are pairs."""
    return [one for one in answers if one.decides and any(lead.ratios for lead in one.leads)]


def heading(answers: Sequence[PointAnswer]) -> str:
    """The line above the answers: what all of them rest on."""
    first = answers[0]
    testbeds = len({one.testbed for one in answers})
    each = f" on each of {testbeds} testbeds" if testbeds > 1 else ""
    return (
        f"Leads from {first.prove * 100:.3g} % on, with {first.confidence * 100:.3g} % confidence, "
        f"paired within {max(one.blocks for one in answers)} blocks{each}; figures are medians:"
    )


def fits_by_contender(answers: Sequence[PointAnswer], most: int) -> bool:
    """Whether there is room in so many lines for each contender of each point."""
    return 1 + sum(1 + len(one.ranking) for one in answers) <= most


def by_contender(answer: PointAnswer, all_: Sequence[PointAnswer]) -> PointWords:
    """The words about a point, with a line for each contender."""
    return PointWords(
        f"{figure_name(answer)}, {where(answer, all_)}{_states(answer)}",
        tuple(_contenders(answer)),
    )


def by_point(answer: PointAnswer, all_: Sequence[PointAnswer]) -> str:
    """The words about a point in one sentence: the leader, then the others by what is known of
    them."""
    best = answer.ranking[0]
    before, depends, same, undecided = [], [], [], []
    for one in answer.ranking[1:]:
        lead = answer.between(best.contender, one.contender)
        if lead is None or lead.verdict is LeadVerdict.UNDECIDED:
            undecided.append(one.contender)
            continue
        ratios = _ratios(lead.seen_from(best.contender), short=True)
        match lead.verdict:
            case LeadVerdict.SAME:
                same.append(one.contender)
            case LeadVerdict.DEPENDS:
                depends.append(f"{one.contender} {ratios}")
            case LeadVerdict.AHEAD:
                before.append(f"{one.contender} {ratios}")
    parts = [
        f"{figure_name(answer)}, {where(answer, all_)}: {best.contender} {amount(answer, best)}",
        f"the same: {', '.join(same)}" if same else "",
        f"before {'; '.join(before)}" if before else "",
        f"by the machine's state, before {'; '.join(depends)}" if depends else "",
        f"undecided: {', '.join(undecided)}" if undecided else "",
    ]
    return "; ".join(filter(None, parts))


def figure_name(answer: PointAnswer) -> str:
    """The name of the figure that is compared, in common words."""
    return FIGURES.get(answer.metric.name, answer.metric.name)


def where(answer: PointAnswer, all_: Sequence[PointAnswer]) -> str:
    """The frame size, and the other fields that tell this point from the others."""
    point = dict(answer.point)
    varying = differing(one.point for one in all_ if one.metric == answer.metric)
    testbed = [f"on {answer.testbed}"] if answer.testbed else []
    size = "mixed sizes" if point.get("packet_mix") else f"{point['packet_size_bytes']} B"
    more = [words.field(name, point[name]) for name in varying if name != "packet_size_bytes"]
    return ", ".join([size, *more, *testbed])


def amount(answer: PointAnswer, ranked: RankedContender) -> str:
    """The typical figure with its unit."""
    return formatting.amount(ranked.typical, answer.metric.unit)


def ratio(one: LeadRatio, *, short: bool = False) -> str:
    """`1.11x [1.05, 1.18] near`; `short` leaves the interval out."""
    state = f" {one.state}" if one.state is not None and one.state is not State.ONLY else ""
    if short:
        return f"{one.value:.3g}x{state}"
    return f"{one.value:.3g}x [{one.low:.3g}, {one.high:.3g}]{state}"


def _contenders(answer: PointAnswer) -> Iterator[ContenderWords]:
    best = answer.ranking[0]
    for place, ranked in enumerate(answer.ranking, start=1):
        found = answer.between(best.contender, ranked.contender) if place > 1 else None
        yield ContenderWords(
            place,
            ranked.contender,
            amount(answer, ranked),
            _lead(answer, found, best, ranked) if found else "",
            found.verdict if found else None,
        )


def _states(answer: PointAnswer) -> str:
    """The ratios in the machine's two states, where it had two and answers differ by them."""
    if answer.lines is None or not any(one.state for lead in answer.leads for one in lead.ratios):
        return ""
    near, far = answer.lines.near_ns, answer.lines.far_ns
    return f" (near: a cache line takes {near:.0f} ns between the cores, far: {far:.0f} ns)"


def _lead(answer: PointAnswer, lead: Lead, best: RankedContender, other: RankedContender) -> str:
    ratios = _ratios(lead.seen_from(best.contender))
    match lead.verdict:
        case LeadVerdict.AHEAD:
            # Typical figures that say otherwise are of other times and states of the machine.
            is_seen = (best.typical > other.typical) == answer.metric.higher_is_better
            where = "ahead" if is_seen else "ahead block by block,"
            return f"{lead.ahead} is {where} {_ratios(lead.ratios)}"
        case LeadVerdict.SAME:
            return f"the same: {ratios}"
        case LeadVerdict.DEPENDS:
            return f"depends on the machine's state: {ratios}"
    more = "" if lead.further_s is None else f"; about {format_duration(lead.further_s)} more"
    return f"undecided: {ratios or 'too few pairs'}{more}"


def _ratios(ratios: Sequence[LeadRatio], *, short: bool = False) -> str:
    return ", ".join(ratio(one, short=short) for one in ratios)
