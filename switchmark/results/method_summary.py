"""What a method of many trials found, over the repetitions of its trial."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from switchmark.results.record import MethodBounds, MethodFigure
from switchmark.results.statistics import Estimate, estimate


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure; its interval is that over repetitions, or a single repetition's own."""

    name: str
    unit: str
    value: Estimate


@dataclass(frozen=True, slots=True)
class MethodSummary:
    """One row's searches or series."""

    headline: str | None  # name of the figure that stands for all
    figures: tuple[Figure, ...]
    bounds: tuple[MethodBounds, ...]  # of the last repetition
    notes: tuple[str, ...]  # of all repetitions, each once
    stopped: tuple[str, ...]
    trials: int  # made in all
    spent_s: float

    @property
    def decided_by(self) -> str:
        """Who decided each goal of a search; empty for other methods."""
        return ", ".join(f"{one.goal}: {one.decided_by}" for one in self.bounds)


def summarise_method(records: Sequence[dict[str, Any]]) -> MethodSummary:
    """Draw the rows of the results table together; every one has a method."""
    found = [[MethodFigure.model_validate(f) for f in json.loads(r["method_figures"])]
             for r in records]  # fmt: skip
    names = dict.fromkeys((figure.name, figure.unit) for figures in found for figure in figures)
    last = json.loads(records[-1]["method_bounds"])
    return MethodSummary(
        headline=next((r["method_headline"] for r in records if r["method_headline"]), None),
        figures=tuple(
            Figure(name, unit, _drawn_together([f for fs in found for f in fs if f.name == name]))
            for name, unit in names
        ),
        bounds=tuple(MethodBounds.model_validate(one) for one in last),
        notes=tuple(dict.fromkeys(note for r in records for note in r["method_notes"] or ())),
        stopped=tuple(dict.fromkeys(r["method_stopped"] for r in records)),
        trials=sum(r["method_trials"] for r in records),
        spent_s=sum(r["method_spent_s"] for r in records),
    )


def _drawn_together(figures: Sequence[MethodFigure]) -> Estimate:
    whole = estimate([figure.value for figure in figures])
    if len(figures) > 1:
        return whole
    return replace(whole, low=figures[0].low, high=figures[0].high)
