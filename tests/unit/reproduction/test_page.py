"""The page of a paper: its drawings in the paper's own form, as objects, and in a real browser."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Canvas

import switchmark
from switchmark.campaign.expand import expand
from switchmark.campaign.find import find_campaign
from switchmark.campaign.installed import installed
from switchmark.reproduction.bars import draw_bars
from switchmark.reproduction.comparison_table import lines_of
from switchmark.reproduction.draw import drawing
from switchmark.reproduction.drawing import in_order, whiskers
from switchmark.reproduction.findings import JudgedFinding
from switchmark.reproduction.page import _instead, as_html, as_markdown, make_page
from switchmark.reproduction.paper import Figure, read_paper
from switchmark.reproduction.ratio_test import estimate_of
from switchmark.reproduction.run import folder_of, read_measured, rows_of
from switchmark.results.findings import FindingVerdict
from switchmark.results.summary import summary
from switchmark.simulation.switch import Behaviour
from switchmark.statistics.means import Estimate
from tests.unit.browser import browsing, chromium
from tests.unit.method_fakes import run_simulated
from tests.unit.records import synthetic_record, synthetic_trial, write_run
from tests.unit.report.test_html_browser import EVIL

THERE = installed()
PAPER = read_paper("dagar2017")
SWITCH = "ovs-dpdk"


def measured(results: Path, name: str, **changes: object) -> None:
    """A run of the item's campaign: every trial of one switch, made up."""
    campaign = find_campaign(PAPER.item(name).campaign, THERE.known)
    records = [
        synthetic_record(trial, **{"marks": [], **changes})
        for trial in expand(campaign, THERE.switches, THERE.environments)
        if trial.switch == SWITCH
    ]
    write_run(folder_of(PAPER, results), records, campaign=PAPER.item(name).campaign)


def test_a_table_has_the_published_values_of_its_item_alone_each_with_its_note() -> None:
    paper = read_paper("ara2021")
    campaign = find_campaign("ara2021-fig5a", THERE.known)
    bursts = {name: lines_of(paper.item(name), [], campaign) for name in ("fig5a", "fig5b")}
    assert [line.theirs for line in bursts["fig5a"]] == [
        "12.4 µs (its best; at which size and burst is not said)",
        "64 µs (its least mean; at which size and burst is not said)",
    ]
    assert not bursts["fig5b"], "both stand beside bursts of 4"


def test_grouped_bars_have_a_group_a_size_a_bar_a_contender_and_what_is_published(
    tmp_path: Path,
) -> None:
    measured(tmp_path, "table5")
    bits = Figure(unit="bps")
    item = PAPER.item("table5").model_copy(
        update={"form": "grouped", "x": "packet_size", "across": bits}
    )
    held = read_measured(PAPER, tmp_path)
    campaign = find_campaign(item.campaign, THERE.known)
    rows = rows_of(item, held)
    canvas = drawing(item, rows, campaign, lambda _: None)
    assert canvas is not None
    axes, dots = canvas.axes
    sizes = sorted({row.trial.packet_size_bytes for row in rows})
    limits = {row.trial.cpu_limit for row in rows}
    assert [text.get_text() for text in axes.get_xticklabels()] == [str(one) for one in sizes]
    assert len(axes.patches) == len(sizes) * len(limits)
    heights = sorted(bar.get_height() for bar in axes.patches)  # type: ignore[attr-defined]
    figures = [estimate_of(row, item.y) for row in rows]
    assert heights == pytest.approx(sorted(one.mean / 1e6 for one in figures if one is not None))
    (published,) = [one for one in axes.lines if one.get_label() == "published"]
    theirs = {
        one.value / 1e6
        for one in campaign.published
        if item.y.is_of(one) and any(one.matches(row.trial) for row in rows)
    }
    assert len(theirs) > len(sizes)
    assert {round(float(y), 6) for y in published.get_ydata()} == {round(y, 6) for y in theirs}  # type: ignore[union-attr]
    assert sum(len(line.get_xdata()) for line in dots.lines) == len(rows)  # type: ignore[arg-type]
    assert dots.get_ylabel() == bits.words


def test_bars_have_a_column_a_figure_and_leave_nothing_out_in_silence(tmp_path: Path) -> None:
    run = write_run(tmp_path, [synthetic_record()])
    (row,) = summary(run)
    rows = [replace(row, contender=f"s{number}") for number in range(103)]
    canvas = Canvas()
    loads = (Figure(unit="pps"), Figure(unit="bps"))
    draw_bars(canvas, loads, rows, [], [])
    assert [len(axes.patches) for axes in canvas.axes] == [100, 100]
    assert [axes.get_title() for axes in canvas.axes] == [one.words for one in loads]
    assert canvas.get_suptitle() == "3 more are in the table below"


def test_labels_are_sorted_by_their_numbers() -> None:
    names = ["100 % CPU", "12.5 % CPU", "25 % CPU"]
    assert sorted(names, key=in_order) == ["12.5 % CPU", "25 % CPU", "100 % CPU"]


def test_a_distribution_has_what_is_published_of_it_where_it_lies(tmp_path: Path) -> None:
    item = PAPER.item("table4")
    campaign = find_campaign(item.campaign, THERE.known)
    trial = next(
        one
        for one in expand(campaign, THERE.switches, THERE.environments)
        if one.switch == "basicfwd"
    )
    found = run_simulated("one-way", Behaviour(capacity_pps=1e6), rate_pps=100_000)
    record = synthetic_record(trial, marks=[], throughput=None, trim=None, method=found)
    write_run(folder_of(PAPER, tmp_path), [record], campaign.name)
    (axes,) = switchmark.Reproduction("dagar2017", tmp_path).drawings()["table4"].axes
    (marks,) = [line for line in axes.lines if str(line.get_label()).startswith("published")]
    told = {(10.267, 0.0), (14.26, 45.0), (14.313, 50.0), (15.6, 95.0), (15.716, 100.0)}
    assert set(map(tuple, marks.get_xydata().tolist())) == told  # type: ignore[union-attr]


def test_marks_of_the_page_s_words_are_code_and_nothing_else_is(tmp_path: Path) -> None:
    page = as_html([make_page(PAPER, THERE, tmp_path, [])])
    assert "run `switchmark certify`" not in page
    judged = JudgedFinding(PAPER.findings[0], FindingVerdict.CANNOT, "write `a` <b>`c`</b>")
    shown = replace(make_page(PAPER, THERE, tmp_path, []), findings=(judged,))
    assert "write <code>a</code> &lt;b&gt;<code>c</code>&lt;/b&gt;" in as_html([shown])


def test_the_page_says_which_switchmark_measured_and_when(tmp_path: Path) -> None:
    for name, day, version in (("fig14", "2026-11-25", "0.2.0"), ("table5", "2026-11-23", "0.1.0")):
        campaign = find_campaign(PAPER.item(name).campaign, THERE.known)
        trial = expand(campaign, THERE.switches, THERE.environments)[0]
        record = synthetic_record(trial)
        if name == "table5":  # older records do not tell it
            told_by = {"switchmark": "0.1.0+adc1ca44305e"}
            record = record.model_copy(update={"provenance": record.provenance | told_by})
        run = write_run(folder_of(PAPER, tmp_path), [record], campaign.name)
        told = json.loads((run / "run.json").read_text())
        told |= {"started_at": f"{day}T10:00:00+00:00", "switchmark_version": version}
        (run / "run.json").write_text(json.dumps(told))
    page = make_page(PAPER, THERE, tmp_path, [PAPER.item("table5")])
    who = "switchmark 0.1.0+adc1ca44305e and 0.2.0, engine synthetic"
    assert page.made_by == f"{who}, 2026-11-23 to 2026-11-25"
    marked = as_markdown([page])
    assert marked.startswith("# Reproduction\n\nDagar 2017 measured virtual switches.")
    assert f"\n- Measured by: {page.made_by}; not certified: " in marked
    assert "switchmark reproduce dagar2017 --only-report --markdown FILE" in marked
    assert f"<dt>Measured by</dt><dd>{page.made_by}; not certified: " in as_html([page])
    nothing = make_page(PAPER, THERE, tmp_path / "none", [])
    assert nothing.made_by == "" and "Measured by" not in as_markdown([nothing])


def test_verdicts_are_counted_in_their_order(tmp_path: Path) -> None:
    page = make_page(PAPER, THERE, tmp_path, [])
    verdicts = [*FindingVerdict, FindingVerdict.UNDECIDED]
    judged = tuple(JudgedFinding(PAPER.findings[0], one, "") for one in verdicts)
    told = "1 contradicted, 2 undecided, 1 cannot be tried here, 1 not tried yet"
    assert replace(page, findings=judged).counts == f"1 holds, {told}"
    assert replace(page, findings=(judged[0], *judged)).counts == f"2 hold, {told}"


def test_an_item_without_a_valid_figure_is_not_said_to_be_reproduced(tmp_path: Path) -> None:
    item = PAPER.item("table5")
    for marks, word, counted in (
        (["software-emulated"], "measured here, no figure is valid", 0),
        ([], "reproduced here", 1),
    ):
        results = tmp_path / word.split()[0]
        measured(results, item.name, marks=marks)
        page = make_page(PAPER, THERE, results, [item])
        assert page.items[0].measured and page.items[0].word.startswith(word)
        assert f"| [Dagar 2017](#dagar2017) | 1 | {counted} |" in as_markdown([page])


def test_the_word_of_an_item_says_what_was_measured_in_whose_place(tmp_path: Path) -> None:
    measured(tmp_path, "table5")
    (found,) = make_page(PAPER, THERE, tmp_path, [PAPER.item("table5")]).items
    one = replace(found, part="")
    assert one.instead == "none" and one.word.endswith(", but for what is missing")
    whole = replace(one, item=one.item.model_copy(update={"missing": ()}))
    assert "missing" not in whole.word
    assert replace(whole, instead="all").word == "a substitute was measured here"
    alone = replace(whole, state=replace(whole.state, notes=()))
    assert alone.word == "reproduced here"
    assert replace(alone, instead="some").word == "reproduced here, with substitutes"


@pytest.mark.parametrize(
    ("switches", "word"), [((SWITCH,), "all"), (("linux-bridge", SWITCH), "some")]
)
def test_stand_ins_are_counted_by_the_switches_that_were_measured(
    tmp_path: Path, switches: Sequence[str], word: str
) -> None:
    records = [synthetic_record(synthetic_trial(switch=switch)) for switch in switches]
    item = PAPER.item("table5").model_copy(update={"instead": {SWITCH: "in its place"}})
    assert _instead(item, summary(write_run(tmp_path, records))) == word
    assert _instead(PAPER.item("table5"), summary(write_run(tmp_path, records))) == "none"


def test_what_a_paper_does_not_say_is_impossible_and_a_remark_stands_beside_its_words() -> None:
    page = make_page(PAPER, THERE, Path("/nonexistent"), [PAPER.item("fig17")])
    assert page.items[0].word.startswith("impossible: the text does not have")
    told = next(one.finding for one in page.findings if one.finding.remark)
    assert f"{told.words} *({told.remark})*" in as_markdown([page])
    assert f"({told.remark})" in as_html([page])


def test_a_paper_is_an_object_with_findings_figures_and_drawings(tmp_path: Path) -> None:
    measured(tmp_path, "table5")
    found = switchmark.Reproduction("dagar2017", tmp_path)
    assert {one.finding.name for one in found.findings} == {one.name for one in PAPER.findings}
    drawn = found.drawings()
    assert set(drawn) == {"table5"} and drawn["table5"].axes
    frame = found.frame()
    own = frame.filter((frame["item"] == "table5") & (frame["ours"] != "not measured here"))
    assert len(own) and own["who"].str.starts_with(SWITCH).all()
    assert set(own.columns) >= {"ours", "theirs", "ratio", "marks"}


@pytest.mark.skipif(chromium() is None, reason="no chromium here (apt install chromium)")
@pytest.mark.xdist_group("browser")
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    """It shows figures at both widths, loads nothing, and runs nothing of what a record says."""
    measured(tmp_path, "table5", switch_log=EVIL, switch_details={"version": EVIL})
    file = tmp_path / "page.html"
    file.write_text(as_html([make_page(PAPER, THERE, tmp_path)]))
    with browsing(tmp_path / "profile") as browser:
        for width in (1280, 400):
            browser.open(file, width)
            assert browser.requests == [file.as_uri()] and browser.complaints == []
            assert browser.value("window.ran") is None
            assert browser.value("document.querySelectorAll('figure svg').length") == 1
            assert browser.value(
                "[...document.querySelectorAll('tbody tr .verdict')].length"
            ) == len(PAPER.findings)
            assert browser.value("document.documentElement.scrollWidth") <= width
            assert browser.value(
                "[...document.querySelectorAll('.scroll')]"
                ".every(one => one.scrollWidth <= one.clientWidth)"
            ), "nor is a table wider than the page"


def test_whiskers_reach_both_ends_of_the_interval() -> None:
    wide = Estimate(129.0, 129.0, 3, low=32.1, high=521.0)
    alone = Estimate(5.0, 5.0, 1)
    below, above = whiskers([wide, alone], 1.0)
    assert (below[0], above[0]) == (pytest.approx(96.9), pytest.approx(392.0))
    assert math.isnan(below[1]) and math.isnan(above[1])
