"""Frame loss rate against load: RFC 2544 section 26.3.

The load falls from the highest load in steps of at most a tenth of it, until two consecutive
trials lose nothing, or the lowest step is reached. The loss rate is (offered - received) /
offered. A load that the sender could not offer therefore does not count as loss of the switch,
and such a trial does not count as clean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from switchmark.errors import UsageError
from switchmark.method.support.measurer import (
    SHORTFALL_TOLERANCE,
    BudgetedMeasurer,
    BudgetError,
    LoadPoint,
    Measurer,
)
from switchmark.method.support.method import Method, trials_of_full_length
from switchmark.method.support.task import Task
from switchmark.record import MethodFigure, MethodResult
from switchmark.record.metric import method_metric

MAX_STEP = 0.1  # RFC 2544: the coarsest granularity allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCurve:
    """The points from the highest load downwards; loads are totals over all pairs."""

    points: tuple[LoadPoint, ...]
    stopped: Literal["two clean trials", "lowest load", "budget"]
    # The highest load at and below which all trials were clean. If a sender or receiver lost its
    # core for a while, this is the rate that arrived.
    lossless_from_pps: float | None

    @property
    def unmet(self) -> tuple[LoadPoint, ...]:
        """The points whose load was not offered in full, and whose loss is that of a lower load."""
        return tuple(point for point in self.points if not point.load_met)


def loss_vs_load(
    measurer: Measurer,
    *,
    max_pps: float,
    step: float = MAX_STEP,
    trial_s: float = 60.0,
    budget_s: float = math.inf,
) -> LossCurve:
    """Measure the curve. `step` is a fraction of `max_pps`. Trials of RFC 2544 last 60 s."""
    if not 0 < step <= MAX_STEP or not 0 < max_pps < math.inf:
        raise UsageError(
            f"loss-vs-load: step {step:g} must be above 0 and at most {MAX_STEP:g}, and the "
            f"highest load ({max_pps:g} pps) finite and above 0"
        )
    budgeted = BudgetedMeasurer(measurer, budget_s)
    stopped: Literal["two clean trials", "lowest load", "budget"] = "lowest load"
    steps = math.ceil(1 / step - 1e-9)
    try:
        for index in range(steps):
            budgeted.measure(trial_s, max_pps * (1 - index * step))
            last = budgeted.points[-2:]
            if len(last) == 2 and all(map(_is_clean, last)):
                stopped = "two clean trials"
                break
    except BudgetError:
        stopped = "budget"
    lossless = None
    for point in reversed(budgeted.points):
        if not _is_clean(point):
            break
        lossless = _carried_pps(point)
    return LossCurve(points=tuple(budgeted.points), stopped=stopped, lossless_from_pps=lossless)


def _carried_pps(point: LoadPoint) -> float:
    intended = point.intended_pps or point.carried_pps
    is_carried = point.carried_pps >= (1 - SHORTFALL_TOLERANCE) * intended
    return intended if is_carried else point.carried_pps


def _is_clean(point: LoadPoint) -> bool:
    return point.uncarried_frames == 0 and point.load_judged


def run(task: Task) -> MethodResult:
    """Measure the curve from the highest load downwards."""
    curve = loss_vs_load(
        task.measurer,
        max_pps=task.max_pps,
        trial_s=task.trial.duration_s,
        budget_s=task.limit_s,
    )
    worst = max(curve.points, key=lambda point: point.loss_ratio, default=None)
    figures = []
    if curve.lossless_from_pps is not None:
        figures.append(MethodFigure(name="lossless to", value=curve.lossless_from_pps, unit="pps"))
    if worst is not None:
        figures.append(MethodFigure(name="worst loss", value=worst.loss_ratio, unit="ratio"))
    notes = [f"{len(curve.unmet)} loads were not offered in full"] if curve.unmet else []
    headline = figures[0].name if figures else None
    return task.result(headline, figures, stopped=curve.stopped, notes=notes)


METHOD = Method(
    name="loss-vs-load",
    meaning="frame loss at falling loads (RFC 2544, 26.3)",
    picture="loads",
    run=run,
    usual_time_s=trials_of_full_length(10),
    compared=(method_metric("lossless to", "pps"),),
    limited_by="unknown",
)
