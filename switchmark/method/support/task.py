"""The input of a method of many trials, and the result of its figures."""

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
    """The measurer of a trial. It also stores trials, times frames, and disturbs the switch."""

    @property
    def points(self) -> Sequence[LoadPoint]:
        """All trials so far, in order."""
        ...

    def measure_latency(
        self, duration_s: float, load_pps: float, burst: int
    ) -> tuple[LoadPoint, Latency]:
        """Run a trial that measures one-way times: of every frame, or of the probe stream beside
        the load. Raise `TrialFailed` if no frame arrived."""
        ...

    def trials(self) -> list[MethodTrial]:
        """Return all trials so far for the record."""
        ...

    def notes(self) -> list[str]:
        """Return notes on duplicates, reordering, and drops of the receivers."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The input of a method. Loads are totals over all pairs."""

    trial: Trial
    measurer: TrialMeasurer
    max_pps: float  # highest useful load
    budget_s: float | None  # set by the campaign or the method; None: unlimited
    wire_pps: float | None  # rate of the baseline; None: unknown
    in_kernel: bool  # the switch works in the senders' system calls
    restart_switch: Callable[[], None]
    switch_changes: Callable[[], Sequence[Change]]  # raises `TrialFailed` if there is no change
    table_changes: Callable[[], Sequence[TableChange]]  # changes of the tables of functions
    attacher: Callable[[], Attacher]  # raises `TrialFailed` if nothing can be attached
    earlier_trials: int = 0  # trials before the begin of the method

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
        """Return the method's result with its trials. `headline` names a figure. If the figures
        contradict the trials, the notes name the contradiction."""
        trials = self.measurer.trials()
        result = MethodResult(
            method=self.trial.method,
            headline=headline,
            figures=list(figures),
            bounds=list(bounds),
            latency=list(latency),
            stopped=stopped,
            spent_s=math.fsum(trial.elapsed_s for trial in trials),
            budget_s=self.budget_s,
            warm_up_trials=self.earlier_trials + warm_up_trials,
            notes=[*notes, *self.measurer.notes()],
            trial_count=len(trials),
            trials=trials,
        )
        broken = [f"contradiction: {text}" for text in broken_claims(result)]
        return result.model_copy(update={"notes": [*broken, *result.notes]}) if broken else result


def figure(name: str, estimate: Estimate, unit: str) -> MethodFigure:
    """Return an estimate as a figure of the record, with its interval."""
    return MethodFigure.model_validate(
        {"name": name, "value": estimate.mean, "unit": unit, "low": estimate.low,
         "high": estimate.high, "count": estimate.count}
    )  # fmt: skip
