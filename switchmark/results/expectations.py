"""Whether a run's figures are what its campaign expects: proven, refuted, or undecided.

Each repetition is one observation. A bound is met, or violated, when the interval of the mean lies
on one side of it; a bound relative to the bare wire, when Welch's test of the logarithms proves the
ratio to lie on one side. The level is divided among all verdicts that are given together
(Bonferroni) and, where figures decide how long a campaign goes on, among its looks: 95 % holds for
all verdicts together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from switchmark.errors import UsageError
from switchmark.model.expectation import Expectation, ExpectedFigure
from switchmark.results.ranking import baseline_of, headline
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run
from switchmark.results.run_info import RunDefinition
from switchmark.statistics.boundaries import StoppingRule, planned_looks
from switchmark.statistics.comparison import ratio_of
from switchmark.statistics.defaults import CONFIDENCE
from switchmark.statistics.means import Estimate, estimate
from switchmark.statistics.sequential import BEYOND_HOPE, POWER

_OWN_TIME_GUESS_S = 2.0  # of the bench around a trial, where no record has it


class ExpectationOutcome(StrEnum):
    """Whether an expectation is met at one trial."""

    MET = "met"
    VIOLATED = "violated"
    UNDECIDED = "undecided"
    UNUSABLE = "unusable"  # the trial failed, or its figure is not valid


_OUTCOMES = {True: ExpectationOutcome.MET, False: ExpectationOutcome.VIOLATED}


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one expectation at one trial."""

    expectation: Expectation
    row: SummaryRow
    outcome: ExpectationOutcome
    figure: Estimate | None  # None: there is none
    reason: str  # why it is not decided, or not usable
    needs_s: float | None = None  # further measuring that would decide; None: nothing would
    testbed: str = ""  # of a pool, of which each is judged by itself


@dataclass(frozen=True, slots=True)
class _Looked:
    """The looks at which a campaign's figures were judged."""

    looks: tuple[int, ...]  # counts of repetitions; one: a set number
    level: float

    @classmethod
    def of(cls, definition: Mapping[str, Any], trial_s: float) -> _Looked:
        read = RunDefinition.model_validate(definition)
        level = 1 - (read.confidence or CONFIDENCE)
        if read.budget_s is not None:
            return cls(planned_looks(max(2, math.ceil(read.budget_s / max(trial_s, 0.1)))), level)
        if read.until_ci is not None:
            return cls(StoppingRule.after_each(read.repetitions, read.max_repetitions).looks, level)
        return cls((), level)

    def level_of(self, count: int, family: int) -> float:
        """The two-sided level of one of so many verdicts, after so many repetitions."""
        if len(self.looks) < 2 or count < 2:
            return self.level / family
        return StoppingRule(self.looks, self.level, family).level_at(count, is_last=True)


def expected_of(run: Run) -> list[Expectation]:
    """The expectations of a run's campaign. Raises UsageError where they cannot be read."""
    try:
        asked = run.info.definition.get("expect", [])
        return [Expectation.model_validate(one) for one in asked]
    except ValidationError as error:
        raise UsageError(f"{run.directory}/run.json: expect: {error}") from error


def judge_testbeds(
    definition: Mapping[str, Any],
    rows: Mapping[str, Sequence[SummaryRow]],
    expected: Sequence[Expectation],
) -> list[Judgement]:
    """Judge a run that a pool has measured, testbed by testbed. Repetitions on one machine are more
    alike than machines are, so each testbed is judged by itself; they share the level."""
    return [
        replace(one, testbed=testbed)
        for testbed, own in sorted(rows.items())
        for one in judge_run(definition, own, expected, times=len(rows))
    ]


def judge_run(
    definition: Mapping[str, Any],
    rows: Sequence[SummaryRow],
    expected: Sequence[Expectation],
    *,
    times: int = 1,
) -> list[Judgement]:
    """Judge every expectation at every trial that should have its figure; the bare wire is left
    out. All verdicts share one level; `times`: so many runs like this one are judged together."""
    judged = [
        (one, row)
        for row in rows
        for one in expected
        if not row.is_baseline and row.trial.dimension in one.dimensions and _has(one, row)
    ]
    shortest_s = min((row.trial.duration_s for _, row in judged), default=1.0)
    looked = _Looked.of(definition, shortest_s)
    family = times * max(1, len(judged))
    return [_judge(one, row, rows, looked, family) for one, row in judged]


def _has(one: Expectation, row: SummaryRow) -> bool:
    """Whether a trial should have the figure: a failed one should; a search has no loss, and its
    figure has no bare wire's beside it."""
    return row.method is None or one.figure is ExpectedFigure.THROUGHPUT


def _judge(
    one: Expectation, row: SummaryRow, rows: Sequence[SummaryRow], looked: _Looked, family: int
) -> Judgement:
    figure = _figure(one, row)
    if not row.finished or row.failed or not row.valid:
        why = row.failures[0] if row.failures else f"not valid: {', '.join(row.marks)}"
        return Judgement(one, row, ExpectationOutcome.UNUSABLE, figure, why)
    level = looked.level_of(row.finished, family)
    if one.figure is ExpectedFigure.SLOWER_THAN_BASELINE:
        return _beside_the_wire(one, row, rows, level)
    if figure is None:
        return Judgement(one, row, ExpectationOutcome.UNUSABLE, None, "there is no such figure")
    found = estimate(figure.values, level)
    if found.low is None or found.high is None:
        return _undecided(one, row, found, 2)
    if found.low <= one.bound <= found.high and found.low < found.high:
        return _undecided(one, row, found, _needed(found, one.bound, level))
    is_met = found.mean >= one.bound if one.relation == ">=" else found.mean <= one.bound
    return Judgement(one, row, _OUTCOMES[is_met], found, "")


def _figure(one: Expectation, row: SummaryRow) -> Estimate | None:
    match one.figure:
        case ExpectedFigure.THROUGHPUT if row.method is not None:
            found = row.method.figure(row.method.headline)
            return found.value if found is not None and found.unit == "pps" else None
        case ExpectedFigure.THROUGHPUT if row.throughput or row.transfer:
            return headline(row)
        case ExpectedFigure.LOSS if (loads := row.throughput or row.transfer) is not None:
            return loads.loss_ratio
        case ExpectedFigure.RTT_P50 if row.latency is not None:
            return row.latency.p50_ns
        case ExpectedFigure.RTT_P99 if row.latency is not None:
            return row.latency.p99_ns
    return None


def _beside_the_wire(
    one: Expectation, row: SummaryRow, rows: Sequence[SummaryRow], level: float
) -> Judgement:
    """Whether the switch is slower than the bare wire by more than the bound."""
    wire = baseline_of(row, rows)
    figure = headline(row)
    if wire is None or not wire.valid:
        why = "the bare wire was not measured beside it; leave out --no-baseline"
        return Judgement(one, row, ExpectationOutcome.UNDECIDED, figure, why)
    sign = 1 if row.latency is not None else -1  # slower is longer, or less
    values, mean = headline(wire).values, headline(wire).mean
    test = ratio_of([value * (1 + sign * one.bound) for value in values], figure.values)
    slower = estimate([sign * (value / mean - 1) for value in figure.values])
    if test.p is None or test.value is None:
        why = "one repetition proves nothing; set repetitions in place of budget or prove"
        return Judgement(one, row, ExpectationOutcome.UNDECIDED, slower, why)
    if test.p >= level:
        count = min(len(values), row.finished)
        return _undecided(one, row, slower, max(count + 1, 2 * count))
    is_slower = test.value > 1 if row.latency is not None else test.value < 1
    is_met = is_slower != (one.relation == "<=")
    return Judgement(one, row, _OUTCOMES[is_met], slower, "")


def _undecided(
    one: Expectation, row: SummaryRow, figure: Estimate, needed: int | None
) -> Judgement:
    if needed is None:
        why = "the figure is at the bound: no number of repetitions decides"
        return Judgement(one, row, ExpectationOutcome.UNDECIDED, figure, why)
    further = max(1, needed - figure.count)
    each_s = row.trial.duration_s + (row.overhead_s or _OWN_TIME_GUESS_S)
    why = f"needs about {further} more repetitions"
    return Judgement(one, row, ExpectationOutcome.UNDECIDED, figure, why, further * each_s)


def _needed(found: Estimate, bound: float, level: float) -> int | None:
    """Repetitions after which an interval of this spread no longer holds the bound; None: too
    many."""
    from scipy.special import ndtri

    gap = abs(found.mean - bound)
    reach = float(ndtri(1 - level / 2) + ndtri(POWER))
    needed = (reach * (found.stdev or 0.0) / gap) ** 2 if gap > 0 else math.inf
    return None if needed > BEYOND_HOPE else max(math.ceil(needed), found.count + 1)
