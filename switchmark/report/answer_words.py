"""The comparison results of a run in words: the leader at each point and its lead, contenders
without a lead, and what is undecided with the time that would decide it.

The terminal and the report print the same words. A point gets a line for each contender while
there is room, otherwise one sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from switchmark import formatting
from switchmark.formatting import format_duration
from switchmark.report import words
from switchmark.results.answer import Lead, LeadRatio, LeadVerdict, PointAnswer, RankedContender
from switchmark.results.function_share import scale_of
from switchmark.results.groups import differing
from switchmark.statistics.states import LineTimes, State

FIGURES = {
    "forwarded": "throughput",
    "goodput": "goodput",
    "transactions": "requests answered",
    "rtt-p50": "median round trip",
    "rtt-p99": "99th percentile of round trips",
}

# The two states of a machine, as readers see them.
_STATES = (State.FAST, State.SLOW)


@dataclass(frozen=True, slots=True)
class ContenderWords:
    """The words about one contender at one point."""

    place: int  # 1 is the best
    contender: str
    amount: str
    lead: str  # empty for the best contender
    verdict: LeadVerdict | None  # None: the best contender, or no comparison


@dataclass(frozen=True, slots=True)
class PointWords:
    """The words about one point."""

    title: str
    lines: tuple[ContenderWords, ...]  # the best first


def deciding(answers: Sequence[PointAnswer]) -> list[PointAnswer]:
    """Return the comparison results that a summary gives: those of the figures that decide; empty
    if none of them was tested."""
    decisive = [answer for answer in answers if answer.decides]
    return decisive if any(not answer.untested for answer in decisive) else []


def by_scale(answers: list[PointAnswer]) -> list[PointAnswer]:
    """Sort the points of functions by figure, then by scale. Other points keep their order."""
    trials = [answer.ranking[0].trial for answer in answers]
    if all(trial.function.is_plain for trial in trials):
        return answers
    metrics = list(dict.fromkeys(answer.metric for answer in answers))
    order = [
        (metrics.index(answer.metric), trial.packet_size_bytes, scale_of(trial) or (0, ""),
         trial.masks, trial.flows.number)
        for answer, trial in zip(answers, trials, strict=True)
    ]  # fmt: skip
    return [answers[at] for at in sorted(range(len(answers)), key=order.__getitem__)]


def untested(answers: Sequence[PointAnswer]) -> list[str]:
    """Return each reason why the results that decide were not tested."""
    return list(dict.fromkeys(answer.untested for answer in answers if answer.decides))


def heading(answers: Sequence[PointAnswer]) -> str:
    """The line above the comparison results, with the rule for all of them."""
    first = answers[0]
    testbeds = len({answer.testbed for answer in answers})
    each = f" on each of {testbeds} testbeds" if testbeds > 1 else ""
    counts = {answer.blocks for answer in answers}
    counted = "1 block" if counts == {1} else f"{max(counts)} blocks"
    if len(counts) > 1:
        counted = f"{min(counts)} to {max(counts)} blocks for each figure"
    confidence = _percent(first.confidence)
    return f"Comparison at {confidence} confidence, from {counted}{each}; figures are medians:"


def explanation(answers: Sequence[PointAnswer]) -> str:
    """Return the reason why a ratio differs from the quotient of two medians, or the order from
    that of the medians; empty if none does."""
    if not any(_has_other_quotient(one) or _has_other_order(one) for one in answers):
        return ""
    return (
        "Ratios and the order compare trials of the same block, which ran close together with the "
        "machine in the same state, so they can differ from the quotients and the order of the "
        "medians."
    )


def _has_other_order(answer: PointAnswer) -> bool:
    """Return True if a contender stands above one with a better median."""
    medians = [ranked.typical for ranked in answer.ranking]
    return medians != sorted(medians, reverse=answer.metric.higher_is_better)


def _has_other_quotient(answer: PointAnswer) -> bool:
    """Return True if the medians of the best contender and of another one have a quotient outside
    the interval of their ratio."""
    best = answer.ranking[0]
    for other in answer.ranking[1:]:
        lead = answer.between(best.contender, other.contender)
        if lead is None or lead.verdict is LeadVerdict.UNDECIDED or not other.typical:
            continue
        quotient = best.typical / other.typical
        quotient = quotient if answer.metric.higher_is_better else 1 / quotient
        ratios = lead.seen_from(best.contender)
        if not any(one.low <= quotient <= one.high for one in ratios):
            return True
    return False


def further_s(answers: Sequence[PointAnswer]) -> float:
    """About how many more seconds would decide what is undecided; 0 if nothing is, or if no time
    would decide it."""
    return sum(map(_further_s, answers))


def _further_s(answer: PointAnswer) -> float:
    """The seconds of one point. Each contender that is needed runs once in a block."""
    open_ = [lead for lead in answer.leads if lead.further_s]
    contenders = {name for lead in open_ for name in (lead.ahead, lead.behind)}
    return max((lead.further_s or 0.0 for lead in open_), default=0.0) * len(contenders) / 2


def further_blocks(answers: Sequence[PointAnswer]) -> int:
    """About how many more blocks would decide what is undecided; 0 as for `further_s`."""
    return max((lead.further_blocks or 0 for one in answers for lead in one.leads), default=0)


def undecided_below(answers: Sequence[PointAnswer]) -> int:
    """The number of pairs that more time would decide, and which no line of the summary shows:
    those without the best contender."""
    return sum(
        lead.further_s is not None
        for answer in answers
        for lead in answer.leads
        if answer.ranking[0].contender not in (lead.ahead, lead.behind)
    )


def fits_by_contender(answers: Sequence[PointAnswer], most: int) -> bool:
    """Return True if `most` lines have room for each contender of each point."""
    return 1 + sum(1 + len(one.ranking) for one in answers) <= most


def by_contender(answer: PointAnswer, all_: Sequence[PointAnswer]) -> PointWords:
    """The words about a point, with a line for each contender."""
    return PointWords(
        f"{figure_name(answer)}, {where(answer, all_)}{_states(answer)}",
        tuple(_contenders(answer)),
    )


def by_point(answer: PointAnswer, all_: Sequence[PointAnswer]) -> str:
    """The words about a point in one sentence: the leader, then the others by their verdict."""
    best = answer.ranking[0]
    before, depends, same, undecided = [], [], [], []
    for ranked in answer.ranking[1:]:
        lead = answer.between(best.contender, ranked.contender)
        if lead is None or lead.verdict is LeadVerdict.UNDECIDED:
            undecided.append(ranked.contender)
            continue
        match lead.verdict:
            case LeadVerdict.SAME:
                same.append(ranked.contender)
            case LeadVerdict.DEPENDS:
                depends.append(_by_state(answer, lead, best, ranked))
            case LeadVerdict.AHEAD:
                ratios = _ratios(lead.seen_from(best.contender), short=True)
                before.append(f"{ranked.contender} {ratios}")
    parts = [
        f"{figure_name(answer)}, {where(answer, all_)}{_states(answer)}: {best.contender} "
        f"{amount(answer, best)}",
        f"ahead of {'; '.join(before)}" if before else "",
        f"no lead of {_percent(answer.prove)} or more over {', '.join(same)}" if same else "",
        f"depends on the state of the machine: {'; '.join(depends)}" if depends else "",
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
    size = "mixed sizes" if point.get("packet_mix") else words.subject(point)
    names = [name for name in varying if name != "packet_size_bytes"]
    return ", ".join([size, *words.fields_of(point, names), *testbed])


def amount(answer: PointAnswer, ranked: RankedContender) -> str:
    """The typical figure with its unit."""
    return formatting.amount(ranked.typical, answer.metric.unit)


def ratio(lead_ratio: LeadRatio, *, short: bool = False) -> str:
    """`1.11x (1.05 to 1.18) while fast`; `short` leaves the interval out."""
    if short:
        return f"{formatting.ratios(lead_ratio.value)[0]}x{_while(lead_ratio)}"
    value, low, high = formatting.ratios(lead_ratio.value, lead_ratio.low, lead_ratio.high)
    return f"{value}x ({low} to {high}){_while(lead_ratio)}"


def _while(lead_ratio: LeadRatio) -> str:
    """The state of the machine to which a ratio belongs; empty if it has one state."""
    return f" while {lead_ratio.state}" if lead_ratio.state in _STATES else ""


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %"


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
    """The two states of the machine, if it had two and the ratios differ by them."""
    if answer.lines is None or not any(one.state for lead in answer.leads for one in lead.ratios):
        return ""
    return f" ({state_times(answer.lines)})"


def state_times(lines: LineTimes) -> str:
    """Return how long a cache line takes between the cores in both states of the machine."""
    fast, slow = lines.fast_ns, lines.slow_ns
    return (
        f"machine fast: a cache line moves between the cores in {fast:.0f} ns; machine slow: "
        f"{slow:.0f} ns"
    )


def _lead(answer: PointAnswer, lead: Lead, best: RankedContender, other: RankedContender) -> str:
    match lead.verdict:
        case LeadVerdict.AHEAD:
            # Typical figures that say otherwise are of other times and states of the machine.
            is_seen = (best.typical > other.typical) == answer.metric.higher_is_better
            where = "is ahead" if is_seen else "is ahead block by block"
            return f"{lead.ahead} {where}, {_ratios(lead.ratios)}"
        case LeadVerdict.SAME:
            bounds = _bounds(lead.seen_from(best.contender))
            return f"no lead of {_percent(answer.prove)} or more ({bounds})"
        case LeadVerdict.DEPENDS:
            return f"depends on the state of the machine: {_by_state(answer, lead, best, other)}"
    if not lead.ratios:
        return f"undecided, only {lead.pairs} {'pair' if lead.pairs == 1 else 'pairs'} of trials"
    more = ""
    if lead.further_s is not None:
        more = (
            f"; about {format_duration(lead.further_s)} of further trials of this pair would decide"
        )
    return f"undecided ({_bounds(lead.seen_from(best.contender))}){more}"


def _by_state(
    answer: PointAnswer, lead: Lead, best: RankedContender, other: RankedContender
) -> str:
    """The contender that leads in each state, with the ratio of its figure to the other's."""
    parts = []
    for lead_ratio in lead.seen_from(best.contender):
        if lead_ratio.verdict is not LeadVerdict.AHEAD:
            parts.append(f"no lead of {_percent(answer.prove)} or more{_while(lead_ratio)}")
        elif lead_ratio.value >= 1:
            parts.append(f"{best.contender} {ratio(lead_ratio)}")
        else:
            parts.append(f"{other.contender} {ratio(lead_ratio.turned())}")
    return ", ".join(parts)


def _bounds(ratios: Sequence[LeadRatio]) -> str:
    """`ratio between 0.33 and 3.00`, for each state of the machine."""
    parts = []
    for lead_ratio in ratios:
        if not math.isfinite(lead_ratio.high) or lead_ratio.low <= 0:
            parts.append(f"too few pairs{_while(lead_ratio)}")
        else:
            low, high = formatting.ratios(lead_ratio.low, lead_ratio.high)
            parts.append(f"{low} and {high}{_while(lead_ratio)}")
    return f"ratio between {', '.join(parts)}" if parts[0][0].isdigit() else ", ".join(parts)


def _ratios(ratios: Sequence[LeadRatio], *, short: bool = False) -> str:
    return ", ".join(ratio(one, short=short) for one in ratios)
