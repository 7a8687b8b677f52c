"""Testbeds of a pool that decide separately but share one level."""

from __future__ import annotations

import math

import pytest

from switchmark.campaign.expand import trials_of
from switchmark.experiment.block_schedule import BlockSchedule
from switchmark.model.trial import Trial
from switchmark.results.answer import LeadVerdict, answer
from switchmark.results.blocks import Observed, observe
from switchmark.results.proving import Proving
from switchmark.statistics.boundaries import FIRST_ANALYSIS
from switchmark.switch.registry import usual_overhead_s
from tests.unit.block_fakes import Machine, campaign

TWO = "switch: [linux-bridge, basicfwd]\npacket_size: 64\nbudget: 30s"
BEDS = ("lab1", "lab2")


def measured(proving: Proving, machine: Machine) -> list[Observed]:
    """Measure on one testbed until everything is decided, and return the observations."""
    campaign_of_two = campaign(TWO)
    observations: dict[str, Observed] = {}

    def observed(trials: object) -> list[Observed]:
        assert isinstance(trials, list)
        return [observations[one.id] for one in trials]

    def is_over(trial: Trial) -> bool:
        return trial.id in observations

    trials = [one for sweep in campaign_of_two.sweeps for one in trials_of(sweep)]
    for block in BlockSchedule(trials, campaign_of_two.seed, proving, is_over, observed):
        for trial in block:
            machine.measure(trial)
            record = machine.records[trial.id].model_copy(
                update={"provenance": {"testbed": proving.testbed, "fencing_token": 1}}
            )
            observations[trial.id] = observe(record)
    return list(observations.values())


def test_each_testbed_has_its_own_answer() -> None:
    proving = Proving.of(campaign(TWO).model_dump(), usual_overhead_s, BEDS)
    fast, slow = {"linux-bridge": 2e6, "basicfwd": 1e6}, {"linux-bridge": 1e6, "basicfwd": 2e6}
    observations = [
        item
        for testbed, rates in zip(BEDS, (fast, slow), strict=True)
        for item in measured(proving.on(testbed), Machine(rates, dwell_s=1e9))
    ]
    answers = answer(observations, proving, {})
    assert [item.testbed for item in answers] == list(BEDS)
    assert [item.blocks for item in answers] == [FIRST_ANALYSIS] * 2
    leads = [item.leads[0] for item in answers]
    assert [item.ahead for item in leads] == ["linux-bridge", "basicfwd"]
    assert {item.verdict for item in leads} == {LeadVerdict.AHEAD}


def test_no_trial_is_of_two_testbeds() -> None:
    proving = Proving(usual_overhead_s, testbeds=BEDS)
    numbers = [proving.on(bed).repetition(block) for bed in BEDS for block in range(3)]
    assert numbers == [0, 2, 4, 1, 3, 5]
    assert [proving.block_of(one) for one in numbers] == [0, 1, 2, 0, 1, 2]


def test_testbeds_share_the_level() -> None:
    campaign_of_two = campaign(TWO)
    trials = [trial for sweep in campaign_of_two.sweeps for trial in trials_of(sweep)]
    alone = Proving.of(campaign_of_two.model_dump(), usual_overhead_s).rule(trials, 2.0)
    shared = Proving.of(campaign_of_two.model_dump(), usual_overhead_s, BEDS).rule(trials, 2.0)
    assert shared.family == 2 * alone.family == 2 * math.comb(2, 2)
    assert shared.analyses == alone.analyses
    assert shared.level_at(FIRST_ANALYSIS) < alone.level_at(FIRST_ANALYSIS)


def test_a_campaign_without_a_pool_is_as_it_was() -> None:
    proving = Proving.of(campaign(TWO).model_dump(), usual_overhead_s)
    assert proving.repetition(7) == proving.block_of(7) == 7
    (found,) = answer(
        measured(proving, Machine({"linux-bridge": 2e6, "basicfwd": 1e6})), proving, {}
    )
    assert found.testbed == ""
    assert found.leads[0].ratios[0].value == pytest.approx(2, rel=0.1)
