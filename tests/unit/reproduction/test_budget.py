"""The budget of a reproduction: it is kept, nothing is measured twice, and the rest is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from switchmark.campaign.overhead import Around, usual_around_s
from switchmark.cli import reproduce_items
from switchmark.cli.main import run as switchmark
from switchmark.errors import BusyError
from switchmark.experiment.execute import Executed
from switchmark.model.trial import Trial
from switchmark.record import Timing
from switchmark.reproduction.page import PaperPage, as_html, as_markdown, make_page
from switchmark.reproduction.paper import read_paper
from switchmark.reproduction.run import MeasuredCampaign, folder_of, read_measured
from switchmark.reproduction.second_stage import open_paper
from switchmark.reproduction.stages import Blocks
from switchmark.reproduction.timing_model import learn_from
from tests.unit.records import synthetic_record, synthetic_trial, write_run
from tests.unit.reproduce_fakes import THERE, Bench

PAPER = read_paper("ara2021")
TABLE = PAPER.item("table2")
RATES = {"raw": 1.0, "raw-mmsg": 1.5, "udp": 0.7, "udp-mmsg": 0.76}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    fake = Bench(PAPER, tmp_path, RATES)
    fake.put_in(monkeypatch)
    return fake


def measured(bench: Bench) -> MeasuredCampaign:
    return read_measured(PAPER, bench.results)[TABLE.campaign]


def test_rest_of_budget_goes_to_an_open_finding_once(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    def reproduce(budget_s: float) -> MeasuredCampaign:
        bench.reproduce("table2", budget_s)
        return measured(bench)

    first = reproduce(60.0)
    output = capsys.readouterr().err
    assert first.blocks.second == 0 and "no blocks for findings that cannot be decided" in output
    assert "ara2021 batch-calls" in output, "8 % are not proven by few blocks"
    assert switchmark(["reproduce", "ara2021", "table2", "--list", "--budget", "1h",
                       "--results", str(bench.results)]) == 0  # fmt: skip
    assert "second stage" in capsys.readouterr().out
    second = reproduce(3600.0)
    output = capsys.readouterr().err
    assert "finished before" in output and "ara2021-table2: second stage, " in output
    assert second.blocks == Blocks(first.blocks.first, second.blocks.second)
    assert second.blocks.second > 0 and "ara2021 batch-calls" in output
    third = reproduce(3600.0)
    assert third.blocks == second.blocks, "more interim analyses are not planned"
    assert "second stage" not in capsys.readouterr().err


def page_of(bench: Bench) -> PaperPage:
    return make_page(PAPER, THERE, bench.results, [TABLE], {"table2": bench.state(TABLE)})


def test_resumed_item_stays_within_budget(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """The first run had three blocks of four trials of a minute."""
    bench.reproduce("table2", None)
    whole, began_s = list(bench.begun), bench.now_s
    assert len(whole) == 12 and "partly" not in page_of(bench).items[0].word
    for path in sorted((measured(bench).run.directory / "trials").glob("*.json"))[1:]:
        path.unlink()
    ended_before = set(measured(bench).statuses)
    capsys.readouterr()
    bench.begun.clear()
    bench.reproduce("table2", 600.0)
    assert bench.now_s - began_s <= 600.0
    output = capsys.readouterr().err
    assert "continues as it was begun, about 11 min 6 s; ends with its share of the bud" in output
    assert len(bench.begun) == 9, "the rest of the budget is also used for it"
    assert "table2: partly, " in output and "10 of 12 trials; " in output
    assert "the same command continues with ara2021 table2" in output
    page = page_of(bench)
    assert page.items[0].word.startswith("reproduced here, partly: ")
    assert page.items[0].word.endswith(" of 3 blocks, 10 of 12 trials")
    for text in (as_html([page]), as_markdown([page])):
        assert " of 3 blocks, 10 of 12 trials" in text

    bench.reproduce("table2", 600.0)
    assert sorted([*ended_before, *bench.begun]) == sorted(whole), "nothing is measured twice"
    assert "partly" not in page_of(bench).items[0].word


def test_slow_item_stays_within_budget(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the usual overhead of its trials is known."""
    bench.around_s = 5.0
    bench.reproduce("table2", 60.0)
    assert len(bench.begun) > 5 and 50.0 < bench.now_s <= 60.0
    output = capsys.readouterr().err
    assert (
        "table2: partly, " in output and "the same command continues with ara2021 table2" in output
    )
    assert "partly: " in page_of(bench).items[0].word
    bench.reproduce("table2", 600.0)
    assert len(bench.begun) == len(set(bench.begun)), "nothing is measured twice"
    assert "partly" not in page_of(bench).items[0].word


def test_item_without_time_for_a_trial_is_not_begun(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """The overhead of its trials is known from an earlier run."""
    bench.around_s = 100.0
    bench.reproduce("table2", None)
    bench.begun.clear()
    bench.reproduce("table2", 60.0, again=True)
    output = capsys.readouterr().err
    assert not bench.begun
    assert "; its share of the budget ends before a trial of about 1 min 4" in output
    assert len(list((bench.results / "reproduce" / "ara2021").glob("*-table2-*"))) == 1


def test_repeated_item_within_budget_is_one_run(bench: Bench) -> None:
    """It stops at the end of its share, and continues the same run with the rest."""
    bench.around_s = 5.0
    bench.reproduce("table2", 60.0)
    bench.around_s = 20.0
    bench.begun.clear()
    bench.reproduce("table2", 200.0, again=True)
    runs = sorted((bench.results / "reproduce" / "ara2021").glob("*-table2-*"))
    assert len(runs) == 2 and len(bench.begun) == len(set(bench.begun))


def test_only_requested_runs_are_read(bench: Bench) -> None:
    records = [synthetic_record()]
    for name in ("table2", "fig4b", "burst"):
        write_run(folder_of(PAPER, bench.results), records, campaign=f"ara2021-{name}")
    every = read_measured(PAPER, bench.results)
    assert set(every) == {"ara2021-table2", "ara2021-fig4b", "ara2021-burst"}
    assert set(read_measured(PAPER, bench.results, {"ara2021-fig4b"})) == {"ara2021-fig4b"}
    opened = open_paper(PAPER, bench.results, {"ara2021-burst"})
    assert set(opened.measured) == {"ara2021-burst"}, "no finding compares it with another"
    assert opened.findings and len(opened.findings) < len(PAPER.findings)


def chain(length: int, switch: str, environment: str = "docker", **changes: object) -> Trial:
    return synthetic_trial(
        switch=switch, scenario=f"loopback-{length}", environment=environment, **changes
    )


def test_overhead_is_learnt_from_the_most_similar_trials() -> None:
    around = Around()
    measured_trial = chain(2, "vpp")
    assert around.of(measured_trial) == usual_around_s(measured_trial)
    for factor, known_trial in (
        (4.0, chain(1, "vpp")),
        (3.0, chain(2, "ovs-dpdk")),
        (2.0, measured_trial),
    ):
        for _ in range(3):
            around.learn(known_trial, factor * usual_around_s(known_trial))
        if known_trial is not measured_trial:
            assert around.of(measured_trial) == pytest.approx(
                factor * usual_around_s(measured_trial)
            )
    assert around.of(measured_trial) == pytest.approx(2.0 * usual_around_s(measured_trial))
    long = chain(8, "vpp")
    assert around.of(long) == pytest.approx(3.0 * usual_around_s(long)), "the factor of all trials"
    around.learn(measured_trial, 100.0)
    assert around.of(measured_trial) == pytest.approx(2.0 * usual_around_s(measured_trial)), (
        "a single odd trial has no effect"
    )


def test_overhead_is_learnt_from_earlier_runs(tmp_path: Path) -> None:
    measured_trial = chain(2, "ovs-dpdk")
    timing = Timing(deploy_s=6.5, verify_s=0, teardown_s=0, overhead_s=7.0, measure_s=2.5)
    directory = write_run(tmp_path, [synthetic_record(measured_trial, timing=timing)])
    (directory / "trials" / "0123456789abcdef.json").write_text("half a rec")
    around = Around()
    learn_from(around, [directory, tmp_path / "nowhere"])
    more_s = max(0.0, 2.5 - measured_trial.duration_s)
    assert around.of(measured_trial) == pytest.approx(7.0 + more_s)


def test_busy_machine_ends_reproduction_at_first_item(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_trial = []

    def execute(campaign: Any, *_: Any) -> Executed:
        measured_trial.append(campaign.name)
        raise BusyError("process 1 (switchmark run, since then) is measuring on this machine")

    monkeypatch.setattr(reproduce_items, "execute", execute)
    with pytest.raises(BusyError):
        bench.run(["table2", "burst"], None)
    assert len(measured_trial) == 1
