"""The remaining time of a campaign."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.campaign.overhead import usual_around_s
from switchmark.experiment.steps import Step
from switchmark.method.registry import usual_time_s
from switchmark.model.choices import Dimension
from switchmark.record import Record
from switchmark.trial.plan import TrialPlan


@dataclass
class _Sums:
    """The remaining trials of one switch, and the overhead of its finished trials."""

    left: int = 0
    measuring_s: float = 0.0  # measuring time of the remaining trials
    usual_s: float = 0.0  # usual overhead of the remaining trials
    timed_s: float = 0.0  # usual overhead of the finished trials
    overhead_s: float = 0.0  # actual overhead of the finished trials


class TimeLeft:
    """Estimates the rest of the time from the known measuring times, and from the overhead of
    finished trials compared with the usual overhead.

    It keeps sums by switch, so that the cost of an estimate does not depend on the number of
    trials."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._sums: dict[str, _Sums] = defaultdict(_Sums)
        for step in steps:
            sums = self._sums[step.plan.trial.switch]
            sums.left += 1
            sums.measuring_s += measuring_time_s(step.plan)
            sums.usual_s += usual_around_s(step.plan.trial)

    def remove(self, step: Step) -> None:
        """Remove a trial from the remaining trials."""
        sums = self._sums[step.plan.trial.switch]
        sums.left -= 1
        sums.measuring_s -= measuring_time_s(step.plan)
        sums.usual_s -= usual_around_s(step.plan.trial)

    def done(self, step: Step, record: Record) -> None:
        """Remove a finished trial, and add its overhead."""
        self.remove(step)
        sums = self._sums[step.plan.trial.switch]
        usual_s = usual_around_s(step.plan.trial)
        if record.timing is not None:
            sums.timed_s += usual_s
            sums.overhead_s += record.timing.overhead_s

    def estimate_s(self) -> float:
        """Return the seconds that the remaining trials will take."""
        every = self._sums.values()
        timed_s, overhead_s = sum(s.timed_s for s in every), sum(s.overhead_s for s in every)
        factor = overhead_s / timed_s if timed_s else 1.0
        return sum(
            s.measuring_s + s.usual_s * (s.overhead_s / s.timed_s if s.timed_s else factor)
            for s in every
            if s.left
        )


def measuring_time_s(plan: TrialPlan) -> float:
    """Return the seconds of traffic of a trial. Latency trials have a separate warm-up run."""
    extra = plan.policy.warm_up_s if plan.trial.dimension is Dimension.LATENCY else 0.0
    return usual_time_s(plan.trial) + extra
