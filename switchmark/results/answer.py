"""The comparison results of a run: at each test point and for each figure, the order of the
contenders, and the ratio of each pair with its interval.

This is the only place that decides which contender leads. The terminal, the report, `compare`, the
pool and the Python API take its result. It works on the records alone, at the interim analyses that
the campaign planned; no result is stored. A repetition is a block, also in a campaign without
`prove`, so each campaign with repetitions has pairs of trials (statistics/paired.py). One or two
repetitions cannot be tested: `PointAnswer.untested` gives the reason.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import combinations

from switchmark.model.parameter_table import point_of
from switchmark.model.trial import Trial
from switchmark.record import Record
from switchmark.record.metric import Metric
from switchmark.record.page_sizes import Point, apart, is_compared, point_at
from switchmark.results.blocks import Observed, as_block_trials, left_out, observe
from switchmark.results.documents import CorruptResultError, read_record
from switchmark.results.proving import InterimAnalyses, Proving, blocks_of
from switchmark.results.rows import KNOWN_TRUTH
from switchmark.results.run_directory import Run
from switchmark.statistics.order_statistics import median_interval, typical
from switchmark.statistics.paired import FEWEST_PAIRS, MIN_PAIRS
from switchmark.statistics.sequential import Decision, Outcome, PairedComparison
from switchmark.statistics.states import LineTimes, State, label, levels_of


class LeadVerdict(StrEnum):
    """The conclusion about two contenders."""

    AHEAD = "ahead"  # the lead is proven, in each state of the machine
    SAME = "the same"  # the difference is smaller than `prove`, in each state
    DEPENDS = "depends"  # decided in each state of the machine, but differently
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class LeadRatio:
    """The factor by which one contender is better than another, with its interval.

    For rates it is the quotient of the figures, for times the inverse quotient, so that a value
    above 1 always means better."""

    value: float
    low: float  # lower end of the interval; 0 if the interval has no lower end
    high: float
    pairs: int
    verdict: LeadVerdict
    state: State | None = None  # state of the machine; None: all states together

    def turned(self) -> LeadRatio:
        """Return the ratio with the contenders exchanged."""
        high = 1 / self.low if self.low else math.inf
        return replace(self, value=1 / self.value, low=1 / self.high, high=high)


@dataclass(frozen=True, slots=True)
class Lead:
    """The comparison of two contenders. `ratios` are above 1, unless they differ between states of
    the machine: they say how much better `ahead` is than `behind`."""

    ahead: str
    behind: str
    verdict: LeadVerdict
    ratios: tuple[LeadRatio, ...]  # one, or one for each state; empty if there are too few pairs
    pairs: int  # pairs of trials in the same block
    further_s: float | None  # seconds that would decide it; None: decided, or no time would
    further_blocks: int | None = None  # the same in blocks

    def seen_from(self, contender: str) -> tuple[LeadRatio, ...]:
        """Return the factors by which this contender is better than the other one."""
        if contender == self.ahead:
            return self.ratios
        return tuple(one.turned() for one in self.ratios)


@dataclass(frozen=True, slots=True)
class MeasuredTrial:
    """One trial of a contender."""

    block: int
    figure: float  # in the unit of the metric
    state: State  # state of the machine; CHANGED: the longest part in one state counts
    unused: str  # reason why the trial does not count; empty if it counts


@dataclass(frozen=True, slots=True)
class RankedContender:
    """One contender at a point: its typical figure and its trials."""

    contender: str
    trial: Trial  # repetition 0
    typical: float  # median over the trials, in the unit of the metric
    low: float | None  # 95 % interval of the typical figure; None: fewer than six trials
    high: float | None
    trials: int  # trials that count
    measured: tuple[MeasuredTrial, ...] = ()  # all trials that have a figure


@dataclass(frozen=True, slots=True)
class PointAnswer:
    """The comparison result for one figure at one point.

    `ranking` has the best contender first: the order of the proven leads, then of the ratios by
    blocks, then of the typical figures. `leads` has every pair of contenders, in that order."""

    point: Point
    metric: Metric
    decides: bool  # the campaign continues until this figure is decided
    ranking: tuple[RankedContender, ...]
    leads: tuple[Lead, ...]
    blocks: int
    trials: int
    left_out: Mapping[str, int]  # number of trials that do not count, by reason
    lines: LineTimes | None  # the two states of the machine; None if it has one state
    prove: float  # the smallest lead that matters
    confidence: float
    testbed: str = ""  # the testbed of a pool, if each testbed decides separately

    def between(self, contender: str, other: str) -> Lead | None:
        """Return the comparison of these two, independent of the order; None if there is none."""
        pair = {contender, other}
        return next((lead for lead in self.leads if {lead.ahead, lead.behind} == pair), None)

    @property
    def untested(self) -> str:
        """The reason why no pair of contenders was tested; empty if a pair was."""
        if any(lead.ratios for lead in self.leads):
            return ""
        if self.blocks < 2:
            return "nothing can be tested with one repetition of a contender"
        pairs = max((lead.pairs for lead in self.leads), default=0)
        return (
            f"nothing can be tested: {pairs} {'block has' if pairs == 1 else 'blocks have'} a "
            f"valid figure of two contenders, and {FEWEST_PAIRS} are needed"
        )


def answer_run(
    run: Run, names: Mapping[str, str], overhead_s: Callable[[str], float]
) -> list[PointAnswer]:
    """Return the comparison results of a run, in the order of its points.

    `names` gives the name of a contender by the id of its first trial, and `overhead_s` the usual
    seconds around a trial of a switch. There is a result for each point with two or more
    contenders, and for each figure that they have; the first figure of a point decides. A run with
    one repetition has results without ratios."""
    info = run.info
    proving = Proving.of(
        info.parsed_definition.model_dump(), overhead_s, info.parsed_settings.testbeds
    )
    return answer(observed_in(run), proving, names)


def observations(run: Run) -> Iterator[tuple[Observed, Record]]:
    """Yield each record of the run with its observation. Unreadable files are left out; the tables
    name them."""
    resumed = run.resumed_at()
    for path in run.paths():
        with suppress(CorruptResultError):
            record = read_record(path)
            yield observe(record, resumed), record


@lru_cache(maxsize=1)
def observed_in(run: Run) -> tuple[Observed, ...]:
    """Return the observations of a run. A `Run` object reads its records once."""
    return tuple(item for item, _ in observations(run))


def answer(
    observed: Sequence[Observed], proving: Proving, names: Mapping[str, str]
) -> list[PointAnswer]:
    """Return the comparison results, in the order of the first trial of each point."""
    results = []
    trials = {item.trial.id: item.trial for item in observed if not item.is_baseline}
    whole_s = proving.round_s(trials.values())
    for point, everywhere in points_of(observed).items():
        for exact_point, testbed, group in _comparable_groups(point, everywhere, proving):
            was_decided = False
            for place, metric in enumerate(metrics_of(group)):
                analyses = analyses_of(group, metric, proving, whole_s, was_decided=was_decided)
                if place == 0:
                    was_decided = not analyses.needed
                result = _answer(exact_point, group, metric, place == 0, analyses, proving, names)
                results.append(replace(result, testbed=testbed))
    return results


def _comparable_groups(
    point: Point, observed: list[Observed], proving: Proving
) -> Iterator[tuple[Point, str, list[Observed]]]:
    """Yield each group of observations that are compared with each other: one testbed and one page
    size, with the point that includes the page size."""
    for testbed, group in _by_testbed(observed, proving):
        for exact_point, alike in by_page_size(point, group):
            if len({item.contender for item in alike}) > 1:
                yield exact_point, testbed, alike


def by_page_size(
    point: Point, observed: Sequence[Observed]
) -> Iterator[tuple[Point, list[Observed]]]:
    """Yield the observations at a point for each page size of DPDK's memory; all together if the
    campaign compares page sizes."""
    if is_compared(dict(point).get("compared") or ""):
        yield point, list(observed)
        return
    for kib, alike in apart(observed, lambda one: one.page_size_kib):
        yield point_at(point, kib), alike


def _by_testbed(observed: list[Observed], proving: Proving) -> Iterator[tuple[str, list[Observed]]]:
    """Yield the observations of each testbed, with blocks numbered by testbed; all together if the
    campaign does not decide for each testbed."""
    if not proving.testbeds:
        yield "", observed
        return
    for testbed in proving.testbeds:
        group = [item for item in observed if item.testbed == testbed]
        if len({item.contender for item in group}) > 1:
            yield testbed, [replace(item, block=proving.block_of(item.block)) for item in group]


def points_of(observed: Iterable[Observed]) -> dict[Point, list[Observed]]:
    """Return the observations that are compared, by point. A point has at least two contenders. A
    baseline is not a contender, and a switch with injected faults is compared only with itself."""
    points: dict[Point, list[Observed]] = defaultdict(list)
    for item in sorted(observed, key=lambda item: item.start_s):
        if not item.is_baseline:
            points[point_of(item.trial)].append(item)
    for point, group in points.items():
        points[point] = [item for item in group if item.trial.switch != KNOWN_TRUTH] or group
    return {p: group for p, group in points.items() if len({o.contender for o in group}) > 1}


def metrics_of(observed: Iterable[Observed]) -> list[Metric]:
    """Return the figures that are compared; the first one decides. Lower bounds of searches are
    left out, because the limits above them are unknown."""
    figures = dict.fromkeys(metric for item in observed for metric in item.figures)
    return [metric for metric in figures if not metric.is_bound]


def analyses_of(
    observed: Sequence[Observed],
    metric: Metric,
    proving: Proving,
    whole_round_s: float,
    *,
    was_decided: bool = False,
) -> InterimAnalyses:
    """Return all interim analyses of a figure that were due, and a last one of all observations.

    The last one uses the rest of the error probability only if time ended the campaign, not if a
    decision did: about this figure, or (`was_decided`) about the figure that decides."""
    contenders = {item.contender: item.trial for item in observed}
    rule, blocks = proving.rule(list(contenders.values()), whole_round_s), blocks_of(observed)
    if not proving.stops and blocks > rule.analyses[-1]:  # a later command added repetitions
        rule = replace(rule, analyses=(blocks,))
    analyses = InterimAnalyses(metric, rule, proving.prove, list(contenders))
    for count in range(1 if proving.stops else blocks, blocks + 1):
        analyses.after([item for item in observed if item.block < count], count)
    was_planned = rule.is_analysis(blocks) and (
        was_decided or not proving.stops or not analyses.needed
    )
    if not was_planned:
        analyses.after(observed, blocks, is_last=True)
    return analyses


def _answer(
    point: Point,
    observed: list[Observed],
    metric: Metric,
    decides: bool,
    analyses: InterimAnalyses,
    proving: Proving,
    names: Mapping[str, str],
) -> PointAnswer:
    ranking = sorted(
        _ranked(observed, metric, names),
        key=lambda ranked: -ranked.typical if metric.higher_is_better else ranked.typical,
    )
    trials = as_block_trials(observed, metric)
    levels = filter(None, levels_of(trials).values())
    # The usual time of a pair of trials, with the time of the bench around them.
    pair_s = 2 * statistics.median(item.end_s - item.start_s for item in observed)
    compared = {frozenset((pair.a, pair.b)): pair for pair in analyses.comparisons}

    def leads_of(order: Iterable[RankedContender]) -> Iterator[Lead]:
        for better, other in combinations(order, 2):
            if (pair := frozenset((better.trial.id, other.trial.id))) in compared:
                yield _lead(compared[pair], better, other, metric.higher_is_better, pair_s)

    ranking = _by_leads(ranking, list(leads_of(ranking)))
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


def _by_leads(
    by_typical: Iterable[RankedContender], leads: Sequence[Lead]
) -> list[RankedContender]:
    """Return the contenders in this order, but each one behind those that lead it.

    The trials of two contenders can lie unevenly in the states of the machine, while a pair is of
    one block. Proven leads come first. Other leads count unless they form a circle with them, or
    have so few pairs that one disturbed trial decides their sign."""
    proven = {(lead.ahead, lead.behind) for lead in leads if lead.verdict is LeadVerdict.AHEAD}
    all_ = proven | {
        (lead.ahead, lead.behind)
        for lead in leads
        if lead.ratios and all(r.value > 1 and r.pairs >= MIN_PAIRS for r in lead.ratios)
    }
    remaining, ordered = list(by_typical), []
    while remaining:
        names = [ranked.contender for ranked in remaining]

        def free(pairs: set[tuple[str, str]], names: list[str] = names) -> list[int]:
            return [
                place
                for place, name in enumerate(names)
                if not any((other, name) in pairs for other in names)
            ]

        # Index 0 breaks a circle of leads.
        first = next(iter(free(all_) or free(proven)), 0)
        ordered.append(remaining.pop(first))
    return ordered


def _ranked(
    observed: Sequence[Observed], metric: Metric, names: Mapping[str, str]
) -> Iterable[RankedContender]:
    observed = sorted(observed, key=lambda item: item.start_s)  # the order of the block trials
    trials = as_block_trials(observed, metric)
    states = label(trials)
    first = {item.contender: item.trial for item in observed}
    figures_of: dict[str, list[float]] = defaultdict(list)
    measured: dict[str, list[MeasuredTrial]] = defaultdict(list)
    for item, trial, state in zip(observed, trials, states, strict=True):
        if trial.figure is not None:
            figures_of[trial.contender].append(trial.figure)
        if (figure := item.figures.get(metric)) is not None:
            measured[trial.contender].append(MeasuredTrial(item.block, figure, state, item.unused))
    for contender, figures in figures_of.items():
        low, high = median_interval(figures)
        yield RankedContender(
            contender=names.get(contender, first[contender].called),
            trial=first[contender],
            typical=typical(figures),
            low=low,
            high=high,
            trials=len(figures),
            measured=tuple(measured[contender]),
        )


def _lead(
    found: PairedComparison,
    better: RankedContender,
    other: RankedContender,
    higher: bool,
    pair_s: float,
) -> Lead:
    """Return the comparison from the side of the contender with the better typical figure; from the
    other side if all ratios by blocks are below 1."""
    # True if the ratio a / b of the figures is below 1 for a lead of `better`.
    turned = (found.a == better.trial.id) != higher
    ratios = tuple(_lead_ratio(decision, turned=turned) for decision in found.decisions)
    verdict = _verdict(ratios)
    ahead, behind = better.contender, other.contender
    if ratios and all(ratio.value < 1 for ratio in ratios):
        ratios = tuple(ratio.turned() for ratio in ratios)
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
    verdicts = {ratio.verdict for ratio in ratios}
    if not verdicts or LeadVerdict.UNDECIDED in verdicts:
        return LeadVerdict.UNDECIDED
    sides = {ratio.value > 1 for ratio in ratios if ratio.verdict is LeadVerdict.AHEAD}
    return verdicts.pop() if len(verdicts) == 1 and len(sides) <= 1 else LeadVerdict.DEPENDS
