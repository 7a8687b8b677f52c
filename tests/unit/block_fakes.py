"""A campaign on a simulated machine: two states, deployments that differ, and a simulated clock.

The records have real shapes and invented figures. Tests check which trials run, when the campaign
ends, and its answer."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from switchmark.campaign.expand import trials_of
from switchmark.campaign.load import load_text
from switchmark.experiment.block_schedule import CampaignBlocks
from switchmark.experiment.steps import Step
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.machine_state import MachineState
from switchmark.model.trial import Trial
from switchmark.record import Record, Throughput
from switchmark.results.run_directory import Run
from switchmark.trial.plan import TrialPlan
from tests.unit.campaign_fakes import KNOWN
from tests.unit.records import synthetic_failure, synthetic_record

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
OVERHEAD_S = 0.3
NEAR_NS, FAR_NS = 30.0, 150.0


@dataclass(frozen=True)
class Plan:
    trial: Trial


class Killed(Exception):
    """The bench was killed."""


@dataclass
class Machine:
    """A machine that is in its slow state half of the time, and a run in memory."""

    rates: Mapping[str, float]  # by switch or contender in the fast state; half in the slow state
    sd: float = 0.02  # standard deviation between deployments
    dwell_s: float = 8.0
    fails: tuple[str, ...] = ()
    cores: Mapping[str, list[int]] = field(default_factory=dict)  # cores by switch, if not 0 and 1
    seed: int = 1
    now_s: float = 0.0
    records: dict[str, Record] = field(default_factory=dict)
    resumed: list[datetime] = field(default_factory=list)
    order: list[tuple[int, str]] = field(default_factory=list)
    killed_after: int | None = None

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self._changes = [self._draw.expovariate(1 / self.dwell_s)]

    def path_of(self, trial_id: str) -> Path:
        return Path("/") if trial_id in self.records else Path("/no/such/file")

    def read(self, trial_id: str) -> Record:
        return self.records[trial_id]

    def statuses(self) -> dict[str, str]:
        return {trial: record.status for trial, record in self.records.items()}

    def resumed_at(self) -> list[datetime]:
        return self.resumed

    def is_slow(self, at_s: float) -> bool:
        while self._changes[-1] < at_s:
            self._changes.append(self._changes[-1] + self._draw.expovariate(1 / self.dwell_s))
        return sum(change < at_s for change in self._changes) % 2 == 1

    def _states(self, trial: Trial, before: bool, after: bool) -> dict[str, MachineState]:
        cores = self.cores.get(trial.switch, [0, 1])
        return {"state_before": _state(cores, before), "state_after": _state(cores, after)}

    def measure(self, trial: Trial) -> None:
        if self.killed_after is not None and len(self.order) >= self.killed_after:
            raise Killed
        self.order.append((trial.repetition, trial.called))
        begun_s, self.now_s = self.now_s, self.now_s + trial.duration_s + OVERHEAD_S
        times = {"started_at": _utc(begun_s), "ended_at": _utc(self.now_s)}
        if trial.called in self.fails:
            self.records[trial.id] = synthetic_failure(trial).model_copy(update=times)
            return
        before, after = (self.is_slow(at_s) for at_s in (begun_s, self.now_s))
        factor = (0.5 if before else 1.0) * (1 + self._draw.gauss(0, self.sd))
        if before != after:
            factor *= self._draw.uniform(0.6, 1.4)
        record = synthetic_record(trial, **self._states(trial, before, after))
        loads = record.throughput
        assert loads is not None
        throughput = at_rate(loads, self.rates[trial.called] * factor)
        changes = {**times, "throughput": throughput, "engines": []}
        self.records[trial.id] = record.model_copy(update=changes)


def at_rate(loads: Throughput, rate_pps: float) -> Throughput:
    """Return the same at another rate: all loads in proportion, so that they agree."""
    by = rate_pps / loads.forwarded_pps

    def scaled(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: scaled(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [scaled(item, name) for item in value]
        is_load = isinstance(value, float) and name.endswith(("_pps", "_bps"))
        return value * by if is_load else value

    return Throughput.model_validate(scaled(loads.model_dump()))


def _state(cores: list[int], far: bool) -> MachineState:
    """Return the state of the machine; other cores are in the opposite state."""
    line_ns = (FAR_NS if far else NEAR_NS) * max(cores)
    return MachineState(at_ns=0, cores=cores, lines_ns=[line_ns] * (len(cores) - 1))


def _utc(at_s: float) -> str:
    return (BEGIN + timedelta(seconds=at_s)).isoformat()


def campaign(text: str) -> CampaignDefinition:
    return load_text(f"{text}\nduration: 500ms\ninterval: 50ms\ntrim: {{warm_up: 100ms, "
                     "cool_down: 50ms}\n", "unit.yaml", KNOWN)  # fmt: skip


def steps_of(definition: CampaignDefinition) -> list[Step]:
    trials = [trial for sweep in definition.sweeps for trial in trials_of(sweep)]
    return [Step(cast(TrialPlan, Plan(trial)), None) for trial in trials]


def run_all(machine: Machine, definition: CampaignDefinition) -> Any:
    """Run the campaign to its end, or until the bench is killed."""
    course = CampaignBlocks(cast(Run, machine), definition, steps_of(definition))
    for block in course:
        for step in block:
            machine.measure(step.plan.trial)
    return course
