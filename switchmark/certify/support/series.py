"""The turns of one truth so far, and the conclusion from them, figure by figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from switchmark.certify.support.decision import JudgedErrors, judge, judge_counts, rule_for
from switchmark.certify.support.truth import Truth, Turn
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

CONTRADICTIONS = 3  # refute
FAILURES = 8  # turns without any figure: more are of no use


@dataclass
class Series:
    """One truth on one way to a port."""

    truth: Truth
    turns: list[Turn] = field(default_factory=list)
    lines_ns: list[float | None] = field(default_factory=list)  # a cache line's, at each turn
    seconds: float = 0.0  # spent on it
    failures: list[str] = field(default_factory=list)  # turns that gave no figure
    contradictions: list[str] = field(default_factory=list)  # of counts the bench refused itself
    why_not: str = ""  # it cannot be tried
    judged: dict[str, JudgedErrors] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether another turn is needed."""
        if self.why_not or self.outcome == REFUTED:
            return False
        if not self.turns and len(self.failures) >= FAILURES:
            return False
        return not self.turns or self.outcome == UNDECIDED

    @property
    def outcome(self) -> Outcome:
        """The outcome of all its quantities together."""
        seen = {one.outcome for one in self.judged.values()}
        if REFUTED in seen or self.is_contradicted:
            return REFUTED
        return PROVEN if seen == {PROVEN} else UNDECIDED

    @property
    def is_contradicted(self) -> bool:
        """Whether the bench itself refused the counts so often that they are refuted."""
        return len(self.contradictions) >= CONTRADICTIONS

    def add(self, turn: Turn, line_ns: float | None, seconds: float) -> None:
        """Add a turn, and look where a look is planned. A decision is final."""
        self.turns.append(turn)
        self.lines_ns.append(line_ns)
        self.seconds += seconds
        self._look(is_last=False)

    def failed(self, reason: str, seconds: float, *, contradicts: bool = False) -> None:
        """Note a turn without a figure."""
        self.failures.append(reason)
        self.seconds += seconds
        if contradicts:
            self.contradictions.append(reason)
            self._look(is_last=False)

    def end(self) -> None:
        """End the series: time is over, and the rest of the level is spent now."""
        self._look(is_last=True)

    def figures(self, states: LineTimes | None) -> list[CertifiedFigure]:
        """The figures for the certificate."""
        if self.why_not:
            return [self._figure(self.truth.meaning, NOT_TRIED, why=self.why_not)]
        if not self.judged:
            why = self.failures[-1] if self.failures else "no time was left for a turn"
            return [self._figure(self.truth.meaning, self.outcome, why=why)]
        return [
            self._figure(
                quantity,
                REFUTED if self.is_contradicted else found.outcome,
                low=found.low if math.isfinite(found.low) else None,
                high=found.high if math.isfinite(found.high) else None,
                within=self.truth.tolerance(quantity),
                within_below=self.truth.below.get(quantity),
                frames=sum(turn.frames for turn in self.turns),
                turns=found.turns,
                by_state=self._by_state(quantity, states),
                why=self._why(found),
            )
            for quantity, found in self.judged.items()
        ]

    def _figure(self, quantity: str, outcome: CertifiedOutcome, **found: Any) -> CertifiedFigure:
        return CertifiedFigure(
            truth=self.truth.name,
            against=self.truth.against,
            unit=self.truth.unit,
            quantity=quantity,
            outcome=outcome,
            **found,
        )

    def levels(self) -> dict[str, float]:
        """What the truth makes of the turns' other figures: floor, ceiling ..."""
        found = self.truth.levels(self.turns) if self.turns else {}
        return {f"{self.truth.name}: {name}": value for name, value in found.items()}

    def _look(self, *, is_last: bool) -> None:
        if not self.turns:
            return
        quantities = list(self.turns[0].errors)
        rule = rule_for(len(quantities))
        for quantity in quantities:
            before = self.judged.get(quantity)
            if before is not None and before.outcome != UNDECIDED:
                continue
            errors = [one for turn in self.turns if not math.isnan(one := turn.errors[quantity])]
            self.judged[quantity] = (
                self._judged_counts(errors)
                if self.truth.is_exact
                else judge(
                    errors,
                    self.truth.tolerance(quantity),
                    rule,
                    below=self.truth.tolerance_below(quantity),
                    is_last=is_last,
                )
            )

    def _judged_counts(self, errors: Sequence[float]) -> JudgedErrors:
        """Judge an exact figure. A turn whose counts the bench refused is a wrong one, of no
        frames."""
        refused = len(self.contradictions)
        frames = [turn.frames for turn in self.turns]
        return judge_counts(
            [*errors, *[1.0] * refused], [*frames, *[0] * refused], self.truth.frames_due
        )

    def _by_state(self, quantity: str, states: LineTimes | None) -> dict[str, float]:
        if states is None:
            return {}
        named: dict[str, list[float]] = {}
        for turn, line_ns in zip(self.turns, self.lines_ns, strict=True):
            if line_ns is not None and not math.isnan(turn.errors[quantity]):
                state = "near" if line_ns < states.border_ns else "far"
                named.setdefault(state, []).append(turn.errors[quantity])
        return {state: float(median(errors)) for state, errors in named.items()}

    def _why(self, found: JudgedErrors) -> str:
        """The counts that contradict each other, or what it would take to decide it."""
        if self.is_contradicted:
            return self.contradictions[-1]
        if found.outcome != UNDECIDED:
            return ""
        each_s = self.seconds / len(self.turns)
        return f"about {max(1, round(found.turns_to_go * each_s))} s more are needed to decide it"
