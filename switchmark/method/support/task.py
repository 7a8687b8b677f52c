"""The input of a method of many trials, and the step from its findings to the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from switchmark.method.support.claims import broken_claims
from switchmark.method.support.disturbance import Disturber
from switchmark.method.support.measurer import LoadPoint, Measurer
from switchmark.model.attaching import Attacher
from switchmark.model.changes import Change, TableChange
from switchmark.model.trial import Trial
from switchmark.record import (
    GoalBounds,
    Latency,
    LatencyAtLoad,
    MethodFigure,
    MethodResult,
    MethodTrial,
)
from switchmark.statistics.means import Estimate

pps_text = "{:.6g} pps".format


class TrialMeasurer(Measurer, Disturber, Protocol):
    """The measurer of a trial: it keeps what it measured, times frames, and disturbs."""

    @property
    def points(self) -> Sequence[LoadPoint]:
        """Every trial so far, in order."""
        ...

    def measure_latency(
        self, duration_s: float, load_pps: float, burst: int
    ) -> tuple[LoadPoint, Latency]:
        """Run one trial that times the way from sender to receiver: of every frame, or of the probe
        stream beside the load. Raises `TrialFailed` when no frame arrived."""
        ...

    def trials(self) -> list[MethodTrial]:
        """Every trial so far, as the record keeps it."""
        ...

    def notes(self) -> list[str]:
        """Other events of the trials: duplicates, reordering, drops of the receivers."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The input of a method. Loads are totals over all pairs."""

    trial: Trial
    measurer: TrialMeasurer
    max_pps: float  # highest load worth asking
    budget_s: float | None  # as asked, otherwise the method's own; None: as long as it takes
    wire_pps: float | None  # rate of the baseline; None: unknown
    in_kernel: bool  # the switch works in its callers' system calls
    restart_switch: Callable[[], None]
    switch_changes: Callable[[], Sequence[Change]]  # raises `TrialFailed` where it has none
    # The same of the tables of functions.
    table_changes: Callable[[], Sequence[TableChange]]
    attacher: Callable[[], Attacher]  # raises `TrialFailed` if nothing can be attached
    first_looks: int = 0  # trials that were made before the method began

    @property
    def limit_s(self) -> float:
        """The budget in seconds, which may be infinite."""
        return math.inf if self.budget_s is None else self.budget_s

    def result(
        self,
        headline: str | None,
        figures: Sequence[MethodFigure],
        *,
        stopped: str = "done",
        warm_up_trials: int = 0,
        notes: Sequence[str] = (),
        bounds: Sequence[GoalBounds] = (),
        latency: Sequence[LatencyAtLoad] = (),
    ) -> MethodResult:
        """The method's result, with the trials that it rests on. `headline` names a figure. If the
        result claims more than its trials showed, its notes name the rule that it breaks."""
        trials = self.measurer.trials()
        found = MethodResult(
            method=self.trial.method,
            headline=headline,
            figures=list(figures),
            bounds=list(bounds),
            latency=list(latency),
            stopped=stopped,
            spent_s=math.fsum(one.elapsed_s for one in trials),
            budget_s=self.budget_s,
            warm_up_trials=self.first_looks + warm_up_trials,
            notes=[*notes, *self.measurer.notes()],
            trial_count=len(trials),
            trials=trials,
        )
        broken = [f"contradiction: {text}" for text in broken_claims(found)]
        return found.model_copy(update={"notes": [*broken, *found.notes]}) if broken else found


def figure(name: str, found: Estimate, unit: str) -> MethodFigure:
    """An estimate as a figure of the record, with its interval."""
    return MethodFigure.model_validate(
        {"name": name, "value": found.mean, "unit": unit, "low": found.low, "high": found.high,
         "count": found.count}
    )  # fmt: skip
