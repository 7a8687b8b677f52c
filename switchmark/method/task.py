"""What every method of many trials is given, and what it hands back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.campaign.model import Trial
from switchmark.method.deployment import Deployment
from switchmark.method.disturbed import DisturbedMeasurer
from switchmark.results.record import LatencyAtLoad, MethodBounds, MethodFigure
from switchmark.results.statistics import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a method works with."""

    trial: Trial
    measurer: DisturbedMeasurer
    deployment: Deployment
    max_pps: float  # highest load worth asking, total over all pairs
    budget_s: float | None  # as asked
    wire_pps: float | None  # what the bare wire carries; None: not known
    in_kernel: bool  # the switch works in its callers' system calls

    def budget_or(self, default_s: float) -> float:
        """The budget asked for, else the method's own."""
        return default_s if self.budget_s is None else self.budget_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a method says; the trials are the measurer's."""

    headline: str | None
    figures: list[MethodFigure]
    stopped: str
    budget_s: float | None = None
    warm_up_trials: int = 0
    notes: Sequence[str] = ()
    bounds: Sequence[MethodBounds] = ()
    latency: Sequence[LatencyAtLoad] = ()


def figure(name: str, found: Estimate, unit: str) -> MethodFigure:
    """An estimate as a figure of the record, with its interval."""
    return MethodFigure.model_validate(
        {"name": name, "value": found.mean, "unit": unit, "low": found.low, "high": found.high,
         "count": found.count}
    )  # fmt: skip
