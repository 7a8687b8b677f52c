"""Stored baselines apply to their machine and point only."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.experiment import calibration, execute
from switchmark.experiment.calibration import Calibrations, machine_facts, point_of
from switchmark.experiment.campaign import Observer
from switchmark.experiment.execute import Request
from switchmark.experiment.prepare import Prepared
from switchmark.experiment.steps import Step
from switchmark.model.ports import PortKind
from switchmark.record import Record
from switchmark.testbed.testbed import Cable
from switchmark.trial.evidence import Baseline
from switchmark.trial.plan import TrialPlan
from switchmark.trial.run import run_trial
from switchmark.trial.wire import over_cable
from tests.unit.trial_fakes import (
    SESSION,
    FakeSwitch,
    between,
    placement,
    plan_for,
    trial,
    with_port_kind,
)

MACHINE = {"cpu_model": "invented", "kernel": "6.18", "engine": "1"}


def measured(plan: TrialPlan) -> Record:
    return run_trial(
        SESSION, plan, campaign="unit", run_id="abc123", baseline=Baseline(), provenance={},
        observe=lambda _: None,
    )  # fmt: skip


def wire(dimension: str = "throughput", **changes: object) -> TrialPlan:
    return plan_for(trial(dimension, switch="direct", **changes), FakeSwitch("direct"))


def test_stored_baseline_applies_to_any_switch(tmp_path: Path) -> None:
    calibrations = Calibrations(tmp_path / "new", MACHINE)
    assert calibrations.find(plan_for()) == Baseline()
    record = measured(wire())
    assert calibrations.keep(wire(), record)
    found = calibrations.find(plan_for())
    assert record.throughput is not None
    assert found.forwarded_pps == record.throughput.forwarded_pps
    assert found.source.startswith("calibration of 20")
    paced = plan_for(trial(rate_pps=1000))
    assert calibrations.find(paced).forwarded_pps == found.forwarded_pps, (
        "a ceiling applies to any rate"
    )


@pytest.mark.parametrize(
    "other",
    [
        {"packet_size_bytes": 1500},
        {"pairs": 2},
        {"burst": 1},
        {"touch": True},
        {"dimension": "latency"},
    ],
)
def test_another_point_has_no_baseline(tmp_path: Path, other: dict[str, object]) -> None:
    calibrations = Calibrations(tmp_path, MACHINE)
    calibrations.keep(wire(), measured(wire()))
    assert calibrations.find(plan_for(trial(**other))) == Baseline()  # type: ignore[arg-type]


def test_another_machine_or_placement_has_no_baseline(tmp_path: Path) -> None:
    Calibrations(tmp_path, MACHINE).keep(wire(), measured(wire()))
    for change in ({"kernel": "6.19"}, {"engine": "2"}, {"cpu_model": "another"}):
        assert Calibrations(tmp_path, MACHINE | change).find(plan_for()) == Baseline()
    here = Calibrations(tmp_path, MACHINE)
    moved = replace(plan_for(), placement=placement(idle="yield"))
    assert here.find(moved) == Baseline()
    assert here.find(with_port_kind(plan_for(), PortKind.VHOST_USER)) == Baseline()


def test_floor_applies_to_its_rate_only(tmp_path: Path) -> None:
    calibrations = Calibrations(tmp_path, MACHINE)
    plan = wire("latency", rate_pps=100)
    assert calibrations.keep(plan, measured(plan))
    assert calibrations.find(plan_for(trial("latency", rate_pps=100))).rtt_median_ns
    assert calibrations.find(plan_for(trial("latency", rate_pps=200))) == Baseline()


def test_only_valid_baselines_are_stored(tmp_path: Path) -> None:
    calibrations = Calibrations(tmp_path, MACHINE)
    assert not calibrations.keep(plan_for(), measured(plan_for())), "this is not a baseline"
    paced = wire(rate_pps=1000)
    assert not calibrations.keep(paced, measured(paced)), "a set rate shows no ceiling"
    record = measured(wire())
    assert record.verdict is not None
    disturbed = record.verdict.model_copy(update={"marks": ["disturbed"]})
    assert not calibrations.keep(wire(), record.model_copy(update={"verdict": disturbed}))


def test_baseline_over_cable_depends_on_both_machines(tmp_path: Path) -> None:
    calibrations = Calibrations(tmp_path, MACHINE)
    record = measured(wire())
    assert calibrations.keep(between(wire()), record)
    assert calibrations.find(between(plan_for())).forwarded_pps is not None
    chain = between(plan_for(trial(scenario="loopback-2", environment="netns")))
    assert point_of(chain)["scenario"] == point_of(between(wire(scenario="p2p")))["scenario"]
    for other in (
        plan_for(),
        between(plan_for(), kernel="6.2"),
        between(plan_for(), cable=Cable("eth1", "eth3")),
        between(plan_for(), there=placement(idle="yield")),
        between(plan_for(trial(pairs=2))),
        between(plan_for(trial(io="udp"))),
    ):
        assert calibrations.find(other) == Baseline()
    assert not over_cable(plan_for()) and over_cable(between(plan_for()))


def test_baseline_over_cable_has_the_io_of_sockets(tmp_path: Path) -> None:
    calibrations = Calibrations(tmp_path, MACHINE)
    calibrations.keep(between(wire(io="dpdk")), measured(wire(io="dpdk")))
    by_socket = with_port_kind(plan_for(), PortKind.VHOST_USER)
    assert calibrations.find(between(by_socket)).forwarded_pps is not None
    assert calibrations.find(between(plan_for())) == Baseline(), "raw sockets"


def test_forgotten_and_damaged_baselines_are_not_found(tmp_path: Path) -> None:
    calibrations = Calibrations(tmp_path, MACHINE)
    calibrations.keep(wire(), measured(wire()))
    (file,) = tmp_path.glob("*.json")
    text = file.read_text()
    file.write_text(text[: len(text) // 2])
    assert calibrations.find(plan_for()) == Baseline()
    file.write_text(text)
    calibrations.forget(plan_for())
    assert calibrations.find(plan_for()) == Baseline()


def test_unwritable_directory_stores_no_baseline() -> None:
    assert not Calibrations(Path("/proc/none"), MACHINE).keep(wire(), measured(wire()))


def test_machine_facts_have_all_keys() -> None:
    facts = machine_facts()
    assert {"cpu_model", "microcode", "kernel", "governor", "cores", "engine"} <= set(facts)
    assert point_of(plan_for())["io"] == "raw-mmsg"


def test_baselines_belong_to_the_tuned_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This also applies to `recalibrate`."""
    machine = dict(MACHINE)
    used: list[Any] = []
    tuned = MACHINE | {"governor": "performance"}

    def tune(*_: object) -> dict[str, object]:
        machine.update(tuned)
        return {}

    def run_campaign(*arguments: object) -> bool:
        used.extend(item for item in arguments if isinstance(item, Calibrations))
        return True

    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration, "machine_facts", lambda: dict(machine))
    for name, value in (
        ("_clean_up", lambda _: None),
        ("prepare", lambda item, *_, **__: Prepared(item, [Step(plan_for(), None)], [], None, [])),
        ("open_session", lambda: nullcontext(SESSION)),
        ("_tune", tune),
        ("run_campaign", run_campaign),
    ):
        monkeypatch.setattr(execute, name, value)
    parts = installed()
    campaign = load_text("switch: linux-bridge\n", "unit.yaml", parts.known)
    before, now = (Calibrations(tmp_path / "cache/calibration", item) for item in (MACHINE, tuned))
    for calibrations in (before, now):
        assert calibrations.keep(wire(), measured(wire()))
    request = Request(
        campaign_text="", observer=cast(Observer, None), say=lambda _: None, quiet=True,
        results=tmp_path / "results", recalibrate=True,
    )  # fmt: skip
    execute.execute(campaign, parts, request)
    assert [item.machine for item in used] == [tuned]
    assert now.find(plan_for()) == Baseline()
    assert before.find(plan_for()) != Baseline(), "the tuned machine does not replace it"
