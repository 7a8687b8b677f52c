"""The report page: its content, no requests, escaped data, and its cost."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli.report import report
from switchmark.record import Attempt, FramePath, Reconciliation, Record, Stage
from switchmark.report.host_facts import flatten
from switchmark.report.html import write_report
from switchmark.results.run_directory import open_run
from switchmark.version import full_version
from tests.unit.calls import calls_of
from tests.unit.records import (
    quick_records,
    synthetic_failure,
    synthetic_record,
    synthetic_trial,
    write_run,
)

LOADING = {"src", "srcset", "action", "data", "poster", "background", "formaction", "ping"}


EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


class Page(HTMLParser):
    """Collects the URLs, scripts and texts that a browser would load, run and show."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.shown: list[str] = []
        self.tags: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag if tag in ("script", "style") else ""
        for name, value in attrs:
            if name in LOADING or (name == "href" and not (value or "").startswith("#")):
                self.loads.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        texts = {"script": self.scripts, "style": self.styles}
        texts.get(self._inside, self.shown).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.shown).split())


def written(tmp_path: Path, records: list[Record], **definition: Any) -> tuple[Path, str]:
    target = tmp_path / "report.html"
    assert write_report(write_run(tmp_path / "results", records, **definition), target) == []
    return target, target.read_text()


def test_results_come_before_pictures_and_details(tmp_path: Path) -> None:
    _, text = written(tmp_path, quick_records(3), description="a test of reports")
    page = Page(text)
    assert "a test of reports" in page.text
    places = [
        page.text.index(title)
        for title in ("Results", "Spread of the trials", "CPU cost", "The figures",
                      "Everything else")
    ]  # fmt: skip
    assert places == sorted(places)
    assert "from 3 blocks; figures are medians" in page.text
    assert "undecided" in page.text
    assert "2 cores used; oversubscribed in 48 of 48 trials" in page.text
    for section in ("Three loads", "Latency by percentile", "Method", "The machine"):
        assert section in page.text
    assert page.text.count("Verdict: valid; limited by") == 48


def test_unexplained_losses_are_shown_with_the_trial(tmp_path: Path) -> None:
    lost = Stage(place="in the switch", lost=500, counted=100, unexplained=400)
    way = FramePath(
        pair=0, sender="tx0", receiver="rx0", not_sent=7, sent=9000, switch_received=9000,
        switch_sent=8500, arrived=8500, stages=[lost],
    )  # fmt: skip
    counted = Reconciliation(
        paths=[way], sent=9000, unexplained_frames=400, unexplained_ratio=400 / 9000,
        agrees=False, findings=[],
    )  # fmt: skip
    record = synthetic_record(marks=["counters-disagree"], reconciliation=counted)
    target = tmp_path / "report.html"
    write_report(write_run(tmp_path / "results", [record]), target)
    text = target.read_text()
    assert "Where frames went: the counters do not agree" in text
    assert "500 in the switch (<strong" in text and "400 unexplained" in text
    assert "No counter explains some missing or additional frames" in text, (
        "the explanation of the mark"
    )


def test_faults_are_shown_with_the_trial(tmp_path: Path) -> None:
    fault = "sender in tx0: port 0 (raw:dev=eth0): its peer or device went away during the trial"
    record = synthetic_record(marks=["partial"], faults=[fault])
    target = tmp_path / "report.html"
    write_report(write_run(tmp_path / "results", [record]), target)
    text = target.read_text()
    assert "Faults during the trial" in text
    assert fault in text
    assert "A fault ended part of the trial" in text, "the explanation of the mark"


def test_doubts_about_counters_are_shown_with_the_trial(tmp_path: Path) -> None:
    record = synthetic_record(
        marks=["contradictory-counts", "uncertain-loss"],
        contradictions=["receiver in rx0: 11 different frames of 10"],
        uncertain_losses=["receiver in rx0: between 0 and 3 frames were lost"],
    )
    target = tmp_path / "report.html"
    write_report(write_run(tmp_path / "results", [record]), target)
    text = target.read_text()
    assert "receiver in rx0: 11 different frames of 10" in text
    assert "receiver in rx0: between 0 and 3 frames were lost" in text
    assert "The loss is known only between two bounds" in text, "the explanation of the mark"


def test_repeated_measurements_are_shown_with_the_trial(tmp_path: Path) -> None:
    first, second = synthetic_record(number=1), synthetic_record(number=2)
    tried = [
        Attempt(started_at=r.started_at, figure=pps, unit="pps", others_cores=cores, disturbed=d)
        for r, pps, cores, d in ((first, 1.5e6, 0.8, True), (second, 2.5e6, 0.01, False))
    ]
    target = tmp_path / "report.html"
    record = second.model_copy(update={"attempts": tried})
    write_report(write_run(tmp_path / "results", [record]), target)
    text = target.read_text()
    assert "1.50 Mpps while others used 0.800 cores; " in text
    assert "2.50 Mpps while others used 0.0100 cores, kept." in text


def test_page_has_the_versions_of_bench_and_engine(tmp_path: Path) -> None:
    provenance = {"switchmark": "0.1.0+adc1ca44305e-dirty"}
    record = synthetic_record().model_copy(update={"provenance": provenance})
    page = Page(written(tmp_path, [record])[1])
    assert f"switchmark {full_version()}, engine synthetic; not certified" in page.text
    assert "switchmark 0.1.0+adc1ca44305e-dirty" in page.text.partition("The machine")[2]


def test_page_loads_no_other_file(tmp_path: Path) -> None:
    _, text = written(tmp_path, quick_records(1))
    page = Page(text)
    assert page.loads == []
    assert not {"link", "iframe", "object", "embed", "base", "img"} & set(page.tags)
    assert "default-src 'none'" in text
    for style in page.styles:
        assert "@import" not in style
        assert "url(" not in style
    scripts = [script for script in page.scripts if "plotly.js v" not in script]
    assert len(scripts) == 2, "the data of the figures, and the script of the page"
    for part in (*scripts, *page.styles, page.text):
        assert not re.search(r"(https?:)?//[a-z0-9]", part.replace("// ", "")), part[:200]


def test_texts_of_records_are_escaped(tmp_path: Path) -> None:
    record = synthetic_record(
        switch_log=EVIL,
        switch_details={EVIL: EVIL, "braces": "{{ 7 * 7 }} {% raw %} /*PLOTLY*/"},
        provenance={"cpu": {"model": EVIL}},
        notation=EVIL,
    )
    failed = synthetic_failure(synthetic_trial(repetition=1), message=EVIL)
    _, text = written(tmp_path, [record, failed], description=EVIL)
    assert EVIL not in text
    page = Page(text)
    assert "img" not in page.tags
    assert page.tags.count("script") == 3
    assert EVIL in "".join(page.shown)
    assert "{{ 7 * 7 }} {% raw %} /*PLOTLY*/" in page.text
    assert "<" not in next(script for script in page.scripts if script.startswith("[{"))


def test_control_characters_of_records_are_visible(tmp_path: Path) -> None:
    hostile = "\x1b[31m\x07\u202eend"
    failed = synthetic_failure(synthetic_trial(), message=hostile)
    _, text = written(tmp_path, [failed])
    assert not set("\x1b\x07\u202e") & set(text)
    assert "\\x1b[31m\\x07\\u202eend" in Page(text).text


def test_size_and_cost_with_a_hundred_trials(tmp_path: Path) -> None:
    records = [
        synthetic_record(synthetic_trial(switch=switch, packet_size_bytes=size, repetition=n))
        for switch in ("linux-bridge", "ovs-dpdk")
        for size in (64, 128, 256, 512, 1500)
        for n in range(10)
    ]
    few, run = write_run(tmp_path / "few", records[::5]), write_run(tmp_path, records)

    def calls(run: Path) -> int:
        return calls_of(lambda: write_report(run, tmp_path / "report.html"))[1]

    calls(few)  # the first call also loads modules
    assert calls(run) < 6 * calls(few), "five times as many trials"
    assert (tmp_path / "report.html").stat().st_size < 6_000_000


def test_facts_of_the_run_include_trials_without_details(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("switchmark.report.html.MAX_DETAILED_TRIALS", 3)
    *others, last = quick_records(1)
    ready = {"engine_version": "another"}
    assert last.trim is not None
    last = last.model_copy(
        update={
            "engines": [engine.model_copy(update={"ready": ready}) for engine in last.engines],
            "provenance": last.provenance | {"kernel": "6.19.0"},
            "trim": last.trim.model_copy(update={"policy": "nothing is left out"}),
            "port_kind": "tap",
        }
    )
    text = Page(written(tmp_path, [*others, last])[1]).text
    assert "engine another and synthetic" in text
    assert "6.18.0; 6.19.0 (changed during the run)" in text
    assert "/ nothing is left out. The raw samples" in text
    assert "oversubscribed in 16 of 16 trials" in text and "tap (direct)" in text
    assert "3 of 16 finished trials are shown" in text
    assert text.count("Verdict: valid; limited by") == 3


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "No trial has ended yet"),
        ([synthetic_failure()], "the switch died"),
        ([synthetic_record()], "One repetition"),
        ([synthetic_record(synthetic_trial(switch="direct"))], "there is nothing to compare"),
        ([synthetic_record(marks=["flooding"])], "not valid"),
        ([synthetic_record(engines=[], trim=None, cpu=None, timing=None)], "linux-bridge"),
    ],
    ids=["empty", "failed", "single", "only wire", "invalid", "sparse"],
)
def test_little_data_still_makes_a_report(
    tmp_path: Path, records: list[Record], message: str
) -> None:
    _, text = written(tmp_path, records)
    assert message in Page(text).text


def test_unreadable_files_are_listed_at_the_top(tmp_path: Path, capsys: Any) -> None:
    run = write_run(tmp_path, quick_records(1))
    broken = open_run(run).paths()[0]
    broken.write_text("{")
    assert report(str(run), html=tmp_path / "r.html") == 1
    assert str(broken) in capsys.readouterr().err
    text = Page((tmp_path / "r.html").read_text()).text
    assert text.index("Files that could not be read") < text.index("Results")
    assert broken.name in text


def test_rows_of_the_cost_table_are_different(tmp_path: Path) -> None:
    """Each row has the length of the chain and the directions."""
    records = [
        synthetic_record(synthetic_trial(scenario=f"loopback-{n}", bidirectional=both))
        for n in (1, 2, 3)
        for both in (False, True)
    ]
    target = tmp_path / "report.html"
    write_report(write_run(tmp_path / "results", records), target)
    cost = target.read_text().partition("<h3>Cost: cores used")[2].partition("</table>")[0]
    cells = re.findall(r"<tr>(.*?)</tr>", cost, re.DOTALL)
    named = [re.sub(r"<[^>]*>", "|", cell) for cell in cells]
    for n in (1, 2, 3):
        for both in ("one way", "both ways"):
            rows = [row for row in named if f"|loopback-{n}|" in row and f"|{both}|" in row]
            assert len(rows) == 1, named


def test_nested_facts_become_lines() -> None:
    assert flatten({"a": {"b": [1, 2], "c": None}, "d": [{"e": True}], "f": []}) == [
        ("a.b", "1, 2"),
        ("a.c", "unknown"),
        ("d.0.e", "True"),
        ("f", "none"),
    ]
