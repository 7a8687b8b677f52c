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
    """The remaining trials of one switch, and the time of the bench around finished trials."""

    left: int = 0
    measuring_s: float = 0.0  # in the remaining trials
    usual_s: float = 0.0  # around those that are left
    timed_s: float = 0.0  # usual time around the timed trials
    overhead_s: float = 0.0  # and what it was


class TimeLeft:
    """How long the rest takes: the measuring time is known, the bench's own is learnt, as a factor
    over what is usual.

    It keeps sums by switch, so that asking before each of many trials costs the same each time,
    however many are left."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._sums: dict[str, _Sums] = defaultdict(_Sums)
        for step in steps:
            own = self._sums[step.plan.trial.switch]
            own.left += 1
            own.measuring_s += measuring_time_s(step.plan)
            own.usual_s += usual_around_s(step.plan.trial)

    def left_out(self, step: Step) -> None:
        """Note that this trial will not run."""
        own = self._sums[step.plan.trial.switch]
        own.left -= 1
        own.measuring_s -= measuring_time_s(step.plan)
        own.usual_s -= usual_around_s(step.plan.trial)

    def done(self, step: Step, record: Record) -> None:
        """Note that this trial has run, and how long the bench itself took around it."""
        self.left_out(step)
        own = self._sums[step.plan.trial.switch]
        usual_s = usual_around_s(step.plan.trial)
        if record.timing is not None:
            own.timed_s += usual_s
            own.overhead_s += record.timing.overhead_s

    def estimate_s(self) -> float:
        """Seconds that the remaining trials will take."""
        every = self._sums.values()
        timed_s, overhead_s = sum(own.timed_s for own in every), sum(o.overhead_s for o in every)
        usual = overhead_s / timed_s if timed_s else 1.0
        return sum(
            own.measuring_s + own.usual_s * (own.overhead_s / own.timed_s if own.timed_s else usual)
            for own in every
            if own.left
        )


def measuring_time_s(plan: TrialPlan) -> float:
    """Seconds of traffic that a trial needs (latency adds its separate warm-up run)."""
    extra = plan.policy.warm_up_s if plan.trial.dimension is Dimension.LATENCY else 0.0
    return usual_time_s(plan.trial) + extra
