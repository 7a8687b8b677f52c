"""Campaigns cut into blocks, and what a pool refuses."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.errors import UsageError
from switchmark.experiment import calibration
from switchmark.experiment.calibration import Calibrations
from switchmark.host import tuning
from switchmark.host.facts import Cpu
from switchmark.host.tuning import Tuned
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.trial import Trial
from switchmark.pool import testbed_executor
from switchmark.pool.client import blocks_of
from switchmark.pool.security import contact, credentials_of
from switchmark.pool.testbed_executor import TestbedExecutor
from switchmark.pool.values import BlockLease
from switchmark.trial.plan import Cores
from tests.pool_fakes import simulated_campaign, with_simulated


def test_a_block_has_every_contender_of_a_point_once() -> None:
    blocks = blocks_of(simulated_campaign(4, 3), with_simulated())
    assert [one.trials[0].repetition for one in blocks] == [0, 1, 2, 3]
    for block in blocks:
        assert sorted(trial.contender for trial in block.trials) == ["c0", "c1", "c2"]
        assert len({trial.repetition for trial in block.trials}) == 1
    assert len({trial.id for block in blocks for trial in block.trials}) == 12


def test_a_lease_is_longer_than_its_longest_trial() -> None:
    block = blocks_of(simulated_campaign(1), with_simulated(), shortest_lease_s=5.0)[0]
    assert block.lease_s == pytest.approx(5 + 3 * (0.1 + 0.3))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"until_ci": 0.05}, "set repetitions"),
        ({"time_budget_s": 60.0}, "time_budget"),
    ],
)
def test_campaign_that_decides_its_length_is_refused(
    change: dict[str, float], problem: str
) -> None:
    campaign = simulated_campaign(1).model_copy(update=change)
    with pytest.raises(UsageError, match=problem):
        blocks_of(campaign, with_simulated())


def test_trial_of_another_campaign_is_not_planned() -> None:
    here = installed()
    campaign = load_text("switch: linux-bridge\nduration: 1s", "c.yaml", here.known)
    (block,) = blocks_of(campaign, here)
    definition = campaign.model_dump(mode="json")
    read = expand(CampaignDefinition.model_validate(definition), here.switches, here.environments)
    assert [trial.id for trial in read] == [block.trials[0].id], "as the pool's database gives it"
    forged = block.trials[0].model_copy(update={"pairs": 9999})
    lease = BlockLease(
        1, 1, "run", "id", "c", 0, "lab1", definition, baseline=False, trials=(forged,),
        stored=frozenset(), lease_s=60.0,
    )  # fmt: skip
    executor = TestbedExecutor(here)
    with pytest.raises(UsageError, match=f"trial {forged.id} is not part of this campaign"):
        executor.measure(lease, lambda trial: None, lambda record: None)
    later = block.trials[0].repeated(7)  # a campaign that proves adds repetitions
    executor._require_trials_of(campaign, replace(lease, trials=(later,)))


def test_block_uses_the_calibrations_of_the_tuned_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And planned on the CPUs that its tuning leaves."""
    here, tuned = installed(), {"governor": "performance"}
    machine = {"governor": "powersave"}
    observed: list[object] = []

    def apply(*_: object) -> Tuned:
        machine.update(tuned)
        return Tuned("")

    def plan(_campaign: object, trial: Trial, _there: object, cores: Cores, _site: object) -> str:
        observed.append([cpu.id for cpu in cores._cpus])
        return trial.id

    def measured(*arguments: object) -> bool:
        observed.extend(one.machine for one in arguments if isinstance(one, Calibrations))
        return True

    monkeypatch.setattr(calibration, "machine_facts", lambda: dict(machine))
    for name, value in (
        ("read_cpus", lambda: [Cpu(number, (0, number % 2), 0) for number in range(4)]),
        ("plan_trial", plan),
        ("check_available", lambda _: None),
        ("choose_pages", lambda steps: (steps, None)),
        ("open_session", lambda **_: nullcontext()),
        ("run_campaign", measured),
    ):
        monkeypatch.setattr(testbed_executor, name, value)
    monkeypatch.setattr(tuning, "apply", apply)
    campaign = load_text("switch: linux-bridge\ntuning: smt:off", "c.yaml", here.known)
    (block,) = blocks_of(campaign, here)
    lease = BlockLease(
        1, 1, "run", "id", "c", 0, "lab1", campaign.model_dump(mode="json"), baseline=False,
        trials=block.trials, stored=frozenset(), lease_s=60.0,
    )  # fmt: skip
    TestbedExecutor(here).measure(lease, lambda trial: None, lambda record: None)
    assert observed == [[0, 1], tuned, tuned], "the baselines and the trials"


def test_beyond_loopback_there_are_certificates_or_nothing() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(UsageError, match="others can reach it"):
        contact("192.0.2.1:8786", None)
    with pytest.raises(UsageError, match="write HOST:PORT"):
        contact("here", None)


def test_the_three_files_belong_together(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("tls") / "ca.pem"
    assert credentials_of(None, None, None) is None
    with pytest.raises(UsageError, match="give all three"):
        credentials_of(file, None, None)
