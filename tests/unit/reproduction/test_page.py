"""The page of a paper: its drawings in the form of the paper, as objects, and in a browser."""

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
    """Write a run of the item's campaign with synthetic records of one switch."""
    campaign = find_campaign(PAPER.item(name).campaign, THERE.known)
    records = [
        synthetic_record(trial, **{"marks": [], **changes})
        for trial in expand(campaign, THERE.switches, THERE.environments)
        if trial.switch == SWITCH
    ]
    write_run(folder_of(PAPER, results), records, campaign=PAPER.item(name).campaign)


def test_table_has_published_values_of_its_item_with_notes() -> None:
    paper = read_paper("ara2021")
    campaign = find_campaign("ara2021-fig5a", THERE.known)
    bursts = {name: lines_of(paper.item(name), [], campaign) for name in ("fig5a", "fig5b")}
    assert [line.published for line in bursts["fig5a"]] == [
        "12.4 µs (its best; the paper does not state size and burst)",
        "64 µs (its least mean; the paper does not state size and burst)",
    ]
    assert not bursts["fig5b"], "both belong to bursts of 4"


def test_grouped_bars_have_groups_bars_and_published_values(
    tmp_path: Path,
) -> None:
    measured(tmp_path, "table5")
    bits = Figure(unit="bps")
    item = PAPER.item("table5").model_copy(
        update={"form": "grouped", "x": "packet_size", "across": bits}
    )
    measured_runs = read_measured(PAPER, tmp_path)
    campaign = find_campaign(item.campaign, THERE.known)
    rows = rows_of(item, measured_runs)
    canvas = drawing(item, rows, campaign, lambda _: None)
    assert canvas is not None
    axes, dots = canvas.axes
    sizes = sorted({row.trial.packet_size_bytes for row in rows})
    limits = {row.trial.cpu_limit for row in rows}
    assert [text.get_text() for text in axes.get_xticklabels()] == [str(item_) for item_ in sizes]
    assert len(axes.patches) == len(sizes) * len(limits)
    heights = sorted(bar.get_height() for bar in axes.patches)  # type: ignore[attr-defined]
    figures = [estimate_of(row, item.y) for row in rows]
    assert heights == pytest.approx(
        sorted(item_.mean / 1e6 for item_ in figures if item_ is not None)
    )
    (published,) = [item_ for item_ in axes.lines if item_.get_label() == "published"]
    expected = {
        item_.value / 1e6
        for item_ in campaign.published
        if item.y.is_of(item_) and any(item_.matches(row.trial) for row in rows)
    }
    assert len(expected) > len(sizes)
    assert {round(float(y), 6) for y in published.get_ydata()} == {round(y, 6) for y in expected}  # type: ignore[union-attr]
    assert sum(len(line.get_xdata()) for line in dots.lines) == len(rows)  # type: ignore[arg-type]
    assert dots.get_ylabel() == bits.words


def test_bars_have_a_column_for_each_figure_and_name_the_rest(tmp_path: Path) -> None:
    run = write_run(tmp_path, [synthetic_record()])
    (row,) = summary(run)
    rows = [replace(row, contender=f"s{number}") for number in range(103)]
    canvas = Canvas()
    loads = (Figure(unit="pps"), Figure(unit="bps"))
    draw_bars(canvas, loads, rows, [], [])
    assert [len(axes.patches) for axes in canvas.axes] == [100, 100]
    assert [axes.get_title() for axes in canvas.axes] == [item_.words for item_ in loads]
    assert canvas.get_suptitle() == "3 more are in the table below"


def test_labels_are_sorted_by_their_numbers() -> None:
    names = ["100 % CPU", "12.5 % CPU", "25 % CPU"]
    assert sorted(names, key=in_order) == ["12.5 % CPU", "25 % CPU", "100 % CPU"]


def test_distribution_has_its_published_statistics(tmp_path: Path) -> None:
    item = PAPER.item("table4")
    campaign = find_campaign(item.campaign, THERE.known)
    trial = next(
        item_
        for item_ in expand(campaign, THERE.switches, THERE.environments)
        if item_.switch == "basicfwd"
    )
    found = run_simulated("one-way", Behaviour(capacity_pps=1e6), rate_pps=100_000)
    record = synthetic_record(trial, marks=[], throughput=None, trim=None, method=found)
    write_run(folder_of(PAPER, tmp_path), [record], campaign.name)
    (axes,) = switchmark.Reproduction("dagar2017", tmp_path).drawings()["table4"].axes
    (marks,) = [line for line in axes.lines if str(line.get_label()).startswith("published")]
    texts = {(10.267, 0.0), (14.26, 45.0), (14.313, 50.0), (15.6, 95.0), (15.716, 100.0)}
    assert set(map(tuple, marks.get_xydata().tolist())) == texts  # type: ignore[union-attr]


def test_text_in_backticks_is_code_and_html_is_escaped(tmp_path: Path) -> None:
    page = as_html([make_page(PAPER, THERE, tmp_path, [])])
    assert "run `switchmark certify`" not in page
    judged = JudgedFinding(PAPER.findings[0], FindingVerdict.CANNOT, "write `a` <b>`c`</b>")
    shown = replace(make_page(PAPER, THERE, tmp_path, []), findings=(judged,))
    assert "write <code>a</code> &lt;b&gt;<code>c</code>&lt;/b&gt;" in as_html([shown])


def test_page_names_versions_and_dates(tmp_path: Path) -> None:
    for name, day, version in (("fig14", "2026-11-25", "0.2.0"), ("table5", "2026-11-23", "0.1.0")):
        campaign = find_campaign(PAPER.item(name).campaign, THERE.known)
        trial = expand(campaign, THERE.switches, THERE.environments)[0]
        record = synthetic_record(trial)
        if name == "table5":  # older records lack the version
            told_by = {"switchmark": "0.1.0+adc1ca44305e"}
            record = record.model_copy(update={"provenance": record.provenance | told_by})
        run = write_run(folder_of(PAPER, tmp_path), [record], campaign.name)
        texts = json.loads((run / "run.json").read_text())
        texts |= {"started_at": f"{day}T10:00:00+00:00", "switchmark_version": version}
        (run / "run.json").write_text(json.dumps(texts))
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
    judged = tuple(JudgedFinding(PAPER.findings[0], item_, "") for item_ in verdicts)
    texts = "1 contradicted, 2 undecided, 1 cannot be tried here, 1 not tried yet"
    assert replace(page, findings=judged).counts == f"1 holds, {texts}"
    assert replace(page, findings=(judged[0], *judged)).counts == f"2 hold, {texts}"


def test_item_without_valid_figure_is_not_reproduced(tmp_path: Path) -> None:
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


def test_state_of_an_item_names_substitutes(tmp_path: Path) -> None:
    measured(tmp_path, "table5")
    (found,) = make_page(PAPER, THERE, tmp_path, [PAPER.item("table5")]).items
    item_ = replace(found, part="")
    assert item_.instead == "none" and item_.word.endswith(", except for missing parts")
    whole = replace(item_, item=item_.item.model_copy(update={"missing": ()}))
    assert "missing" not in whole.word
    assert replace(whole, instead="all").word == "a substitute was measured here"
    alone = replace(whole, state=replace(whole.state, notes=()))
    assert alone.word == "reproduced here"
    assert replace(alone, instead="some").word == "reproduced here, with substitutes"


@pytest.mark.parametrize(
    ("switches", "word"), [((SWITCH,), "all"), (("linux-bridge", SWITCH), "some")]
)
def test_substitutes_are_counted_by_measured_switches(
    tmp_path: Path, switches: Sequence[str], word: str
) -> None:
    records = [synthetic_record(synthetic_trial(switch=switch)) for switch in switches]
    item = PAPER.item("table5").model_copy(update={"instead": {SWITCH: "in its place"}})
    assert _instead(item, summary(write_run(tmp_path, records))) == word
    assert _instead(PAPER.item("table5"), summary(write_run(tmp_path, records))) == "none"


def test_page_shows_missing_information_and_remarks() -> None:
    page = make_page(PAPER, THERE, Path("/nonexistent"), [PAPER.item("fig17")])
    assert page.items[0].word.startswith("impossible: the text does not have")
    texts = next(item_.finding for item_ in page.findings if item_.finding.remark)
    assert f"{texts.statement} *({texts.remark})*" in as_markdown([page])
    assert f"({texts.remark})" in as_html([page])


def test_reproduction_has_findings_figures_and_drawings(tmp_path: Path) -> None:
    measured(tmp_path, "table5")
    found = switchmark.Reproduction("dagar2017", tmp_path)
    assert {item_.finding.name for item_ in found.findings} == {
        item_.name for item_ in PAPER.findings
    }
    drawn = found.drawings()
    assert set(drawn) == {"table5"} and drawn["table5"].axes
    frame = found.frame()
    lines = frame.filter((frame["item"] == "table5") & (frame["measured"] != "not measured here"))
    assert len(lines) and lines["contender"].str.starts_with(SWITCH).all()
    assert set(lines.columns) >= {"measured", "published", "ratio", "marks"}


@pytest.mark.skipif(chromium() is None, reason="no chromium here (apt install chromium)")
@pytest.mark.xdist_group("browser")
def test_page_in_a_browser_loads_and_runs_nothing(tmp_path: Path) -> None:
    """It fits both widths, loads nothing, and runs no script from a record."""
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
