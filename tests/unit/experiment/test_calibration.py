"""Ceilings are kept for this machine and point, and for no other."""

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


def test_a_ceiling_is_found_again_for_any_switch_at_the_point(tmp_path: Path) -> None:
    kept = Calibrations(tmp_path / "new", MACHINE)
    assert kept.find(plan_for()) == Baseline()
    record = measured(wire())
    assert kept.keep(wire(), record)
    found = kept.find(plan_for())
    assert record.throughput is not None
    assert found.forwarded_pps == record.throughput.forwarded_pps
    assert found.source.startswith("calibration of 20")
    paced = plan_for(trial(rate_pps=1000))
    assert kept.find(paced).forwarded_pps == found.forwarded_pps, "a ceiling holds at any rate"


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
def test_another_point_has_no_ceiling(tmp_path: Path, other: dict[str, object]) -> None:
    kept = Calibrations(tmp_path, MACHINE)
    kept.keep(wire(), measured(wire()))
    assert kept.find(plan_for(trial(**other))) == Baseline()  # type: ignore[arg-type]


def test_another_machine_or_placement_has_none(tmp_path: Path) -> None:
    Calibrations(tmp_path, MACHINE).keep(wire(), measured(wire()))
    for change in ({"kernel": "6.19"}, {"engine": "2"}, {"cpu_model": "another"}):
        assert Calibrations(tmp_path, MACHINE | change).find(plan_for()) == Baseline()
    here = Calibrations(tmp_path, MACHINE)
    moved = replace(plan_for(), placement=placement(idle="yield"))
    assert here.find(moved) == Baseline()
    assert here.find(with_port_kind(plan_for(), PortKind.VHOST_USER)) == Baseline()


def test_a_floor_is_of_its_rate(tmp_path: Path) -> None:
    kept = Calibrations(tmp_path, MACHINE)
    plan = wire("latency", rate_pps=100)
    assert kept.keep(plan, measured(plan))
    assert kept.find(plan_for(trial("latency", rate_pps=100))).rtt_median_ns
    assert kept.find(plan_for(trial("latency", rate_pps=200))) == Baseline()


def test_only_sound_ceilings_are_kept(tmp_path: Path) -> None:
    kept = Calibrations(tmp_path, MACHINE)
    assert not kept.keep(plan_for(), measured(plan_for())), "a switch is no wire"
    paced = wire(rate_pps=1000)
    assert not kept.keep(paced, measured(paced)), "a paced wire shows no ceiling"
    record = measured(wire())
    assert record.verdict is not None
    disturbed = record.verdict.model_copy(update={"marks": ["disturbed"]})
    assert not kept.keep(wire(), record.model_copy(update={"verdict": disturbed}))


def test_over_the_cable_both_machines_count(tmp_path: Path) -> None:
    kept = Calibrations(tmp_path, MACHINE)
    record = measured(wire())
    assert kept.keep(between(wire()), record)
    assert kept.find(between(plan_for())).forwarded_pps is not None
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
        assert kept.find(other) == Baseline()
    assert not over_cable(plan_for()) and over_cable(between(plan_for()))


def test_the_applications_on_sockets_are_judged_by_the_same_io_at_the_cable(tmp_path: Path) -> None:
    kept = Calibrations(tmp_path, MACHINE)
    kept.keep(between(wire(io="dpdk")), measured(wire(io="dpdk")))
    by_socket = with_port_kind(plan_for(), PortKind.VHOST_USER)
    assert kept.find(between(by_socket)).forwarded_pps is not None
    assert kept.find(between(plan_for())) == Baseline(), "raw sockets"


def test_forgotten_and_damaged_ones_are_not_found(tmp_path: Path) -> None:
    kept = Calibrations(tmp_path, MACHINE)
    kept.keep(wire(), measured(wire()))
    (file,) = tmp_path.glob("*.json")
    text = file.read_text()
    file.write_text(text[: len(text) // 2])
    assert kept.find(plan_for()) == Baseline()
    file.write_text(text)
    kept.forget(plan_for())
    assert kept.find(plan_for()) == Baseline()


def test_a_place_that_cannot_be_written_costs_nothing_but_the_keeping() -> None:
    assert not Calibrations(Path("/proc/none"), MACHINE).keep(wire(), measured(wire()))


def test_this_machine_tells_its_facts() -> None:
    facts = machine_facts()
    assert {"cpu_model", "microcode", "kernel", "governor", "cores", "engine"} <= set(facts)
    assert point_of(plan_for())["io"] == "raw-mmsg"


def test_ceilings_are_of_the_machine_as_the_campaign_tunes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are asked for anew, too."""
    machine = dict(MACHINE)
    used: list[Any] = []
    tuned = MACHINE | {"governor": "performance"}

    def tune(*_: object) -> dict[str, object]:
        machine.update(tuned)
        return {}

    def run_campaign(*arguments: object) -> bool:
        used.extend(one for one in arguments if isinstance(one, Calibrations))
        return True

    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration, "machine_facts", lambda: dict(machine))
    for name, value in (
        ("_clean_up", lambda _: None),
        ("prepare", lambda one, *_, **__: Prepared(one, [Step(plan_for(), None)], [], None, [])),
        ("open_session", lambda: nullcontext(SESSION)),
        ("_tune", tune),
        ("run_campaign", run_campaign),
    ):
        monkeypatch.setattr(execute, name, value)
    there = installed()
    campaign = load_text("switch: linux-bridge\n", "unit.yaml", there.known)
    before, now = (Calibrations(tmp_path / "cache/calibration", one) for one in (MACHINE, tuned))
    for kept in (before, now):
        assert kept.keep(wire(), measured(wire()))
    request = Request(
        campaign_text="", observer=cast(Observer, None), say=lambda _: None, quiet=True,
        results=tmp_path / "results", recalibrate=True,
    )  # fmt: skip
    execute.execute(campaign, there, request)
    assert [one.machine for one in used] == [tuned]
    assert now.find(plan_for()) == Baseline()
    assert before.find(plan_for()) != Baseline(), "it was not measured as the machine is now"
