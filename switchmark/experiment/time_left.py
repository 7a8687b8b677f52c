"""How long the rest of a campaign will take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.experiment.steps import Step
from switchmark.method.registry import usual_time_s
from switchmark.model.choices import Dimension
from switchmark.results.record import Record
from switchmark.switch.registry import usual_overhead_s
from switchmark.trial.plan import TrialPlan


@dataclass
class _Sums:
    """Of the trials of one switch: what is left of them, and what the bench took around others."""

    left: int = 0
    measuring_s: float = 0.0  # of those that are left
    timed: int = 0
    overhead_s: float = 0.0  # of those that were timed


class TimeLeft:
    """How long the rest takes: the measuring time is known, the bench's own is learnt.

    It keeps sums by switch, so that asking before each of many trials costs the same each time,
    however many are left."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._sums: dict[str, _Sums] = defaultdict(_Sums)
        for step in steps:
            own = self._sums[step.plan.trial.switch]
            own.left += 1
            own.measuring_s += measuring_time_s(step.plan)

    def done(self, step: Step, record: Record) -> None:
        """Note that this trial has run, and how long the bench itself took around it."""
        own = self._sums[step.plan.trial.switch]
        own.left -= 1
        own.measuring_s -= measuring_time_s(step.plan)
        if record.timing is not None:
            own.timed += 1
            own.overhead_s += record.timing.overhead_s

    def estimate_s(self) -> float:
        """Seconds that the remaining trials will take."""
        every = self._sums.values()
        timed, overhead_s = sum(own.timed for own in every), sum(own.overhead_s for own in every)
        total_s = 0.0
        for switch, own in self._sums.items():
            if own.timed:
                each_s = own.overhead_s / own.timed
            else:
                each_s = overhead_s / timed if timed else usual_overhead_s(switch)
            total_s += own.left * each_s + (own.measuring_s if own.left else 0.0)
        return total_s


def measuring_time_s(plan: TrialPlan) -> float:
    """Seconds of traffic that a trial needs (latency adds its separate warm-up run)."""
    extra = plan.policy.warm_up_s if plan.trial.dimension is Dimension.LATENCY else 0.0
    return usual_time_s(plan.trial) + extra
