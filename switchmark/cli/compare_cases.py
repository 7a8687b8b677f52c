"""The options that all forms of `switchmark compare` have, and verdicts as test cases of a CI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.formatting import format_duration
from switchmark.record.metric import Metric
from switchmark.report.junit import Case, CaseOutcome
from switchmark.results.comparable import Measured
from switchmark.statistics.comparison import THRESHOLD, Correction, Verdict

GROUP = "compare"
_OUTCOMES = {
    Verdict.WORSE: CaseOutcome.FAILURE,
    Verdict.UNCLEAR: CaseOutcome.SKIPPED,
    Verdict.UNTESTABLE: CaseOutcome.SKIPPED,
}


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """The options that all forms of `compare` have."""

    metrics: Sequence[Metric]
    threshold: float | None  # None: the usual one of what is compared
    correction: Correction
    strict: bool
    json: bool

    @property
    def smallest_change(self) -> float:
        """The threshold between runs."""
        return THRESHOLD if self.threshold is None else self.threshold


@dataclass(frozen=True, slots=True)
class Compared:
    """The outcome of a comparison."""

    exit_code: int
    cases: Sequence[Case]


def verdict_case(
    name: str,
    verdict: Verdict,
    amount: str,
    threshold: float,
    further: int | None = None,
    duration_s: float = 0.0,
) -> Case:
    """The verdict on one figure of one trial; `further` repetitions a side would decide it."""
    message = f"{verdict}: {amount}; changes below {threshold:.1%} do not matter"
    if further is not None:
        time = format_duration(further * duration_s)
        message += f"; needs about {further} more repetitions a side, {time} of traffic each"
    return Case(name, GROUP, _OUTCOMES.get(verdict, CaseOutcome.PASSED), message)


def why_broken(now: Measured) -> str:
    """Why a trial that worked before has no figure now."""
    return now.failed[0] if now.failed else "no valid repetition"


def broken_case(name: str, now: Measured) -> Case:
    """A trial that worked before and fails now."""
    return Case(name, GROUP, CaseOutcome.FAILURE, f"worked before, not now: {why_broken(now)}")


def skipped_case(name: str, why: str) -> Case:
    """A trial that was not compared."""
    return Case(name, GROUP, CaseOutcome.SKIPPED, f"not compared: {why}")
