"""The rounds of one reference check, and the decision about each of its figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from switchmark.certify.support.decision import JudgedErrors, judge, judge_counts, rule_for
from switchmark.certify.support.reference_check import ReferenceCheck, Round
from switchmark.record import CertifiedFigure
from switchmark.record.certificate import (
    NOT_TRIED,
    PROVEN,
    REFUTED,
    UNDECIDED,
    CertifiedOutcome,
    Outcome,
)
from switchmark.statistics.states import LineTimes

CONTRADICTIONS = 3  # rounds with contradictory counts that refute
FAILURES = 8  # failed rounds after which a check without any figure ends


@dataclass
class Series:
    """One reference check of one port kind and I/O."""

    check: ReferenceCheck
    rounds: list[Round] = field(default_factory=list)
    lines_ns: list[float | None] = field(default_factory=list)  # cache line's time at each round
    seconds: float = 0.0  # time of all rounds
    failures: list[str] = field(default_factory=list)  # reasons of rounds without a figure
    contradictions: list[str] = field(default_factory=list)  # contradictory counts of the bench
    why_not: str = ""  # reason why it cannot run; empty: it can
    judged: dict[str, JudgedErrors] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """True if another round is needed."""
        if self.why_not or self.outcome == REFUTED:
            return False
        if not self.rounds and len(self.failures) >= FAILURES:
            return False
        return not self.rounds or self.outcome == UNDECIDED

    @property
    def outcome(self) -> Outcome:
        """The outcome of all its quantities together."""
        outcomes = {errors.outcome for errors in self.judged.values()}
        if REFUTED in outcomes or self.is_contradicted:
            return REFUTED
        return PROVEN if outcomes == {PROVEN} else UNDECIDED

    @property
    def is_contradicted(self) -> bool:
        """True if so many rounds had contradictory counts that the figures are refuted."""
        return len(self.contradictions) >= CONTRADICTIONS

    def add(self, round_: Round, line_ns: float | None, seconds: float) -> None:
        """Add a round, and decide if an interim analysis is planned. A decision is final."""
        self.rounds.append(round_)
        self.lines_ns.append(line_ns)
        self.seconds += seconds
        self._analyse(is_last=False)

    def add_failure(self, reason: str, seconds: float, *, contradicts: bool = False) -> None:
        """Add a round without a figure."""
        self.failures.append(reason)
        self.seconds += seconds
        if contradicts:
            self.contradictions.append(reason)
            self._analyse(is_last=False)

    def end(self) -> None:
        """Analyse for the last time, and spend the rest of the level."""
        self._analyse(is_last=True)

    def figures(self, states: LineTimes | None) -> list[CertifiedFigure]:
        """Return the figures for the certificate."""
        if self.why_not:
            return [self._figure(self.check.meaning, NOT_TRIED, why=self.why_not)]
        if not self.judged:
            why = self.failures[-1] if self.failures else "no time was left for a round"
            return [self._figure(self.check.meaning, self.outcome, why=why)]
        return [
            self._figure(
                quantity,
                REFUTED if self.is_contradicted else judged.outcome,
                low=judged.low if math.isfinite(judged.low) else None,
                high=judged.high if math.isfinite(judged.high) else None,
                within=self.check.tolerance(quantity),
                within_below=self.check.below.get(quantity),
                frames=sum(round_.frames for round_ in self.rounds),
                turns=judged.rounds,
                by_state=self._by_state(quantity, states),
                why=self._why(judged),
            )
            for quantity, judged in self.judged.items()
        ]

    def _figure(self, quantity: str, outcome: CertifiedOutcome, **fields: Any) -> CertifiedFigure:
        return CertifiedFigure(
            truth=self.check.name,
            against=self.check.against,
            unit=self.check.unit,
            quantity=quantity,
            outcome=outcome,
            **fields,
        )

    def levels(self) -> dict[str, float]:
        """Return the check's summary of other figures, for example the floor and the ceiling."""
        levels = self.check.levels(self.rounds) if self.rounds else {}
        return {f"{self.check.name}: {name}": value for name, value in levels.items()}

    def _analyse(self, *, is_last: bool) -> None:
        if not self.rounds:
            return
        quantities = list(self.rounds[0].errors)
        rule = rule_for(len(quantities))
        for quantity in quantities:
            before = self.judged.get(quantity)
            if before is not None and before.outcome != UNDECIDED:
                continue
            every = (round_.errors[quantity] for round_ in self.rounds)
            errors = [error for error in every if not math.isnan(error)]
            self.judged[quantity] = (
                self._judge_counts(errors)
                if self.check.is_exact
                else judge(
                    errors,
                    self.check.tolerance(quantity),
                    rule,
                    below=self.check.tolerance_below(quantity),
                    is_last=is_last,
                )
            )

    def _judge_counts(self, errors: Sequence[float]) -> JudgedErrors:
        """Judge an exact figure. A round with contradictory counts is a wrong round without
        frames."""
        refused = len(self.contradictions)
        frames = [round_.frames for round_ in self.rounds]
        return judge_counts(
            [*errors, *[1.0] * refused], [*frames, *[0] * refused], self.check.frames_due
        )

    def _by_state(self, quantity: str, states: LineTimes | None) -> dict[str, float]:
        if states is None:
            return {}
        by_state: dict[str, list[float]] = {}
        for round_, line_ns in zip(self.rounds, self.lines_ns, strict=True):
            if line_ns is not None and not math.isnan(round_.errors[quantity]):
                state = "fast" if line_ns < states.border_ns else "slow"
                by_state.setdefault(state, []).append(round_.errors[quantity])
        return {state: float(median(errors)) for state, errors in by_state.items()}

    def _why(self, judged: JudgedErrors) -> str:
        """Return the contradictory counts, or the time that a decision needs."""
        if self.is_contradicted:
            return self.contradictions[-1]
        if judged.outcome != UNDECIDED:
            return ""
        left_s = judged.rounds_to_go * self.seconds / len(self.rounds)
        return f"about {max(1, round(left_s))} s more are needed to decide it"
