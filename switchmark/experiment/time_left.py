"""How long the rest of a campaign will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.experiment.steps import Step
from switchmark.method.registry import usual_time_s
from switchmark.model.choices import Dimension
from switchmark.results.record import Record
from switchmark.switch.registry import usual_overhead_s
from switchmark.trial.plan import TrialPlan


@dataclass
class _Waiting:
    """The trials of one switch that still have to run."""

    trials: int = 0
    measuring_s: float = 0.0


@dataclass
class _Overhead:
    """How long the bench itself took around the trials so far."""

    trials: int = 0
    seconds: float = 0.0

    def take(self, seconds: float) -> None:
        self.trials += 1
        self.seconds += seconds

    @property
    def mean_s(self) -> float | None:
        return self.seconds / self.trials if self.trials else None


class TimeLeft:
    """How long the rest takes: the measuring time is known, the bench's own is learnt.

    It keeps sums by switch, so that asking before each of many trials costs the same each time,
    however many are left."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._own: dict[str, _Overhead] = {}
        self._all = _Overhead()
        for step in steps:
            waiting = self._waiting.setdefault(step.plan.trial.switch, _Waiting())
            waiting.trials += 1
            waiting.measuring_s += measuring_time_s(step.plan)

    def done(self, step: Step, record: Record) -> None:
        """Note that this trial has run, and how long the bench itself took around it."""
        waiting = self._waiting[step.plan.trial.switch]
        waiting.trials -= 1
        waiting.measuring_s -= measuring_time_s(step.plan)
        if record.timing is not None:
            self._own.setdefault(step.plan.trial.switch, _Overhead()).take(record.timing.overhead_s)
            self._all.take(record.timing.overhead_s)

    def estimate_s(self) -> float:
        """Seconds that the remaining trials will take."""
        usual = self._all.mean_s
        total = 0.0
        for switch, waiting in self._waiting.items():
            own = self._own[switch].mean_s if switch in self._own else usual
            each = usual_overhead_s(switch) if own is None else own
            total += waiting.trials * each + (waiting.measuring_s if waiting.trials else 0.0)
        return total


def measuring_time_s(plan: TrialPlan) -> float:
    """Seconds of traffic that a trial needs (latency adds its separate warm-up run)."""
    extra = plan.policy.warm_up_s if plan.trial.dimension is Dimension.LATENCY else 0.0
    return usual_time_s(plan.trial) + extra
