"""Repetitions end if the interval is narrow, at their limit, or if the time is spent."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from switchmark.campaign.load import load_text
from switchmark.errors import UsageError
from switchmark.experiment.repeat import endings, more_blocks
from switchmark.experiment.steps import Step
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.trial import Trial
from switchmark.results.run_directory import Run
from switchmark.trial.plan import TrialPlan
from tests.unit.campaign_fakes import KNOWN


@dataclass
class Shelf:
    """Records that only have a forwarded load."""

    loads: dict[str, float] = field(default_factory=dict)

    def path_of(self, trial_id: str) -> Path:
        return Path("/") if trial_id in self.loads else Path("/no/such/file")

    def read(self, trial_id: str) -> Any:
        return SimpleNamespace(
            status="finished", headline=(self.loads[trial_id], "pps"), throughput=None
        )


@dataclass(frozen=True)
class Plan:
    trial: Trial


def campaign(text: str = "until_ci: 2%") -> CampaignDefinition:
    return load_text(f"switch: linux-bridge\nrepetitions: 3\n{text}\n", "c.yaml", KNOWN)


def run_all(definition: CampaignDefinition, noise: float, seed: int = 1) -> tuple[Shelf, int]:
    """Run a campaign of one trial with this relative noise of its load."""
    trial = Trial(dimension="throughput", switch="linux-bridge", packet_size_bytes=64)  # type: ignore[arg-type]
    steps = [
        Step(cast(TrialPlan, Plan(trial.model_copy(update={"repetition": r}))), None)
        for r in range(definition.repetitions)
    ]
    draw = random.Random(seed)
    shelf = Shelf()

    def keep(block: list[Step]) -> None:
        for step in block:
            shelf.loads[step.plan.trial.id] = draw.gauss(1e6, noise * 1e6)

    keep(steps)
    blocks = 0
    for block in more_blocks(cast(Run, shelf), definition, steps):
        keep(block)
        blocks += 1
    return shelf, blocks


def test_quiet_trial_is_not_repeated() -> None:
    assert run_all(campaign(), noise=0.0001)[1] == 0


def test_noisy_trial_repeats_until_interval_is_narrow() -> None:
    shelf, blocks = run_all(campaign(), noise=0.02)
    assert blocks > 0
    steps = [
        Step(cast(TrialPlan, Plan(Trial(dimension="throughput", switch="linux-bridge",  # type: ignore[arg-type]
                                        packet_size_bytes=64))), None)
    ]  # fmt: skip
    (ending,) = endings(cast(Run, shelf), campaign(), steps)
    assert ending.count == 3 + blocks
    assert ending.narrow
    assert ending.half_width is not None
    assert ending.half_width <= 0.02


def test_repetitions_end_at_max_repetitions() -> None:
    shelf, blocks = run_all(campaign("until_ci: 0.1%\nmax_repetitions: 7"), noise=0.2)
    assert blocks == 4
    assert len(shelf.loads) == 7


def test_repetitions_end_with_time_budget() -> None:
    # 10 s a trial: the first three are within the budget, and one more.
    assert run_all(campaign("until_ci: 0.1%\ntime_budget: 45s"), noise=0.2)[1] == 1


def test_campaign_without_until_ci_adds_no_block() -> None:
    assert run_all(campaign(""), noise=0.5)[1] == 0


@pytest.mark.parametrize("text", ["0%", "100%", "-1%", "wide"])
def test_impossible_until_ci_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="until_ci"):
        campaign(f"until_ci: {text}")
