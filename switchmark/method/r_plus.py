"""R+: the mean throughput under saturating input, and the loads that are fractions of it.

After T. Zhang et al., "Comparing the performance of state-of-the-art software switches for NFV"
(CoNEXT 2019): latency is compared between switches of unequal speed at the same fraction of each
one's own R+. R+ is a mean: a switch may lose frames at R+ itself. So the highest fraction is 0.99,
and NDR is another number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from switchmark.errors import UsageError
from switchmark.method.support.measurer import (
    REPEATS,
    SATURATING,
    BudgetedMeasurer,
    BudgetError,
    LoadPoint,
    Measurer,
    repeated_note,
)
from switchmark.method.support.method import Method
from switchmark.method.support.one_way import latency_at, one_way_figures
from switchmark.method.support.task import Task, figure, pps_text
from switchmark.model.trial import Trial
from switchmark.record import MethodResult
from switchmark.record.metric import method_metric
from switchmark.statistics.boundaries import StoppingRule
from switchmark.statistics.means import Estimate, estimate
from switchmark.statistics.outliers import Outlier, find_outliers, in_words
from switchmark.statistics.two_bands import Bands, find_bands

DEFAULT_TRIAL_S = 10.0
MIN_REPETITIONS = 5  # fewer do not tell their own spread
MAX_REPETITIONS = 20
DEFAULT_PRECISION = 0.01
WARM_UP_S = 1.0
_USUAL_TRIALS = 9  # until R+ is precise


@dataclass(frozen=True, slots=True, kw_only=True)
class RPlus:
    """The mean forwarded load under saturating input, with its interval; total over all pairs,
    frames/s."""

    estimate: Estimate  # its interval holds at all looks together with 95 %
    trials: tuple[LoadPoint, ...]
    stopped: Literal["precise", "repetitions", "budget"]
    outliers: tuple[Outlier, ...]  # reported; the mean includes them
    bands: Bands | None  # set when repetitions fall into two bands: the mean describes neither
    repeated: int = 0  # trials that said little of the switch; not in `trials`

    @property
    def pps(self) -> float:
        """R+ itself, frames/s."""
        return self.estimate.mean


def measure_r_plus(
    measurer: Measurer,
    *,
    trial_s: float = DEFAULT_TRIAL_S,
    precision: float = DEFAULT_PRECISION,
    min_repetitions: int = MIN_REPETITIONS,
    max_repetitions: int = MAX_REPETITIONS,
    budget_s: float = math.inf,
    warm_up_s: float = WARM_UP_S,
) -> RPlus:
    """Repeat saturating trials until the interval is narrow enough, or time or patience ends.

    `precision` is half the 95 % interval over the mean. Raises `BudgetError` when not even
    one trial fits.
    """
    if not 1 <= min_repetitions <= max_repetitions:
        raise UsageError(
            f"r-plus: repetitions from {min_repetitions} to {max_repetitions}: must be 1 or "
            "more, and the maximum no smaller than the minimum"
        )
    rule = StoppingRule.after_each(min_repetitions, max_repetitions)
    budgeted = BudgetedMeasurer(measurer, budget_s, repeats=REPEATS)
    if warm_up_s > 0:
        budgeted.measure(warm_up_s, SATURATING)
    points = [budgeted.measure(trial_s, SATURATING)]
    stopped: Literal["precise", "repetitions", "budget"] = "repetitions"
    while len(points) < max_repetitions:
        if rule.is_look(len(points)):
            reached = _estimate(points, rule, is_last=False).relative_half_width
            if reached is not None and reached <= precision:
                stopped = "precise"
                break
        try:
            points.append(budgeted.measure(trial_s, SATURATING))
        except BudgetError:
            stopped = "budget"
            break
    values = [point.forwarded_pps for point in points]
    step_pps = max(point.burst_pps for point in points)
    return RPlus(
        estimate=_estimate(points, rule, is_last=stopped != "precise"),
        trials=tuple(points),
        stopped=stopped,
        outliers=find_outliers(values, step_pps),
        bands=find_bands(values, step_pps),
        repeated=len(budgeted.repeated),
    )


def _estimate(points: Sequence[LoadPoint], rule: StoppingRule, *, is_last: bool) -> Estimate:
    """The estimate at the level of its look, so that stopping early does not make its interval too
    narrow."""
    level = rule.level_at(max(2, len(points)), is_last=is_last)
    return estimate([point.forwarded_pps for point in points], level)


def run(task: Task) -> MethodResult:
    """Measure R+, then one-way times at fractions of it."""
    shares = _shares(task.trial)
    found = of_trial(task, later_s=len(shares) * task.trial.duration_s)
    latency = [latency_at(task, share, share * found.pps) for share in shares]
    notes = in_words(found.outliers, found.bands, "trial", pps_text)
    notes += repeated_note(found.repeated)
    notes += [
        f"latency at {one.fraction:g} R+: the load was not met, so it is of a lower one"
        for one in latency
        if not one.load_met
    ]
    return task.result(
        "R+",
        [figure("R+", found.estimate, "pps"), *one_way_figures(latency)],
        stopped=found.stopped,
        warm_up_trials=1,
        notes=notes,
        latency=latency,
    )


def of_trial(task: Task, later_s: float = 0.0) -> RPlus:
    """Measure R+ by trials of the length that the trial asks for, within its budget less what comes
    later, if one trial fits in that."""
    limit_s, trial_s = task.limit_s, task.trial.duration_s
    left_s = limit_s - later_s
    fits = left_s >= WARM_UP_S + trial_s
    return measure_r_plus(task.measurer, trial_s=trial_s, budget_s=left_s if fits else limit_s)


def _shares(trial: Trial) -> list[float]:
    """The fractions of R+ at which times are taken."""
    return list(trial.fractions.shares)


def _usual_time_s(trial: Trial) -> float:
    return WARM_UP_S + (_USUAL_TRIALS + len(_shares(trial))) * trial.duration_s


METHOD = Method(
    name="r-plus",
    meaning="mean rate under saturation (R+), and one-way times at fractions of it",
    run=run,
    usual_time_s=_usual_time_s,
    compared=(method_metric("R+", "pps"),),
    reads=("fractions",),
    times_frames=True,
)
