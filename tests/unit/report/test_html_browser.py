"""The report in a real browser: order, widths, themes, keyboard, print, and hostile records."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli.run_output import summary_lines
from switchmark.model.machine_state import MachineState
from switchmark.model.value import parse_utc
from switchmark.record import CertificateNote, Record
from switchmark.record.certificate import REFUTED
from switchmark.report.html import write_report
from switchmark.report.summary_words import answers_of
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from switchmark.trial.recording import failed_record
from tests.unit.browser import Browser, browsing, chromium
from tests.unit.records import quick_records, synthetic_record, synthetic_trial, write_run

BLOCKS = 10
WIDTHS = (1280, 400)
# Opens all folded parts, but of the trials only one: each has a plot, which takes long to draw.
OPEN = (
    "document.querySelectorAll('details:not(.trial), #trials > .trial:nth-of-type(1)')"
    ".forEach(one => one.open = true)"
)
RUNS = "window.ran = (window.ran || 0) + 1"
EVIL = (
    f"</script><script>{RUNS}</script><img src=http://127.0.0.1:9/x onerror='{RUNS}'>"
    f"<a href=\"javascript:{RUNS}\" onclick='{RUNS}'>a</a><iframe srcdoc='<script>{RUNS}</script>'>"
    f"</iframe>\"'><svg onload='{RUNS}'><style>@import 'http://127.0.0.1:9/y'</style>"
)

pytestmark = [
    pytest.mark.skipif(chromium() is None, reason="no chromium here (apt install chromium)"),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("profile")) as chromium_browser:
        yield chromium_browser


def _records() -> list[Record]:
    return [r for r in quick_records(BLOCKS) if r.trial.packet_size_bytes == 64]


def _in_two_states(records: list[Record]) -> list[Record]:
    """Return the records with a machine whose state is slow in every second block, in which
    switches that poll forward half."""
    changed = []
    for record in records:
        is_slow = record.trial.repetition % 2 == 1
        state = MachineState(at_ns=0, cores=[0, 1], lines_ns=[150.0 if is_slow else 26.0])
        update: dict[str, Any] = {"state_before": state, "state_after": state}
        if record.throughput is not None and is_slow and record.trial.switch != "linux-bridge":
            loads, (pair,) = record.throughput, record.throughput.pairs
            rates = ("forwarded_pps", "forwarded_l2_bps", "forwarded_l1_bps", "offered_pps")
            halved = {name: getattr(loads, name) / 2 for name in rates}
            pair_rates = {name: halved[name] for name in ("forwarded_pps", "offered_pps")}
            pairs = [pair.model_copy(update=pair_rates)]
            update["throughput"] = loads.model_copy(update={**halved, "pairs": pairs})
        changed.append(record.model_copy(update=update))
    return changed


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = _in_two_states(_records())
    folder = tmp_path_factory.mktemp("results")
    return write_run(folder, records, repetitions=BLOCKS, description="made-up figures")


@pytest.fixture(scope="module")
def page(run: Path) -> Path:
    target = run / "report.html"
    write_report(run, target)
    return target


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_page_is_drawn_without_errors_or_requests(
    browser: Browser, page: Path, width: int, dark: bool
) -> None:
    browser.open(page, width, dark=dark)
    browser.value(OPEN)
    browser.settle()
    assert browser.complaints == []
    assert browser.requests == [page.as_uri()]
    unfolded, drawn = browser.value(
        "['', ' .main-svg:first-child'].map(one => [...document.querySelectorAll("
        "'.chart' + one)].filter(chart => !chart.closest('.trial:not([open])')).length)"
    )
    assert unfolded == drawn >= 10


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_page(browser: Browser, page: Path, width: int) -> None:
    """Tables scroll inside their boxes. All folded parts are open."""
    browser.open(page, width)
    browser.value(OPEN)
    browser.settle()
    wide = browser.value(
        """[...document.querySelectorAll('body *')].filter(one => {
             const box = one.getBoundingClientRect();
             return box.width && box.right > document.documentElement.clientWidth + 1
               && !one.parentElement.closest('.scroll, .chart');
           }).map(one => one.outerHTML.slice(0, 120))"""
    )
    assert wide == []
    assert browser.value("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_of_a_run_without_comparisons_are_visible(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    trials = [
        synthetic_trial(switch=switch, environment=environment)
        for switch in ("ovs-dpdk", "linux-bridge", "direct")
        for environment in ("netns", "lxc")
    ]
    target = tmp_path / "page.html"
    write_report(write_run(tmp_path, [synthetic_record(trial) for trial in trials]), target)
    browser.open(target, width)
    ends = browser.value(
        """[...document.querySelectorAll('#answer .found td')].map(
             one => one.getBoundingClientRect().right)"""
    )
    assert len(ends) == len(trials)
    assert max(ends) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_text_of_pictures_is_legible(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width)
    small = browser.value(
        """[...document.querySelectorAll('svg text')].filter(one => one.textContent.trim())
             .filter(one => parseFloat(getComputedStyle(one).fontSize) < 11)
             .map(one => one.textContent)"""
    )
    assert small == []
    cut = browser.value(
        """[...document.querySelectorAll('#pictures .chart')].flatMap(chart => {
             const edge = chart.getBoundingClientRect();
             return [...chart.querySelectorAll('.annotation-text, .xtick text, .legendtext')]
               .filter(text => text.getBoundingClientRect().right > edge.right + 1
                 || text.getBoundingClientRect().left < edge.left - 1)
               .map(text => text.textContent);
           })"""
    )
    assert cut == []


def test_page_has_answer_pictures_table_and_folded_details(browser: Browser, page: Path) -> None:
    browser.open(page)
    sections = browser.value("[...document.querySelectorAll('main > section')].map(s => s.id)")
    assert sections == ["answer", "pictures", "table", "details"]
    headings = browser.value(
        "[...document.querySelectorAll('#pictures h2')].map(h => h.textContent)"
    )
    assert headings == ["Lead of the best contender", "Spread of the trials", "CPU cost"]
    assert browser.value("document.querySelectorAll('#table table').length") == 1
    folded = browser.value("[...document.querySelectorAll('#details > details')].map(d => d.id)")
    assert {"caveats", "tables", "plots", "trials", "machine", "method"} <= set(folded)
    is_open = "document.querySelectorAll('#details > details[open], #pictures details[open]')"
    assert browser.value(f"{is_open}.length") == 0


def test_page_has_all_texts_of_the_terminal(browser: Browser, run: Path, page: Path) -> None:
    browser.open(page)
    shown = " ".join(browser.value("document.querySelector('#answer').textContent").split())
    rows = summary(run)
    opened = open_run(run)
    answers = answers_of(opened, rows, rows)
    ratios = [ratio for answer in answers for lead in answer.leads for ratio in lead.ratios]
    assert any(ratio.state for ratio in ratios), "the ratios are per state of the machine"
    lines = [line.text for line in summary_lines(opened, rows, rows, answers)]
    assert len(lines) > 10
    assert "there is no ranking" not in shown
    at = next(n for n, line in enumerate(lines) if line.startswith("Meaning of the marks"))
    certified = lines[at + 1].lstrip("NnCc")
    assert certified in browser.value("document.body.textContent")
    for line in lines[1:at]:  # without the first line, and the commands at the end
        for part in re.split(r"^\s*\d+\. |\s{2,}", line.strip()):
            assert part.removesuffix(" ...") in shown, line


def test_ratios_have_a_logarithmic_axis_with_line_and_band(browser: Browser, page: Path) -> None:
    browser.open(page)
    axis, shapes, traces = browser.value(
        """(() => { const chart = document.querySelector('#pictures .chart');
             return [chart.layout.xaxis, chart.layout.shapes, chart.data.map(t => ({
               x: t.x, low: t.error_x.arrayminus, color: t.marker.color}))]; })()"""
    )
    assert axis["type"] == "log"
    band, line = shapes
    assert (band["x0"], band["x1"]) == pytest.approx((1 / 1.05, 1.05))
    assert line["x0"] == line["x1"] == 1
    assert traces[0]["x"] == [1], "the leader"
    for trace in traces[1:]:
        assert all(value - below > 0 for value, below in zip(trace["x"], trace["low"], strict=True))
    assert all(10 ** axis["range"][0] < t["x"][0] < 10 ** axis["range"][1] for t in traces)
    assert math.isfinite(axis["range"][0])


def test_folded_parts_open_by_key_and_by_link(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.value("document.querySelector('#trials > summary').focus()")
    browser.press("Enter", 13)
    assert browser.value("document.querySelector('#trials').open")
    browser.value("document.querySelector('#trials details summary').focus()")
    browser.press(" ", 32)
    assert browser.value("document.querySelectorAll('#trials details[open] .main-svg').length") > 0
    browser.value("document.querySelector('#table a[href^=\"#mark-\"]').click()")
    browser.settle()
    assert browser.value("document.querySelector('#caveats').open")
    assert browser.complaints == []


def test_print_has_light_colours_and_no_folded_parts(browser: Browser, page: Path) -> None:
    browser.open(page, dark=True)
    printed = browser.call("Page.printToPDF", preferCSSPageSize=True)["data"]
    assert len(printed) > 50_000
    assert browser.complaints == []
    browser.call("Emulation.setEmulatedMedia", media="print", features=[])
    browser.settle()
    assert browser.value("getComputedStyle(document.querySelector('#trials')).display") == "none"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which every text is an attack."""
    folder = tmp_path_factory.mktemp("hostile")
    records = []
    for repetition in range(6):
        for switch in ("linux-bridge", "ovs-dpdk"):
            trial = synthetic_trial(switch=switch, repetition=repetition)
            record = synthetic_record(
                trial, switch_log=EVIL, switch_details={EVIL: EVIL}, notation=EVIL,
                provenance={EVIL: EVIL}, io=EVIL, faults=[EVIL],
                port_kind=f"{EVIL}{repetition % 2}",
            )  # fmt: skip
            assert record.limit is not None and record.placement is not None
            update = {
                "limit": record.limit.model_copy(update={"evidence": [EVIL]}),
                "placement": record.placement.model_copy(update={"reason": EVIL, "idle": EVIL}),
                "engines": [engine.model_copy(update={"node": EVIL, "args": [EVIL]})
                            for engine in record.engines],
                "certificate": CertificateNote(
                    id=EVIL, made_at=record.started_at, outcome=REFUTED, holds=False, why=EVIL,
                    refuted=[EVIL],
                ),
            }  # fmt: skip
            records.append(record.model_copy(update=update))
    begun, error = parse_utc(record.started_at), OSError(EVIL)
    failed = synthetic_trial(switch="linux-bridge", packet_size_bytes=1500)
    records.append(failed_record(failed, campaign=EVIL, run_id="x", begun=begun, error=error))
    published = {"match": {"switch": "linux-bridge"}, "value": 1, "unit": "pps", "source": EVIL,
                 "note": EVIL}  # fmt: skip
    run = write_run(folder, records, repetitions=6, description=EVIL, published=[published])
    target = run / "report.html"
    assert write_report(run, target) == []
    return target


def test_texts_of_records_run_no_script_and_load_nothing(browser: Browser, hostile: Path) -> None:
    browser.open(hostile)
    browser.value(OPEN)
    browser.settle()
    assert browser.value("document.body.textContent").count("</script><script>") > 20
    browser.value("document.querySelectorAll('a, svg a').forEach(one => one.dispatchEvent("
                  "new MouseEvent('click', {bubbles: true})))")  # fmt: skip
    browser.settle()
    assert browser.value("window.ran || 0") == 0
    assert browser.requests[0] == hostile.as_uri()
    assert {url.partition("#")[0] for url in browser.requests} == {hostile.as_uri()}
    assert browser.complaints == []
    foreign = "[...document.querySelectorAll('img, iframe, svg a')].length"
    assert browser.value(foreign) == 0


def test_content_security_policy_stops_an_unescaped_attack(
    browser: Browser, page: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.html"
    broken.write_text(page.read_text().replace("<main>", f"<main>{EVIL}", 1))
    browser.open(broken)
    browser.value("document.querySelector('main a').click()")
    browser.settle()
    assert browser.value("document.querySelectorAll('main img').length") == 1
    assert browser.value("window.ran || 0") == 0
    complaints = " ".join(browser.complaints)
    assert "Content Security Policy" in complaints
    for element in ("script", "img"):
        assert element in complaints
    blocked = [e for e in browser.events if e.get("method") == "Network.loadingFailed"]
    requests = [url for url in browser.requests if not url.startswith("file:")]
    assert len(requests) <= len(blocked), "the browser blocked each request"
    assert browser.value("document.querySelectorAll('#pictures .main-svg').length") > 0
