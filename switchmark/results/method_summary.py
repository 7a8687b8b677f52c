"""The findings of a method of many trials, over the repetitions of its trial."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from switchmark.record import GoalBounds, MethodFigure
from switchmark.results.groups import Records
from switchmark.statistics.means import Estimate, estimate
from switchmark.statistics.order_statistics import by_median

_PERCENTILE = re.compile(r"\b(median|p\d)")


@dataclass(frozen=True, slots=True)
class FigureSummary:
    """One figure. Its interval is over the repetitions, or that of the single repetition."""

    name: str
    unit: str
    value: Estimate
    repetitions: int  # repetitions of the trial; the value is the mean of those with this figure

    @property
    def found_in_part(self) -> bool:
        """True if some repetitions lack this figure, so that figures may cover different
        repetitions."""
        return self.value.count < self.repetitions


@dataclass(frozen=True, slots=True)
class MethodSummary:
    """The searches or series of one row."""

    headline: str | None  # name of the main figure
    figures: tuple[FigureSummary, ...]
    bounds: tuple[GoalBounds, ...]  # bounds of the last repetition
    notes: tuple[str, ...]  # different notes of all repetitions
    stopped: tuple[str, ...]
    trials: int  # in all repetitions
    spent_s: float

    def figure(self, name: str | None) -> FigureSummary | None:
        """Return the figure of this name; None if the method lacks it."""
        return next((figure for figure in self.figures if figure.name == name), None)

    @property
    def decided_by(self) -> str:
        """The reason for the end of the search for each goal; empty for other methods."""
        return ", ".join(f"{goal.goal}: {goal.decided_by}" for goal in self.bounds)


def summarise_method(records: Records) -> MethodSummary:
    """Summarise rows of the results table; each must have a method."""
    repetitions = [[MethodFigure.model_validate(f) for f in json.loads(text)]
             for text in records.column("method_figures")]  # fmt: skip
    names = dict.fromkeys(
        (figure.name, figure.unit) for figures in repetitions for figure in figures
    )
    last = json.loads(records.last("method_bounds"))
    return MethodSummary(
        headline=next(filter(None, records.column("method_headline")), None),
        figures=tuple(
            FigureSummary(name, unit, _drawn_together(name, same, records.level), len(repetitions))
            for name, unit in names
            for same in [[f for fs in repetitions for f in fs if f.name == name]]
        ),
        bounds=tuple(GoalBounds.model_validate(goal) for goal in last),
        notes=tuple(
            dict.fromkeys(note for notes in records.column("method_notes") for note in notes or ())
        ),
        stopped=tuple(dict.fromkeys(records.column("method_stopped"))),
        trials=sum(records.column("method_trials")),
        spent_s=sum(records.column("method_spent_s")),
    )


def _drawn_together(name: str, figures: Sequence[MethodFigure], level: float) -> Estimate:
    """Return the mean over the repetitions; for medians and other percentiles, their median."""
    whole = estimate([figure.value for figure in figures], level)
    if len(figures) > 1:
        return by_median(whole, level) if _PERCENTILE.search(name) else whole
    return replace(whole, low=figures[0].low, high=figures[0].high)
