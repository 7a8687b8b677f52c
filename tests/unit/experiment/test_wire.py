"""The baseline as the subject of a campaign: measured, compared and reported like a switch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from switchmark.campaign.load import load_text
from switchmark.cli import main
from switchmark.cli.compare_output import EXIT_WORSE
from switchmark.experiment.campaign import run_campaign
from switchmark.experiment.steps import Step, plan_steps
from switchmark.record import Record
from switchmark.report.html import write_report
from switchmark.report.summary_words import answers_of, summarise_in_words
from switchmark.results.answer import LeadVerdict, answer
from switchmark.results.blocks import observe
from switchmark.results.export import of_baseline
from switchmark.results.proving import Proving
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run, open_run
from switchmark.results.summary import summary
from switchmark.switch.registry import usual_overhead_s
from tests.unit.block_fakes import Machine, campaign, run_all
from tests.unit.campaign_fakes import KNOWN
from tests.unit.experiment.test_campaign import Watcher
from tests.unit.experiment.test_steps import INSTALLED
from tests.unit.histories import HOST, dated, scaled
from tests.unit.records import quick_records, synthetic_record, synthetic_trial, write_run
from tests.unit.trial_fakes import SESSION, FakeSwitch, plan_for, trial

TWO_WIRES = """switch: direct
packet_size: 64
budget: 40s
contenders: {veth: {port_kind: veth}, vhost: {port_kind: vhost-user}}
"""
AS_PLACED = "port_kind: veth\nio: raw-mmsg\nconnect_mode: cross-connect\n"
RATES = {"veth": 1e6, "vhost": 4e6}


def wires(repetitions: int = 8, *, is_baseline: bool | None = False) -> list[Record]:
    """Two contenders without a switch; the second has four times the rate."""
    return [
        scaled(
            synthetic_record(
                synthetic_trial(
                    switch="direct", spare_cores=0, contender=name, repetition=repetition
                ),
                marks=["unstable"], is_baseline=is_baseline, number=repetition,
            ),
            rate_pps * (1 + 0.002 * repetition),
        )
        for repetition in range(repetitions)
        for name, rate_pps in RATES.items()
    ]  # fmt: skip


def steps_of(text: str) -> list[Step]:
    return plan_steps(load_text(text, "unit.yaml", KNOWN), INSTALLED)


def texts_of(run: Path) -> tuple[list[SummaryRow], Any]:
    rows = summary(run)
    opened = open_run(run)
    return rows, summarise_in_words(opened, rows, rows, answers_of(opened, rows, rows))


def test_proving_campaign_of_wires_ends_with_lead() -> None:
    """The time of a round of baselines alone was 0, and the campaign divided by it."""
    machine = Machine(RATES, dwell_s=1e9)
    run_all(machine, campaign(TWO_WIRES))
    observed = [replace(observe(one), is_baseline=False) for one in machine.records.values()]
    proving = Proving.of(campaign(TWO_WIRES).model_dump(), usual_overhead_s)
    (found,) = answer(observed, proving, {})
    (lead,) = found.leads
    assert (lead.ahead, lead.behind, lead.verdict) == ("vhost", "veth", LeadVerdict.AHEAD)


def test_baselines_are_not_compared() -> None:
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6, "direct": 1e6}, dwell_s=1e9)
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nbudget: 40s"
    run_all(machine, campaign(text))
    judging = synthetic_record(synthetic_trial(switch="direct"), is_baseline=True)
    observed = [observe(one) for one in (*machine.records.values(), judging)]
    proving = Proving.of(campaign(text).model_dump(), usual_overhead_s)
    found = answer(observed, proving, {})
    assert [len(one.ranking) for one in found] == [2]
    assert found == answer(observed[:-1], proving, {})


def test_steps_know_if_baseline_is_a_contender() -> None:
    steps = steps_of("switch: [direct, linux-bridge]\npacket_size: 64\n" + AS_PLACED)
    roles = [(one.plan.trial.switch, one.is_baseline, one.serves_others) for one in steps]
    assert roles[0] == ("direct", True, False), "it is a baseline and a contender"
    assert sorted(roles[1:]) == [
        ("direct", False, False),
        ("linux-bridge", False, False),
    ]
    ids = [one.plan.trial.id for one in steps if one.plan.trial.switch == "direct"]
    assert len(set(ids)) == 1, "one trial in two roles"
    (wire, _) = steps_of("switch: linux-bridge\npacket_size: 64\n")
    assert wire.serves_others


@pytest.mark.parametrize("is_requested", [False, True])
def test_records_have_is_baseline(tmp_path: Path, is_requested: bool) -> None:
    new_run = Run.create(
        tmp_path, campaign="unit", campaign_text="x", definition={}, settings={}, host={}
    )
    with new_run as run:
        wire = plan_for(trial(switch="direct"), FakeSwitch("direct"))
        steps = [
            Step(wire, None, is_baseline=True, is_requested=is_requested),
            Step(plan_for(trial(), FakeSwitch()), wire.trial),
        ]
        run_campaign(SESSION, run, "unit", steps, dict, Watcher(run))
        noted = {one.trial.switch: one.is_baseline for one in run.records()}
    assert noted == {"direct": not is_requested, FakeSwitch().name: False}


def test_baselines_as_contenders_are_ranked(tmp_path: Path) -> None:
    rows, text = texts_of(write_run(tmp_path, wires(), repetitions=8))
    assert all(of_baseline(row, rows) is None for row in rows), "a baseline has no baseline"
    assert any("unstable (2 of 2 rows)" in line for line in text.warned)
    assert [len(one.lines) for one in text.points] == [2]


def test_older_records_without_switch_are_baselines(tmp_path: Path) -> None:
    rows, text = texts_of(write_run(tmp_path, wires(is_baseline=None), repetitions=8))
    assert all(row.is_baseline for row in rows)
    assert text.points == ()
    assert [line.partition(": ")[2].partition(" (")[0] for line in text.warned] == ["unstable"]


def test_requested_baseline_also_judges_switches(tmp_path: Path) -> None:
    records = [
        one.model_copy(update={"is_baseline": False}) for one in quick_records(repetitions=2)
    ]
    directory = write_run(tmp_path, records, repetitions=2)
    rows = summary(directory)
    results = answers_of(open_run(directory), rows, rows)
    assert len(results) == 6
    for result in results:
        assert {"direct", "basicfwd"} <= {ranked.trial.switch for ranked in result.ranking}
    for row in rows:
        if row.trial.switch == "basicfwd":
            assert of_baseline(row, rows) is not None


def test_baselines_as_contenders_are_in_all_outputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = dated(write_run(tmp_path, wires(), repetitions=8), 0, HOST)
    assert main.run(["show", "--full", str(run)]) == 0
    full = capsys.readouterr().out
    assert "vhost is ahead" in full
    write_report(run, tmp_path / "report.html")
    assert "vhost is ahead" in (tmp_path / "report.html").read_text()
    code = main.run(["compare", str(run), "--contenders", "vhost", "veth", "--json"])
    compared = json.loads(capsys.readouterr().out)
    assert (code, len(compared["comparisons"])) == (EXIT_WORSE, 1)
    assert main.run(["history", "--results", str(tmp_path), "--json"]) == 0
    series = json.loads(capsys.readouterr().out)["series"]
    assert {one["switch"] for one in series} == {"direct"}


def test_history_leaves_baselines_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dated(write_run(tmp_path, wires(is_baseline=True), repetitions=8), 0, HOST)
    main.run(["history", "--results", str(tmp_path), "--json"])
    output = capsys.readouterr()
    assert "direct" not in output.out
