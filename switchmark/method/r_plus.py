"""R+: the mean throughput under saturating input, and the loads that are fractions of it.

T. Zhang et al., "Comparing the performance of state-of-the-art software switches for NFV" (CoNEXT
2019), compare the latency of switches of unequal speed at equal fractions of the R+ of each
switch. R+ is a mean, so a switch may lose frames at R+. The highest fraction is therefore 0.99, and
R+ differs from NDR.
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
MIN_REPETITIONS = 5  # fewer repetitions do not show their spread
MAX_REPETITIONS = 20
DEFAULT_PRECISION = 0.01
WARM_UP_S = 1.0
_USUAL_TRIALS = 9  # usual number of trials until R+ is precise


@dataclass(frozen=True, slots=True, kw_only=True)
class RPlus:
    """The mean forwarded load under saturating input, with its interval; total over all pairs,
    frames/s."""

    estimate: Estimate  # its 95 % interval takes all interim analyses into account
    trials: tuple[LoadPoint, ...]
    stopped: Literal["precise", "repetitions", "budget"]
    outliers: tuple[Outlier, ...]  # reported; the mean includes them
    bands: Bands | None  # set if repetitions form two bands, which the mean does not describe
    repeated: int = 0  # trials that were measured again; not in `trials`

    @property
    def pps(self) -> float:
        """R+ in frames/s."""
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
    """Repeat saturating trials until the interval is narrow enough, or the budget or the
    repetitions end.

    `precision` is half the 95 % interval over the mean. Raise `BudgetError` if not even one trial
    fits."""
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
        if rule.is_analysis(len(points)):
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
    """Return the estimate at the confidence level of its interim analysis, so that an early stop
    does not make the interval too narrow."""
    level = rule.level_at(max(2, len(points)), is_last=is_last)
    return estimate([point.forwarded_pps for point in points], level)


def run(task: Task) -> MethodResult:
    """Measure R+, then one-way times at fractions of it."""
    shares = _shares(task.trial)
    r_plus = of_trial(task, later_s=len(shares) * task.trial.duration_s)
    latency = [latency_at(task, share, share * r_plus.pps) for share in shares]
    notes = in_words(r_plus.outliers, r_plus.bands, "trial", pps_text)
    notes += repeated_note(r_plus.repeated)
    notes += [
        f"latency at {timed.fraction:g} R+: measured at a lower load, since this load was not met"
        for timed in latency
        if not timed.load_met
    ]
    return task.result(
        "R+",
        [figure("R+", r_plus.estimate, "pps"), *one_way_figures(latency)],
        stopped=r_plus.stopped,
        warm_up_trials=1,
        notes=notes,
        latency=latency,
    )


def of_trial(task: Task, later_s: float = 0.0) -> RPlus:
    """Measure R+ by trials of the campaign's duration. If one trial fits, `later_s` of the budget
    is reserved for later measurements."""
    limit_s, trial_s = task.limit_s, task.trial.duration_s
    left_s = limit_s - later_s
    fits = left_s >= WARM_UP_S + trial_s
    return measure_r_plus(task.measurer, trial_s=trial_s, budget_s=left_s if fits else limit_s)


def _shares(trial: Trial) -> list[float]:
    """Return the fractions of R+ at which one-way times are measured."""
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
