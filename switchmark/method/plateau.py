"""A sweep of rates up to the plateau: the forwarded load first follows the offered load, and then
stays constant.

The plateau of Ara et al. (2021), Figure 4a, is found by a fit instead of by eye. The sweep is
divided at the load at which "forwarded = intended" below and "forwarded = constant" above leave
the smallest sum of squared relative residuals. Notes report results outside this model: no
plateau, a plateau that falls or still rises, loss below the knee.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from switchmark.errors import UsageError
from switchmark.method.support.measurer import BudgetedMeasurer, LoadPoint, Measurer
from switchmark.method.support.method import Method, trials_of_full_length
from switchmark.method.support.task import Task, figure
from switchmark.record import MethodFigure, MethodResult
from switchmark.record.metric import method_metric
from switchmark.statistics.means import Estimate, estimate

SWEEP_STEPS = 12
FOLLOWS_SHARE = 0.99  # least forwarded / intended of a point that follows its load
TREND_P = 0.01
TREND_SIZE = 0.02  # a plateau with a smaller relative change counts as flat
POOR_FIT = 0.03  # relative root mean square residual above which the fit is poor

Trend = Literal["flat", "falling", "rising", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plateau:
    """The fit. Loads are totals over all pairs, frames per second."""

    pps: Estimate | None  # height, with 95 % t interval over the points above the knee
    follows_to_pps: float | None  # highest load below which every point follows its load
    knee_between_pps: tuple[float, float] | None  # last load followed, first on the plateau
    trend: Trend  # direction of the plateau
    residual: float  # relative root mean square of the fit
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSweep:
    """All points, in the order in which they were measured, and the fit."""

    points: tuple[LoadPoint, ...]
    plateau: Plateau


def sweep(
    measurer: Measurer,
    loads_pps: Sequence[float],
    *,
    trial_s: float = 10.0,
    repetitions: int = 1,
    budget_s: float = math.inf,
) -> LoadSweep:
    """Measure all loads in rounds, so that drift affects all equally, and fit. Raise `BudgetError`
    if the budget is too short for all trials."""
    if repetitions < 1 or len(loads_pps) < 3 or not all(0 < x < math.inf for x in loads_pps):
        raise UsageError("sweep: needs three or more finite loads above 0, and one or more rounds")
    budgeted = BudgetedMeasurer(measurer, budget_s)
    for _ in range(repetitions):
        for load in loads_pps:
            budgeted.measure(trial_s, load)
    return LoadSweep(points=tuple(budgeted.points), plateau=fit(budgeted.points))


def fit(points: Sequence[LoadPoint]) -> Plateau:
    """Find the plateau among points of finite intended load."""
    loads_and_rates = sorted(
        (point.intended_pps, point.forwarded_pps)
        for point in points
        if point.intended_pps is not None
    )
    loads = sorted({load for load, _ in loads_and_rates})
    if len(loads) < 3:
        raise UsageError(
            f"plateau: {len(loads)} different loads are too few to fit", remedy="give three"
        )
    choices = [_fit_at(loads_and_rates, knee) for knee in [*loads, math.inf]]
    residual, knee = min(choices, key=lambda choice: choice[0])
    below = [(x, y) for x, y in loads_and_rates if x < knee]
    above = [(x, y) for x, y in loads_and_rates if x >= knee]
    follows_to = _follows_to(loads_and_rates)
    notes = []
    if below and (follows_to is None or follows_to < below[-1][0]):
        notes.append("frames are lost below the knee: the transition to the plateau is gradual")
    if residual > POOR_FIT:
        notes.append(f"two lines fit the sweep poorly ({residual:.1%} residual): check the plot")
    has_plateau = len({x for x, _ in above}) > 1
    trend = _trend(above) if has_plateau else "unknown"
    if not has_plateau:
        notes.append(
            "no plateau: the forwarded load follows up to the end of the sweep; raise the end"
        )
    elif trend == "falling":
        notes.append("the switch forwards less the more it is overloaded")
    elif trend == "rising":
        notes.append("the plateau still rises: the sweep may end below the capacity")
    return Plateau(
        pps=estimate([y for _, y in above]) if has_plateau else None,
        follows_to_pps=follows_to,
        knee_between_pps=_knee(below, above, follows_to) if has_plateau else None,
        trend=trend,
        residual=residual,
        notes=tuple(notes),
    )


def _fit_at(loads_and_rates: Sequence[tuple[float, float]], knee: float) -> tuple[float, float]:
    """Return the relative residual (root mean square) of the fit with a plateau from `knee` on."""
    above = [y for x, y in loads_and_rates if x >= knee]
    height = statistics.fmean(above) if above else 0.0
    total = 0.0
    for x, y in loads_and_rates:
        expected = x if x < knee else height
        total += ((y - expected) / expected) ** 2 if expected > 0 else 1.0
    return math.sqrt(total / len(loads_and_rates)), knee


def _follows_to(loads_and_rates: Sequence[tuple[float, float]]) -> float | None:
    followed = list(takewhile(lambda point: point[1] >= FOLLOWS_SHARE * point[0], loads_and_rates))
    return followed[-1][0] if followed else None


def _knee(
    below: Sequence[tuple[float, float]],
    above: Sequence[tuple[float, float]],
    follows_to: float | None,
) -> tuple[float, float] | None:
    if not below or follows_to is None:
        return None
    return min(below[-1][0], follows_to), above[0][0]


def _trend(above: Sequence[tuple[float, float]]) -> Trend:
    """Return the direction of the plateau by least squares: flat unless the slope is significant
    and large enough to matter."""
    if len(above) < 4:
        return "unknown"
    from scipy.stats import linregress

    loads, heights = zip(*above, strict=True)
    line = linregress(loads, heights)
    change = line.slope * (max(loads) - min(loads))
    if abs(change) < TREND_SIZE * statistics.fmean(heights) or line.pvalue > TREND_P:
        return "flat"
    return "rising" if change > 0 else "falling"


def run(task: Task) -> MethodResult:
    """Sweep up to the highest load, and fit."""
    fitted = sweep(
        task.measurer,
        [task.max_pps * step / SWEEP_STEPS for step in range(1, SWEEP_STEPS + 1)],
        trial_s=task.trial.duration_s,
        budget_s=task.limit_s,
    ).plateau
    figures = [] if fitted.pps is None else [figure("plateau", fitted.pps, "pps")]
    if fitted.follows_to_pps is not None:
        figures.append(MethodFigure(name="followed to", value=fitted.follows_to_pps, unit="pps"))
    notes = [*fitted.notes, f"trend above the knee: {fitted.trend}"]
    return task.result(figures[0].name if figures else None, figures, notes=notes)


METHOD = Method(
    name="plateau",
    meaning="sweep of rates up to the rate at which the forwarded load stops growing",
    picture="loads",
    run=run,
    usual_time_s=trials_of_full_length(SWEEP_STEPS),
    compared=(method_metric("plateau", "pps"),),
)
