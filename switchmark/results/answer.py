"""The answer of a run: who leads at each point, and by what ratio at least and at most; which
contenders are equal; and what is undecided, with the time that would decide it.

It is computed from the records alone, at the looks that the campaign planned; nothing of it is
stored.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

from switchmark.model.parameters import point_of
from switchmark.model.trial import Trial
from switchmark.record import Record
from switchmark.record.metric import Metric
from switchmark.record.page_sizes import apart, is_compared, point_at
from switchmark.results.blocks import Observed, as_block_trials, left_out, observe
from switchmark.results.documents import CorruptResultError, read_record
from switchmark.results.points import Point
from switchmark.results.proving import Looks, Proving, blocks_of
from switchmark.results.rows import KNOWN_TRUTH
from switchmark.results.store import Run
from switchmark.statistics.paired import MIN_PAIRS, LogRatio, ratio_of
from switchmark.statistics.sequential import Decision, Outcome, PairedComparison
from switchmark.statistics.states import LineTimes, State, label, levels_of
from switchmark.statistics.typical import typical


class LeadVerdict(StrEnum):
    """What is known of two contenders: one leads, they are equal, or it is undecided."""

    AHEAD = "ahead"  # by a proven lead, in each state of the machine
    SAME = "the same"  # within the smallest lead worth knowing, in each state
    DEPENDS = "depends"  # decided in each state of the machine, not alike in all
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class LeadRatio:
    """By what factor the contender ahead is better: above 1, whether or not more is better."""

    value: float
    low: float  # of the interval; 0 where few pairs tell nothing
    high: float
    pairs: int
    verdict: LeadVerdict
    state: State | None = None  # of the machine; None: of all together

    def turned(self) -> LeadRatio:
        """The ratio from the other side."""
        high = 1 / self.low if self.low else math.inf
        return replace(self, value=1 / self.value, low=1 / self.high, high=high)


@dataclass(frozen=True, slots=True)
class Lead:
    """Two contenders, the better one first."""

    ahead: str
    behind: str
    verdict: LeadVerdict
    ratios: tuple[LeadRatio, ...]  # one, or one a state where they differ; none: too few pairs
    pairs: int  # of trials, in one block
    further_s: float | None  # that it would take to decide; None: it is decided, or beyond hope
    further_blocks: int | None = None  # as many blocks

    def seen_from(self, contender: str) -> tuple[LeadRatio, ...]:
        """The ratios of this one of the two to the other."""
        if contender == self.ahead:
            return self.ratios
        return tuple(one.turned() for one in self.ratios)


@dataclass(frozen=True, slots=True)
class MeasuredTrial:
    """The parts of a trial that the answer shows."""

    block: int
    figure: float  # in the unit of the metric
    state: State  # of the machine; CHANGED: it counts with its longest stretch in one state
    unused: str  # why it counts for nothing; empty: it counts


@dataclass(frozen=True, slots=True)
class RankedContender:
    """One contender at a point: its typical figure and its trials."""

    contender: str
    trial: Trial  # its repetition 0
    typical: float  # median over its trials, in the unit of the metric
    low: float | None  # interval of the typical figure; None: fewer than five trials
    high: float | None
    trials: int  # that count
    measured: tuple[MeasuredTrial, ...] = ()  # all that have a figure


@dataclass(frozen=True, slots=True)
class PointAnswer:
    """The answer for one figure at one point."""

    point: Point
    metric: Metric
    decides: bool  # whether the campaign goes on until this figure is decided
    ranking: tuple[RankedContender, ...]  # the best first: as proven, else by typical figures
    leads: tuple[Lead, ...]  # every pair, in that order
    blocks: int
    trials: int
    left_out: Mapping[str, int]  # trials that count for nothing, by reason
    lines: LineTimes | None  # the machine's two states, between the cores first used; None: one
    prove: float
    confidence: float
    testbed: str = ""  # of a pool, where each decides by itself

    def between(self, one: str, other: str) -> Lead | None:
        """What is known of these two, whichever is ahead."""
        return next((o for o in self.leads if {o.ahead, o.behind} == {one, other}), None)


def answer_run(
    run: Run, names: Mapping[str, str], overhead_s: Callable[[str], float]
) -> list[PointAnswer]:
    """The answers of a run; `names` gives contenders' names by the id of their first trial,
    `overhead_s` what is usually around a trial of a switch."""
    info = run.info
    proving = Proving.of(
        info.parsed_definition.model_dump(), overhead_s, info.parsed_settings.testbeds
    )
    if proving.most_blocks < MIN_PAIRS:
        return []
    return answer([seen for seen, _ in observations(run)], proving, names)


def observations(run: Run) -> Iterator[tuple[Observed, Record]]:
    """The run's records one by one, as observed. Unreadable files are left out; the tables name
    them."""
    resumed = run.resumed_at()
    for path in run.paths():
        with suppress(CorruptResultError):
            record = read_record(path)
            yield observe(record, resumed), record


def answer(
    observed: Sequence[Observed], proving: Proving, names: Mapping[str, str]
) -> list[PointAnswer]:
    """The answers, point by point in the order of their first trials."""
    found = []
    asked = {one.trial.id: one.trial for one in observed if not one.is_baseline}
    whole_s = proving.round_s(asked.values())
    for point, everywhere in points_of(observed).items():
        for at, testbed, held in _compared_alike(point, everywhere, proving):
            was_decided = False
            for place, metric in enumerate(metrics_of(held)):
                looks = looks_at(held, metric, proving, whole_s, was_decided=was_decided)
                if place == 0:
                    was_decided = not looks.needed
                made = _answer(at, held, metric, place == 0, looks, proving, names)
                found.append(replace(made, testbed=testbed))
    return found


def _compared_alike(
    point: Point, observed: list[Observed], proving: Proving
) -> Iterator[tuple[Point, str, list[Observed]]]:
    """The observations that are compared with each other, with their testbed, at the point where
    they are compared: of each page size."""
    for testbed, held in _by_testbed(observed, proving):
        for at, alike in by_page_size(point, held):
            if len({one.contender for one in alike}) > 1:
                yield at, testbed, alike


def by_page_size(
    point: Point, observed: Sequence[Observed]
) -> Iterator[tuple[Point, list[Observed]]]:
    """The observations at a point for each page size of DPDK's memory, unless page sizes are what
    is compared there."""
    if is_compared(dict(point).get("compared") or ""):
        yield point, list(observed)
        return
    for kib, alike in apart(observed, lambda one: one.page_size_kib):
        yield point_at(point, kib), alike


def _by_testbed(observed: list[Observed], proving: Proving) -> Iterator[tuple[str, list[Observed]]]:
    """The observations of each testbed, its blocks counted by themselves; all together where the
    campaign does not decide by testbed."""
    if not proving.testbeds:
        yield "", observed
        return
    for testbed in proving.testbeds:
        own = [one for one in observed if one.testbed == testbed]
        if len({one.contender for one in own}) > 1:
            yield testbed, [replace(one, block=proving.block_of(one.block)) for one in own]


def points_of(observed: Iterable[Observed]) -> dict[Point, list[Observed]]:
    """The observations that are compared, by point. A point has at least two contenders. A
    baseline is not a contender, and a switch with set faults is compared only with itself."""
    points: dict[Point, list[Observed]] = defaultdict(list)
    for one in sorted(observed, key=lambda one: one.start_s):
        if not one.is_baseline:
            points[point_of(one.trial)].append(one)
    for point, held in points.items():
        points[point] = [one for one in held if one.trial.switch != KNOWN_TRUTH] or held
    return {p: held for p, held in points.items() if len({one.contender for one in held}) > 1}


def metrics_of(observed: Iterable[Observed]) -> list[Metric]:
    """The figures that are compared; the first one decides."""
    return list(dict.fromkeys(metric for one in observed for metric in one.figures))


def looks_at(
    observed: Sequence[Observed],
    metric: Metric,
    proving: Proving,
    whole_round_s: float,
    *,
    was_decided: bool = False,
) -> Looks:
    """All looks at a figure that were due; the last one is at what there is.

    What is left of the level is spent there only if time ended the campaign, not a decision: at
    this figure, or (`was_decided`) at the one that decides."""
    contenders = {one.contender: one.trial for one in observed}
    rule, blocks = proving.rule(list(contenders.values()), whole_round_s), blocks_of(observed)
    if not proving.stops and blocks > rule.looks[-1]:  # more were asked for later
        rule = replace(rule, looks=(blocks,))
    looks = Looks(metric, rule, proving.prove, list(contenders))
    for count in range(1 if proving.stops else blocks, blocks + 1):
        looks.after([one for one in observed if one.block < count], count)
    was_planned = rule.is_look(blocks) and (was_decided or not proving.stops or not looks.needed)
    if not was_planned:
        looks.after(observed, blocks, is_last=True)
    return looks


def _answer(
    point: Point,
    observed: list[Observed],
    metric: Metric,
    decides: bool,
    looks: Looks,
    proving: Proving,
    names: Mapping[str, str],
) -> PointAnswer:
    ranking = sorted(
        _ranked(observed, metric, names),
        key=lambda one: -one.typical if metric.higher_is_better else one.typical,
    )
    trials = as_block_trials(observed, metric)
    levels = filter(None, levels_of(trials).values())
    # The usual time of a pair of trials, the bench's own included.
    pair_s = 2 * statistics.median(one.end_s - one.start_s for one in observed)
    known = {frozenset((one.a, one.b)): one for one in looks.comparisons}

    def leads_of(order: Iterable[RankedContender]) -> Iterator[Lead]:
        for better, other in combinations(order, 2):
            if (pair := frozenset((better.trial.id, other.trial.id))) in known:
                yield _lead(known[pair], better, other, metric.higher_is_better, pair_s)

    ranking = _as_proven(ranking, leads_of(ranking))
    return PointAnswer(
        point=point,
        metric=metric,
        decides=decides,
        ranking=tuple(ranking),
        leads=tuple(leads_of(ranking)),
        blocks=blocks_of(observed),
        trials=len(observed),
        left_out=left_out(observed, metric),
        lines=next(levels, None),
        prove=proving.prove,
        confidence=proving.confidence,
    )


def _as_proven(
    by_typical: Iterable[RankedContender], leads: Iterable[Lead]
) -> list[RankedContender]:
    """The contenders in this order, but each behind those that are proven to be ahead of it: the
    trials of two may lie unevenly in the machine's states, their pairs do not."""
    proven = {(one.ahead, one.behind) for one in leads if one.verdict is LeadVerdict.AHEAD}
    left, ordered = list(by_typical), []
    while left:
        names = [one.contender for one in left]
        free = (k for k, name in enumerate(names) if not any((o, name) in proven for o in names))
        ordered.append(left.pop(next(free, 0)))  # (0: each is behind another, in a circle)
    return ordered


def _ranked(
    observed: Sequence[Observed], metric: Metric, names: Mapping[str, str]
) -> Iterable[RankedContender]:
    observed = sorted(observed, key=lambda one: one.start_s)  # the order of the trials of blocks
    trials = as_block_trials(observed, metric)
    states = label(trials)
    first = {one.contender: one.trial for one in observed}
    held: dict[str, list[LogRatio]] = defaultdict(list)
    measured: dict[str, list[MeasuredTrial]] = defaultdict(list)
    for seen, one, state in zip(observed, trials, states, strict=True):
        if one.figure is not None:
            held[one.contender].append(LogRatio(one.block, math.log(one.figure)))
        if (figure := seen.figures.get(metric)) is not None:
            measured[one.contender].append(MeasuredTrial(seen.block, figure, state, seen.unused))
    for contender, logs in held.items():
        interval = ratio_of(logs)
        yield RankedContender(
            contender=names.get(contender, first[contender].called),
            trial=first[contender],
            typical=typical([math.exp(one.log_ratio) for one in logs]),
            low=interval.low if interval else None,
            high=interval.high if interval else None,
            trials=len(logs),
            measured=tuple(measured[contender]),
        )


def _lead(
    found: PairedComparison,
    better: RankedContender,
    other: RankedContender,
    higher: bool,
    pair_s: float,
) -> Lead:
    """The comparison from the side of the one whose typical figure is better; where the pairs say
    otherwise, from the other side."""
    # Whether ratios of figures are below 1 for a lead.
    turned = (found.a == better.trial.id) != higher
    ratios = tuple(_lead_ratio(one, turned=turned) for one in found.decisions)
    verdict = _verdict(ratios)
    ahead, behind = better.contender, other.contender
    if ratios and all(one.value < 1 for one in ratios):
        ratios = tuple(_lead_ratio(one, turned=not turned) for one in found.decisions)
        ahead, behind = behind, ahead
    further_s = None if found.further_blocks is None else found.further_blocks * pair_s
    return Lead(ahead, behind, verdict, ratios, found.pairs, further_s, found.further_blocks)


def _lead_ratio(decision: Decision, *, turned: bool) -> LeadRatio:
    ratio = decision.ratio
    verdicts = {Outcome.SAME: LeadVerdict.SAME, Outcome.UNDECIDED: LeadVerdict.UNDECIDED}
    verdict = verdicts.get(decision.outcome, LeadVerdict.AHEAD)
    found = LeadRatio(ratio.value, ratio.low, ratio.high, ratio.pairs, verdict, ratio.state)
    return found.turned() if turned else found


def _verdict(ratios: Sequence[LeadRatio]) -> LeadVerdict:
    verdicts = {one.verdict for one in ratios}
    if not verdicts or LeadVerdict.UNDECIDED in verdicts:
        return LeadVerdict.UNDECIDED
    sides = {one.value > 1 for one in ratios if one.verdict is LeadVerdict.AHEAD}
    return verdicts.pop() if len(verdicts) == 1 and len(sides) <= 1 else LeadVerdict.DEPENDS
