"""Expectations of a campaign: judges whether the figures of a run prove or refute them.

Each repetition is one observation. A bound is met, or violated, if the interval of the mean is
completely on one side of it. A bound relative to the baseline is met, or violated, if Welch's test
of the logarithms proves that the ratio is on one side. The level is divided among all verdicts of a
run (Bonferroni) and, if figures decide when a campaign ends, among its interim analyses. Therefore
a confidence of 95 % holds for all verdicts together."""

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
from switchmark.statistics.boundaries import StoppingRule, planned_analyses
from switchmark.statistics.comparison import ratio_of
from switchmark.statistics.defaults import CONFIDENCE
from switchmark.statistics.means import Estimate, estimate
from switchmark.statistics.sequential import BEYOND_HOPE, POWER

# Overhead of the bench for a trial, if no record has it.
_OVERHEAD_GUESS_S = 2.0


class ExpectationOutcome(StrEnum):
    """The result of an expectation at one trial."""

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
    figure: Estimate | None  # None: not measured
    reason: str  # why the expectation is undecided or the figure unusable
    needs_s: float | None = None  # additional measuring time that would decide; None: no time would
    testbed: str = ""  # testbed of a pool; each testbed is judged separately


@dataclass(frozen=True, slots=True)
class _InterimAnalyses:
    """The interim analyses in which a campaign judges its figures."""

    counts: tuple[int, ...]  # repetitions at each analysis; a single count: a fixed number
    level: float

    @classmethod
    def of(cls, definition: Mapping[str, Any], trial_s: float) -> _InterimAnalyses:
        settings = RunDefinition.model_validate(definition)
        level = 1 - (settings.confidence or CONFIDENCE)
        if settings.budget_s is not None:
            return cls(
                planned_analyses(max(2, math.ceil(settings.budget_s / max(trial_s, 0.1)))), level
            )
        if settings.until_ci is not None:
            return cls(
                StoppingRule.after_each(settings.repetitions, settings.max_repetitions).analyses,
                level,
            )
        return cls((), level)

    def level_of(self, count: int, family: int) -> float:
        """Return the two-sided level of each of `family` verdicts after `count` repetitions."""
        if len(self.counts) < 2 or count < 2:
            return self.level / family
        return StoppingRule(self.counts, self.level, family).level_at(count, is_last=True)


def expected_of(run: Run) -> list[Expectation]:
    """Return the expectations of a run's campaign. Raises UsageError if they are not valid."""
    try:
        entries = run.info.definition.get("expect", [])
        return [Expectation.model_validate(entry) for entry in entries]
    except ValidationError as error:
        raise UsageError(f"{run.directory}/run.json: expect: {error}") from error


def judge_testbeds(
    definition: Mapping[str, Any],
    rows: Mapping[str, Sequence[SummaryRow]],
    expected: Sequence[Expectation],
) -> list[Judgement]:
    """Judge each testbed of a run of a pool separately, because repetitions on one machine are more
    alike than machines are. All testbeds share one level."""
    return [
        replace(judgement, testbed=testbed)
        for testbed, testbed_rows in sorted(rows.items())
        for judgement in judge_run(definition, testbed_rows, expected, times=len(rows))
    ]


def judge_run(
    definition: Mapping[str, Any],
    rows: Sequence[SummaryRow],
    expected: Sequence[Expectation],
    *,
    times: int = 1,
) -> list[Judgement]:
    """Judge every expectation at every trial that should have its figure, except the baseline. All
    verdicts of `times` runs like this one share one level."""
    judged = [
        (expectation, row)
        for row in rows
        for expectation in expected
        if not row.is_baseline
        and row.trial.dimension in expectation.dimensions
        and _has(expectation, row)
    ]
    shortest_s = min((row.trial.duration_s for _, row in judged), default=1.0)
    analyses = _InterimAnalyses.of(definition, shortest_s)
    family = times * max(1, len(judged))
    return [_judge(expectation, row, rows, analyses, family) for expectation, row in judged]


def _has(expectation: Expectation, row: SummaryRow) -> bool:
    """Return True if a trial should have the figure, also if it failed. A search has no loss, and
    its figure has no baseline."""
    return row.method is None or expectation.figure is ExpectedFigure.THROUGHPUT


def _judge(
    expectation: Expectation,
    row: SummaryRow,
    rows: Sequence[SummaryRow],
    analyses: _InterimAnalyses,
    family: int,
) -> Judgement:
    figure = _figure(expectation, row)
    if not row.finished or row.failed or not row.valid:
        why = row.failures[0] if row.failures else f"not valid: {', '.join(row.marks)}"
        return Judgement(expectation, row, ExpectationOutcome.UNUSABLE, figure, why)
    level = analyses.level_of(row.finished, family)
    if expectation.figure is ExpectedFigure.SLOWER_THAN_BASELINE:
        return _compare_with_baseline(expectation, row, rows, level)
    if figure is None:
        return Judgement(
            expectation, row, ExpectationOutcome.UNUSABLE, None, "there is no such figure"
        )
    mean = estimate(figure.values, level)
    if mean.low is None or mean.high is None:
        return _undecided(expectation, row, mean, 2)
    if mean.low <= expectation.bound <= mean.high and mean.low < mean.high:
        return _undecided(expectation, row, mean, _needed(mean, expectation.bound, level))
    is_met = (
        mean.mean >= expectation.bound
        if expectation.relation == ">="
        else mean.mean <= expectation.bound
    )
    return Judgement(expectation, row, _OUTCOMES[is_met], mean, "")


def _figure(expectation: Expectation, row: SummaryRow) -> Estimate | None:
    match expectation.figure:
        case ExpectedFigure.THROUGHPUT if row.method is not None:
            figure = row.method.figure(row.method.headline)
            return figure.value if figure is not None and figure.unit == "pps" else None
        case ExpectedFigure.THROUGHPUT if row.throughput or row.transfer:
            return headline(row)
        case ExpectedFigure.LOSS if (loads := row.throughput or row.transfer) is not None:
            return loads.loss_ratio
        case ExpectedFigure.RTT_P50 if row.latency is not None:
            return row.latency.p50_ns
        case ExpectedFigure.RTT_P99 if row.latency is not None:
            return row.latency.p99_ns
    return None


def _compare_with_baseline(
    expectation: Expectation, row: SummaryRow, rows: Sequence[SummaryRow], level: float
) -> Judgement:
    """Judge whether the switch is slower than the baseline by more than the bound."""
    baseline = baseline_of(row, rows)
    figure = headline(row)
    if baseline is None or not baseline.valid:
        why = "the baseline was not measured; leave out --no-baseline"
        return Judgement(expectation, row, ExpectationOutcome.UNDECIDED, figure, why)
    sign = 1 if row.latency is not None else -1  # slower means a longer time or a lower rate
    values, mean = headline(baseline).values, headline(baseline).mean
    test = ratio_of([value * (1 + sign * expectation.bound) for value in values], figure.values)
    slower = estimate([sign * (value / mean - 1) for value in figure.values])
    if test.p is None or test.value is None:
        why = "one repetition proves nothing; set repetitions in place of budget or prove"
        return Judgement(expectation, row, ExpectationOutcome.UNDECIDED, slower, why)
    if test.p >= level:
        count = min(len(values), row.finished)
        return _undecided(expectation, row, slower, max(count + 1, 2 * count))
    is_slower = test.value > 1 if row.latency is not None else test.value < 1
    is_met = is_slower != (expectation.relation == "<=")
    return Judgement(expectation, row, _OUTCOMES[is_met], slower, "")


def _undecided(
    expectation: Expectation, row: SummaryRow, figure: Estimate, needed: int | None
) -> Judgement:
    if needed is None:
        why = "the figure is at the bound, so no number of repetitions decides"
        return Judgement(expectation, row, ExpectationOutcome.UNDECIDED, figure, why)
    further = max(1, needed - figure.count)
    each_s = row.trial.duration_s + (row.overhead_s or _OVERHEAD_GUESS_S)
    why = f"needs about {further} more repetitions"
    return Judgement(expectation, row, ExpectationOutcome.UNDECIDED, figure, why, further * each_s)


def _needed(figure: Estimate, bound: float, level: float) -> int | None:
    """Return the number of repetitions after which an interval of this spread excludes the bound;
    None: too many."""
    from scipy.special import ndtri

    gap = abs(figure.mean - bound)
    reach = float(ndtri(1 - level / 2) + ndtri(POWER))
    needed = (reach * (figure.stdev or 0.0) / gap) ** 2 if gap > 0 else math.inf
    return None if needed > BEYOND_HOPE else max(math.ceil(needed), figure.count + 1)
