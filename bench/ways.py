"""Methods that decide which of two contenders is faster, all on the same series: the bench's, few
long trials in turns, and those of other tools. A method gets a piece of a series and the seconds
that it may use."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from scipy.stats import mannwhitneyu

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.boundaries import StoppingRule, planned_analyses
from switchmark.statistics.comparison import ratio_of
from switchmark.statistics.sequential import Outcome, PairedComparison, analyse

LEVEL = 0.05
LONG_TRIAL_S = 5.0  # a usual length
LONG_OVERHEAD_S = 1.0
CSIT_TRIALS, CSIT_TRIAL_S = 5, 10.0
HYPERFINE_RUNS = 10  # its default minimum
BENCHSTAT_RUNS = 10  # the number that its documentation recommends


@dataclass(frozen=True)
class Claim:
    """The conclusion of a reader: 1 is "a is higher", -1 "b is higher", 0 "the same"."""

    sign: int
    low: float = math.nan  # bounds of the ratio a / b, if the method gives an interval
    high: float = math.nan


@dataclass(frozen=True)
class Piece:
    """A contiguous piece of a series of two contenders; trials in the order of time."""

    a: str
    b: str
    trials: tuple[BlockTrial, ...]

    @cached_property
    def block_s(self) -> float:
        """Return the median time from block to block."""
        starts: dict[int, float] = {}
        for trial in self.trials:
            starts.setdefault(trial.block, trial.start_s)
        times = sorted(starts.values())
        return statistics.median(y - x for x, y in pairwise(times))

    def figures(self, contender: str, begin_s: float, end_s: float) -> list[float]:
        """Return the figures of one contender's trials that began in a stretch of the piece."""
        first = self.trials[0].start_s
        return [
            trial.figure
            for trial in self.trials
            if trial.contender == contender
            and begin_s <= trial.start_s - first < end_s
            and trial.figure is not None
        ]

    def long_trial(self, contender: str, begin_s: float, length_s: float) -> float | None:
        """Return the result of one long trial: the mean of the short trials in its time."""
        figures = self.figures(contender, begin_s, begin_s + length_s)
        return statistics.fmean(figures) if figures else None


Way = Callable[[Piece, Sequence[float]], dict[float, Claim | None]]


def own_method(piece: Piece, seconds: Sequence[float]) -> dict[float, Claim | None]:
    """Use pairs with their states, and analyses planned for the longest time; return results by
    time."""
    most = int(max(seconds) / piece.block_s)
    rule = StoppingRule(planned_analyses(most))
    first = piece.trials[0].block
    comparisons: list[PairedComparison] = []
    ends: list[tuple[float, PairedComparison]] = []
    for count in rule.analyses:
        part = [trial for trial in piece.trials if trial.block < first + count]
        comparisons = analyse(part, rule, count, pairs=[(piece.a, piece.b)], earlier=comparisons)
        ends.append((count * piece.block_s, comparisons[0]))
        if comparisons[0].is_decided:
            break
    claims: dict[float, Claim | None] = {}
    for time_s in seconds:
        reached = [one for end_s, one in ends if end_s <= time_s + 1e-6]
        claims[time_s] = _claim(reached[-1]) if reached else None
    return claims


def _claim(comparison: PairedComparison) -> Claim | None:
    outcomes = {decision.outcome for decision in comparison.decisions}
    if not comparison.decisions:
        return None
    ratio = comparison.decisions[0].ratio  # if states differ, that of the more frequent state
    if Outcome.HIGHER in outcomes or Outcome.LOWER in outcomes:
        return Claim(1 if Outcome.HIGHER in outcomes else -1, ratio.low, ratio.high)
    if outcomes == {Outcome.SAME}:
        return Claim(0, ratio.low, ratio.high)
    return Claim(2, ratio.low, ratio.high)  # undecided, with its interval


def each_time(way: Callable[[Piece, float], Claim | None]) -> Way:
    """Return a method that plans for one time, applied at every time."""
    return lambda piece, seconds: {time_s: way(piece, time_s) for time_s in seconds}


def in_turns(piece: Piece, time_s: float) -> Claim | None:
    """Use trials of 5 s in turns, and Welch's t-test of their results."""
    turn_s = LONG_TRIAL_S + LONG_OVERHEAD_S
    count = int(time_s / (2 * turn_s))
    sides = [
        [
            found
            for index in range(count)
            if (
                found := piece.long_trial(name, (2 * index + place) * turn_s, LONG_TRIAL_S)
            ) is not None
        ]
        for place, name in enumerate((piece.b, piece.a))
    ]  # fmt: skip
    return _welch(*sides)


def csit(piece: Piece, time_s: float) -> Claim | None:
    """Use five trials of 10 s of one contender, then five of the other; Welch's test of the
    means."""
    half_s = CSIT_TRIALS * CSIT_TRIAL_S
    if time_s < 2 * half_s:
        return None
    sides = [
        [
            found
            for index in range(CSIT_TRIALS)
            if (
                found := piece.long_trial(
                    name, place * half_s + index * CSIT_TRIAL_S, CSIT_TRIAL_S
                )
            ) is not None
        ]
        for place, name in enumerate((piece.b, piece.a))
    ]  # fmt: skip
    return _welch(*sides)


def _welch(b: Sequence[float], a: Sequence[float]) -> Claim | None:
    found = ratio_of(b, a)
    if found.p is None or found.value is None or found.low is None or found.high is None:
        return None
    sign = (1 if found.value > 1 else -1) if found.p < LEVEL else 2
    return Claim(sign, found.low, found.high)


def hyperfine(piece: Piece, time_s: float) -> Claim | None:
    """Use all runs of one contender, then all of the other: "a ran x +- y times faster", a claim if
    x - y is above 1."""
    a, b = (_in_turn(piece, time_s, place) for place in (0, 1))
    if min(len(a), len(b)) < HYPERFINE_RUNS:
        return None
    ratio = statistics.fmean(a) / statistics.fmean(b)
    deviation = ratio * math.hypot(
        statistics.stdev(a) / statistics.fmean(a), statistics.stdev(b) / statistics.fmean(b)
    )
    low, high = ratio - deviation, ratio + deviation
    return Claim(1 if low > 1 else -1 if high < 1 else 2, low, high)


def benchstat(piece: Piece, time_s: float) -> Claim | None:
    """Use all runs of one contender, then all of the other; Mann and Whitney's U, a claim if p <
    0.05."""
    a, b = (_in_turn(piece, time_s, place) for place in (0, 1))
    if min(len(a), len(b)) < BENCHSTAT_RUNS:
        return None
    if float(mannwhitneyu(a, b).pvalue) >= LEVEL:
        return Claim(2)
    return Claim(1 if statistics.median(a) > statistics.median(b) else -1)


def _in_turn(piece: Piece, time_s: float, place: int) -> list[float]:
    begin_s = (1 - place) * time_s / 2  # b first, as "old" is before "new"
    return piece.figures((piece.a, piece.b)[place], begin_s, begin_s + time_s / 2)


WAYS: dict[str, Way] = {
    "blocks, pairs with their states, interim analyses": own_method,
    "trials of 5 s in turns, Welch": each_time(in_turns),
    "CSIT: 5 x 10 s each": each_time(csit),
    "benchstat: runs one after the other, Mann-Whitney": each_time(benchstat),
    "hyperfine: runs one after the other, mean +- sd": each_time(hyperfine),
}
