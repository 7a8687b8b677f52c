"""From an application on the host through ovs-dpdk into one in a virtual machine, by vhost-user."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_settings
from switchmark.method import deployment
from switchmark.method.judge import Baseline
from switchmark.method.plan import plan_steps
from switchmark.method.trial import run_trial
from switchmark.results.store import Run, open_run
from switchmark.switch.registry import make_switch
from switchmark.testbed.session import open_session
from tests.integration.switch_rig import own_state_dir
from tests.vm.conftest import check_forwarded
from tests.vm.guest import Machine
from tests.vm.guest_node import HostToGuest

BOOTS_S = 120.0
# The polling thread sleeps when idle: on few cores it would starve the machine.
SETTINGS = {
    "switch": "ovs-dpdk",
    "environment": "netns",
    "rate": "2k",
    "duration": "3s",
    "switch_options": "pmd_maxsleep_us:500",
}
OVERRIDES = ["verify.min_arrived=90%", "verify.timeout=60s", "trim.warm_up=0.5s"]


def test_vhost_user_into_a_guest(
    new_machine: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    probe = make_switch("ovs-dpdk").probe()
    if not probe.available:
        pytest.skip(f"ovs-dpdk: {probe.reason}; {probe.remedy}")
    environment = HostToGuest(new_machine(shared_memory=True))
    monkeypatch.setattr(deployment, "READY_TIMEOUT_S", BOOTS_S)
    there = installed()
    campaign = load_settings(SETTINGS, there.known, name="guest", overrides=OVERRIDES)
    (step,) = plan_steps(campaign, there, baselines=False)
    try:
        with own_state_dir(), open_session() as session:
            record = run_trial(
                session,
                replace(step.plan, environment=environment),
                campaign="guest",
                run_id="guest",
                baseline=Baseline(),
                provenance={"accelerator": environment.machine.accelerator},
                observe=lambda _pps: None,
            )
        said = [(folder / "output").read_text() for folder in environment.folders]
        assert record.status == "finished", (record.message, said)
        check_forwarded(record, "ovs-dpdk", "learning")
        assert record.reconciliation is not None
        (path, *_) = record.reconciliation.paths
        assert path.switch_sent is not None
        assert path.arrived >= 0.9 * path.sent
        assert path.switch_received == path.sent
    finally:
        for folder in environment.folders:
            shutil.rmtree(folder, ignore_errors=True)
    stored = Run.create(
        tmp_path,
        campaign="guest",
        campaign_text="",
        definition=campaign.model_dump(mode="json"),
        settings={},
        host={},
    )
    with stored as run:
        run.write(record)
        directory = run.directory
    assert [each.trial_id for each in open_run(directory).records()] == [record.trial_id]
