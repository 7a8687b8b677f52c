"""The budget of a reproduction: it is kept, nothing is measured twice, and what is left is said."""

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
    made = Bench(PAPER, tmp_path, RATES)
    made.put_in(monkeypatch)
    return made


def measured(bench: Bench) -> MeasuredCampaign:
    return read_measured(PAPER, bench.results)[TABLE.campaign]


def test_the_rest_of_a_budget_is_spent_on_an_open_finding_once(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    def reproduce(budget_s: float) -> MeasuredCampaign:
        bench.reproduce("table2", budget_s)
        return measured(bench)

    first = reproduce(60.0)
    told = capsys.readouterr().err
    assert first.blocks.second == 0 and "no blocks for what cannot be decided" in told
    assert "ara2021 batch-calls" in told, "8 % are not proven by few blocks"
    assert switchmark(["reproduce", "ara2021", "table2", "--list", "--budget", "1h",
                       "--results", str(bench.results)]) == 0  # fmt: skip
    assert "second stage" in capsys.readouterr().out
    second = reproduce(3600.0)
    told = capsys.readouterr().err
    assert "finished before" in told and "ara2021-table2: second stage, " in told
    assert second.blocks == Blocks(first.blocks.first, second.blocks.second)
    assert second.blocks.second > 0 and "ara2021 batch-calls" in told
    third = reproduce(3600.0)
    assert third.blocks == second.blocks, "once: more looks are not reckoned with"
    assert "second stage" not in capsys.readouterr().err


def page_of(bench: Bench) -> PaperPage:
    return make_page(PAPER, THERE, bench.results, [TABLE], {"table2": bench.state(TABLE)})


def test_an_item_that_was_begun_before_keeps_to_the_budget(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was begun in full: three blocks of four trials, a minute each."""
    bench.reproduce("table2", None)
    whole, began_s = list(bench.begun), bench.now_s
    assert len(whole) == 12 and "partly" not in page_of(bench).items[0].word
    for path in sorted((measured(bench).run.directory / "trials").glob("*.json"))[1:]:
        path.unlink()
    kept = set(measured(bench).statuses)
    capsys.readouterr()
    bench.begun.clear()
    bench.reproduce("table2", 600.0)
    assert bench.now_s - began_s <= 600.0
    told = capsys.readouterr().err
    assert "goes on as it was begun, about 11 min 6 s; ends with its share of the bud" in told
    assert len(bench.begun) == 9, "what is left in the end is given to it, too"
    assert "table2: partly, " in told and "10 of 12 trials; " in told
    assert "the same command goes on with ara2021 table2" in told
    page = page_of(bench)
    assert page.items[0].word.startswith("reproduced here, partly: ")
    assert page.items[0].word.endswith(" of 3 blocks, 10 of 12 trials")
    for text in (as_html([page]), as_markdown([page])):
        assert " of 3 blocks, 10 of 12 trials" in text

    bench.reproduce("table2", 600.0)
    assert sorted([*kept, *bench.begun]) == sorted(whole), "nothing is measured twice"
    assert "partly" not in page_of(bench).items[0].word


def test_an_item_that_takes_longer_than_was_foretold_keeps_to_the_budget(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is known of what is around its trials but what is usual."""
    bench.around_s = 5.0
    bench.reproduce("table2", 60.0)
    assert len(bench.begun) > 5 and 50.0 < bench.now_s <= 60.0
    told = capsys.readouterr().err
    assert "table2: partly, " in told and "the same command goes on with ara2021 table2" in told
    assert "partly: " in page_of(bench).items[0].word
    bench.reproduce("table2", 600.0)
    assert len(bench.begun) == len(set(bench.begun)), "nothing is measured twice"
    assert "partly" not in page_of(bench).items[0].word


def test_an_item_of_which_no_trial_fits_is_not_begun(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is around its trials is known of an earlier run."""
    bench.around_s = 100.0
    bench.reproduce("table2", None)
    bench.begun.clear()
    bench.reproduce("table2", 60.0, again=True)
    told = capsys.readouterr().err
    assert not bench.begun
    assert "; its share of the budget ends before a trial of about 1 min 4" in told
    assert len(list((bench.results / "reproduce" / "ara2021").glob("*-table2-*"))) == 1


def test_what_is_measured_anew_within_a_budget_is_one_run(bench: Bench) -> None:
    """Stopped in its share, it goes on with what is left in the run that it has made."""
    bench.around_s = 5.0
    bench.reproduce("table2", 60.0)
    bench.around_s = 20.0
    bench.begun.clear()
    bench.reproduce("table2", 200.0, again=True)
    runs = sorted((bench.results / "reproduce" / "ara2021").glob("*-table2-*"))
    assert len(runs) == 2 and len(bench.begun) == len(set(bench.begun))


def test_only_the_runs_that_are_asked_for_are_read(bench: Bench) -> None:
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


def test_the_time_around_trials_is_learnt_from_those_that_are_most_like_them() -> None:
    around = Around()
    asked = chain(2, "vpp")
    assert around.of(asked) == usual_around_s(asked)
    for factor, one in ((4.0, chain(1, "vpp")), (3.0, chain(2, "ovs-dpdk")), (2.0, asked)):
        for _ in range(3):
            around.learn(one, factor * usual_around_s(one))
        if one is not asked:
            assert around.of(asked) == pytest.approx(factor * usual_around_s(asked))
    assert around.of(asked) == pytest.approx(2.0 * usual_around_s(asked))
    long = chain(8, "vpp")
    assert around.of(long) == pytest.approx(3.0 * usual_around_s(long)), "of all that ran"
    around.learn(asked, 100.0)
    assert around.of(asked) == pytest.approx(2.0 * usual_around_s(asked)), "one odd trial is none"


def test_earlier_runs_tell_how_long_trials_take(tmp_path: Path) -> None:
    asked = chain(2, "ovs-dpdk")
    timing = Timing(deploy_s=6.5, verify_s=0, teardown_s=0, overhead_s=7.0, measure_s=2.5)
    directory = write_run(tmp_path, [synthetic_record(asked, timing=timing)])
    (directory / "trials" / "0123456789abcdef.json").write_text("half a rec")
    around = Around()
    learn_from(around, [directory, tmp_path / "nowhere"])
    more_s = max(0.0, 2.5 - asked.duration_s)
    assert around.of(asked) == pytest.approx(7.0 + more_s)


def test_a_machine_on_which_another_bench_measures_ends_it_at_the_first_item(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def execute(campaign: Any, *_: Any) -> Executed:
        asked.append(campaign.name)
        raise BusyError("process 1 (switchmark run, since then) is measuring on this machine")

    monkeypatch.setattr(reproduce_items, "execute", execute)
    with pytest.raises(BusyError):
        bench.run(["table2", "burst"], None)
    assert len(asked) == 1
