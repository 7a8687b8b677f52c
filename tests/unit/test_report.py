"""The report: complete, honest, offline, safe against what is in the data, quick."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from switchmark.cli.report import report
from switchmark.model.choices import Dimension
from switchmark.report.answer import answers
from switchmark.report.axes import x_axis
from switchmark.report.distributions import distribution_panels
from switchmark.report.figures import Drawing, log_ticks, looks, row_names
from switchmark.report.html import flatten, write_report
from switchmark.report.latency import spread_panels
from switchmark.report.samples import MAX_POINTS, samples_figure
from switchmark.report.static import write_plots
from switchmark.report.throughput import cpu_panels, throughput_panels
from switchmark.report.trend import trends
from switchmark.results.record import (
    Attempt,
    EngineRun,
    FramePath,
    Interval,
    Reconciliation,
    Record,
    Stage,
)
from switchmark.results.store import open_run
from switchmark.results.summary import summary
from switchmark.statistics.means import estimate
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
    """Collects what a browser would load, run and show."""

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
        where = {"script": self.scripts, "style": self.styles}
        where.get(self._inside, self.shown).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.shown).split())


def written(tmp_path: Path, records: list[Record], **definition: Any) -> tuple[Path, str]:
    target = tmp_path / "report.html"
    assert write_report(write_run(tmp_path / "results", records, **definition), target) == []
    return target, target.read_text()


def test_it_answers_in_words_first(tmp_path: Path) -> None:
    _, text = written(tmp_path, quick_records(3), description="a test of reports")
    page = Page(text)
    assert "a test of reports" in page.text
    places = [
        page.text.index(title)
        for title in ("The answer", "How far apart the trials are", "CPU cost", "The figures",
                      "Everything else", "Means compared")
    ]  # fmt: skip
    assert places == sorted(places)
    means = page.text[places[-1] :]
    assert re.search(r"64 B basicfwd 3\.\d+ Mpps, [12]\.\d+ Gbit/s L2 95 % CI 3", means)
    assert "significant, p" in means
    assert "of what the bare wire carries" in means
    assert "2 cores used; oversubscribed in 48 of 48 trials" in page.text
    for section in ("Three loads", "Latency by percentile", "Method", "The machine"):
        assert section in page.text
    assert page.text.count("Verdict: valid; limited by") == 48


def test_a_lead_that_is_not_proven_is_called_so(tmp_path: Path) -> None:
    one = [synthetic_record(synthetic_trial(switch=s)) for s in ("basicfwd", "ovs-dpdk")]
    rows = summary(write_run(tmp_path, one))
    (answer,) = answers(rows, Dimension.THROUGHPUT)
    assert "no proven lead over ovs-dpdk" in answer.detail
    assert not answer.proven
    assert "needs two or more repetitions" in answer.rivals[0][2]


def test_frames_that_nobody_counted_are_shown_with_the_trial(tmp_path: Path) -> None:
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
    assert "Counters do not agree" in text, "and the mark is explained"


def test_faults_are_shown_with_the_trial(tmp_path: Path) -> None:
    fault = "sender in tx0: port 0 (raw:dev=eth0): its peer or device went away during the trial"
    record = synthetic_record(marks=["partial"], faults=[fault])
    target = tmp_path / "report.html"
    write_report(write_run(tmp_path / "results", [record]), target)
    text = target.read_text()
    assert "Faults during the trial" in text
    assert fault in text
    assert "A fault took part of the trial" in text, "and the mark is explained"


def test_a_trial_that_was_measured_again_says_how_often(tmp_path: Path) -> None:
    first, second = synthetic_record(number=1), synthetic_record(number=2)
    tried = [
        Attempt(started_at=one.started_at, figure=pps, unit="pps", others_cores=others, disturbed=d)
        for one, pps, others, d in ((first, 1.5e6, 0.8, True), (second, 2.5e6, 0.01, False))
    ]
    target = tmp_path / "report.html"
    record = second.model_copy(update={"attempts": tried})
    write_report(write_run(tmp_path / "results", [record]), target)
    text = target.read_text()
    assert "1.50 Mpps while others used 0.800 cores; " in text
    assert "2.50 Mpps while others used 0.0100 cores, kept." in text


def test_nothing_is_loaded_from_anywhere(tmp_path: Path) -> None:
    _, text = written(tmp_path, quick_records(1))
    page = Page(text)
    assert page.loads == []
    assert not {"link", "iframe", "object", "embed", "base", "img"} & set(page.tags)
    assert "default-src 'none'" in text
    for style in page.styles:
        assert "@import" not in style
        assert "url(" not in style
    ours = [one for one in page.scripts if "plotly.js v" not in one]
    assert len(ours) == 2, "the figures' data and our own script"
    for part in (*ours, *page.styles, page.text):
        assert not re.search(r"(https?:)?//[a-z0-9]", part.replace("// ", "")), part[:200]


def test_what_is_in_the_data_stays_text(tmp_path: Path) -> None:
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
    assert "<" not in next(one for one in page.scripts if one.startswith("[{"))


def test_size_and_speed_with_a_hundred_trials(tmp_path: Path) -> None:
    records = [
        synthetic_record(synthetic_trial(switch=switch, packet_size_bytes=size, repetition=n))
        for switch in ("linux-bridge", "ovs-dpdk")
        for size in (64, 128, 256, 512, 1500)
        for n in range(10)
    ]
    few, run = write_run(tmp_path / "few", records[::5]), write_run(tmp_path, records)

    def spent_s(run: Path) -> float:
        started = time.process_time()
        write_report(run, tmp_path / "report.html")
        return time.process_time() - started

    few_s = min(spent_s(few) for _ in range(2))
    assert spent_s(run) < 10 * few_s, "five times as many trials"
    assert (tmp_path / "report.html").stat().st_size < 6_000_000


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([], "No trial has ended yet"),
        ([synthetic_failure()], "the switch died"),
        ([synthetic_record()], "Measured once"),
        ([synthetic_record(synthetic_trial(switch="direct"))], "there is no ranking"),
        ([synthetic_record(marks=["flooding"])], "not valid"),
        ([synthetic_record(engines=[], trim=None, cpu=None, timing=None)], "linux-bridge"),
    ],
    ids=["empty", "failed", "single", "only wire", "invalid", "sparse"],
)
def test_little_data_still_makes_a_report(tmp_path: Path, records: list[Record], says: str) -> None:
    _, text = written(tmp_path, records)
    assert says in Page(text).text


def test_unreadable_files_stand_at_the_top(tmp_path: Path, capsys: Any) -> None:
    run = write_run(tmp_path, quick_records(1))
    victim = open_run(run).paths()[0]
    victim.write_text("{")
    assert report(str(run), output=tmp_path / "r.html") == 1
    assert str(victim) in capsys.readouterr().err
    text = Page((tmp_path / "r.html").read_text()).text
    assert text.index("Files that could not be read") < text.index("The answer")
    assert victim.name in text


def test_samples_keep_every_frame_when_drawn_together() -> None:
    count, span = 1000, 10_000_000
    engines = [
        EngineRun(
            node=f"b{pair}", role="receiver", pair=pair, args=[], ready={}, result={},
            intervals=[
                Interval(index=i, t_ns=10**15 + pair * 3_000_000 + (i + 1) * span,
                         duration_ns=span, counters={"rx_frames": 100 + i % 7})
                for i in range(count)
            ],
        )
        for pair in range(2)
    ]  # fmt: skip
    figure = samples_figure(synthetic_record(engines=engines, trim=None))
    assert figure is not None
    (line,) = figure.traces
    assert len(line["y"]) == MAX_POINTS
    assert "for display" in figure.note
    mean = sum(i.counters["rx_frames"] for i in engines[0].intervals) / (count * span / 1e9)
    assert np.mean(line["y"]) * 1e6 == pytest.approx(2 * mean, rel=1e-3)


def test_few_samples_are_drawn_as_they_are() -> None:
    record = synthetic_record()
    figure = samples_figure(record)
    assert figure is not None
    forwarded = next(trace for trace in figure.traces if trace["name"] == "forwarded")
    receiver = next(engine for engine in record.engines if engine.role == "receiver")
    rates = [i.counters["rx_frames"] / i.duration_ns * 1e3 for i in receiver.intervals]
    assert forwarded["y"] == pytest.approx(rates, rel=1e-4)
    assert len(figure.layout["shapes"]) == 2


def test_static_plots_are_written_under_names_of_their_own(tmp_path: Path) -> None:
    records = [
        synthetic_record(synthetic_trial(pairs=pairs, packet_size_bytes=size, switch=switch))
        for pairs in (1, 2, 4)
        for size in (64, 1500)
        for switch in ("linux-bridge", "ovs-dpdk")
    ]
    records += [r for r in quick_records(1) if r.latency]
    paths = write_plots(write_run(tmp_path / "results", records), tmp_path / "plots")
    assert len(paths) == len(set(paths)) == 8
    assert all(path.stat().st_size > 1000 for path in paths)
    svg = next(path for path in paths if path.name == "throughput-64-b.svg").read_text()
    assert "ovs-dpdk" in svg
    assert "forwarded load (Mpps)" in svg


def _two_runs_far_apart(tmp_path: Path) -> Path:
    """Two repetitions whose t interval reaches far below nothing, at three sizes."""
    records = []
    for size in (64, 256, 1500):
        for repetition, share in enumerate((0.5, 1.5)):
            trial = synthetic_trial(packet_size_bytes=size, repetition=repetition)
            record = synthetic_record(trial)
            assert record.throughput is not None
            loads = record.throughput
            fields = ("forwarded_pps", "offered_pps", "forwarded_l2_bps", "forwarded_l1_bps")
            scaled = {name: getattr(loads, name) * share for name in fields}
            pair = loads.pairs[0].model_copy(
                update={name: scaled[name] for name in ("forwarded_pps", "offered_pps")}
            )
            update = {"throughput": loads.model_copy(update={**scaled, "pairs": [pair]})}
            records.append(record.model_copy(update=update))
    return write_run(tmp_path, records)


def test_wide_intervals_reach_neither_below_nothing_nor_across_the_picture(
    tmp_path: Path,
) -> None:
    run = _two_runs_far_apart(tmp_path)
    rows = summary(run)
    for figure in throughput_panels(rows, looks(rows)).figures:
        whiskers, line = figure.traces
        for value, below in zip(line["y"], whiskers["error_y"]["arrayminus"], strict=True):
            assert 0 <= below < value
        start, end = figure.layout["yaxis"]["range"]
        assert start == 0
        assert max(line["y"]) < end < 2 * max(line["y"])  # the interval alone ends beyond six
    (first, *_) = answers(rows, Dimension.THROUGHPUT)
    assert "95 % CI wider than 10x, n = 2" in first.detail
    write_plots(run, tmp_path / "plots")


def test_cores_of_a_bar_add_up_to_what_was_used(tmp_path: Path) -> None:
    """Soft interrupts in the applications' time are in their share already."""
    rows = summary(write_run(tmp_path, [synthetic_record()]))
    cpu = rows[0].cpu
    assert cpu is not None and cpu.softirq_cores is not None and cpu.total_cores is not None
    cpu = replace(cpu, applications_cores=1.2, softirq_cores=0.6, total_cores=1.5)
    (figure,) = cpu_panels([replace(rows[0], cpu=cpu)]).figures
    assert sum(trace["x"][0] for trace in figure.traces) == pytest.approx(1.5)


def test_ticks_of_many_decades_are_fewer(tmp_path: Path) -> None:
    trials = [synthetic_trial(dimension=Dimension.LATENCY, rate_pps=1000)]
    (row,) = summary(write_run(tmp_path, [synthetic_record(one) for one in trials]))
    assert row.latency is not None
    steps = {}
    for longest_ns in (1e6, 1e9):
        wide = replace(row, latency=replace(row.latency, max_ns=longest_ns))
        (figure,) = spread_panels([wide], looks([wide])).figures
        steps[longest_ns] = figure.layout["xaxis"]["dtick"]
    assert steps == {1e6: "D2", 1e9: 1}


def test_wires_of_two_port_kinds_can_be_told_apart(tmp_path: Path) -> None:
    kinds = (("veth", "raw-mmsg"), ("vhost-user", "dpdk"))
    records = [
        synthetic_record(
            synthetic_trial(switch="direct", packet_size_bytes=size, port_kind=kind),
            port_kind=kind,
            io=io,
        )
        for kind, io in kinds
        for size in (64, 256, 1500)
    ]
    rows = summary(write_run(tmp_path, records))
    drawn = looks(rows)
    assert set(drawn) == {"direct (veth)", "direct (vhost-user)"}
    assert len({(look.marker, look.dash) for look in drawn.values()}) == 2
    write_plots(tmp_path / next(tmp_path.glob("synthetic-*")).name, tmp_path / "plots")


def test_labels_of_many_values_do_not_lie_over_each_other(tmp_path: Path) -> None:
    many = [
        synthetic_record(synthetic_trial(packet_size_bytes=size)) for size in range(64, 1500, 16)
    ]
    rows = summary(write_run(tmp_path / "many", many))
    axis = x_axis(rows)
    assert axis is not None
    ticks = axis.ticks(rows)
    assert 4 <= len(ticks) <= 12
    assert (ticks[0], ticks[-1]) == (64, 1488)
    rates = (1_000, 10_000, 100_000, 1_000_000, 3_000_000)
    few = [synthetic_record(synthetic_trial(rate_pps=rate)) for rate in rates]
    rows = summary(write_run(tmp_path / "few", few))
    figure = throughput_panels(rows, looks(rows)).figures[0]
    assert figure.layout["xaxis"]["ticktext"] == ["1k", "10k", "100k", "1M", "3M"]
    (first, *_) = answers(rows, Dimension.THROUGHPUT)
    assert "kpps" in first.figure


def test_a_wire_that_was_asked_for_a_rate_shows_no_ceiling(tmp_path: Path) -> None:
    for rate, says in ((None, "bare wire carries"), (1_000, "bare wire carries of the same rate")):
        records = [
            synthetic_record(synthetic_trial(switch=switch, rate_pps=rate))
            for switch in ("basicfwd", "direct")
        ]
        (only,) = answers(summary(write_run(tmp_path, records)), Dimension.THROUGHPUT)
        assert only.detail.endswith(says)


def test_throughput_is_drawn_over_the_length_of_a_chain(tmp_path: Path) -> None:
    records = [
        synthetic_record(synthetic_trial(scenario=f"loopback-{length}", switch=switch))
        for length in (1, 2, 3, 10)
        for switch in ("linux-bridge", "ovs-dpdk")
    ]
    records.append(synthetic_record(synthetic_trial(scenario="p2p", switch="direct")))
    rows = summary(write_run(tmp_path / "results", records))
    (mpps, bits) = throughput_panels(rows, looks(rows)).figures
    assert "Mpps" in mpps.title and "Gbit/s" in bits.title
    assert mpps.layout["xaxis"]["title"]["text"] == "VNFs in the chain"
    assert mpps.layout["xaxis"]["tickvals"] == [0, 1, 2, 3, 10] and (
        mpps.layout["xaxis"]["type"] == "linear"
    )
    drawn = {trace["name"]: trace["x"] for trace in mpps.traces if "name" in trace}
    assert drawn == {"direct": [0], "linux-bridge": [1, 2, 3, 10], "ovs-dpdk": [1, 2, 3, 10]}


@pytest.mark.parametrize(
    ("means", "said"),
    [
        ((4e6, 2e6, 1e6), "4.00 Mpps at 1, 1.00 Mpps at 3, 25 % of that (significant, p "),
        ((4e6, 2e6, 1e6), "; less at each step."),
        ((2e6, 4e6, 1e6), "; less, but not from 1 to 2 (2.00 Mpps to 4.00 Mpps)."),
    ],
)
def test_what_a_longer_chain_costs_is_said(
    tmp_path: Path, means: tuple[float, ...], said: str
) -> None:
    records = [synthetic_record(synthetic_trial(scenario=f"loopback-{n}")) for n in (1, 2, 3)]
    records.append(synthetic_record(synthetic_trial(scenario="p2p", switch="direct")))
    rows = []
    for row in summary(write_run(tmp_path / "results", records)):
        assert row.throughput is not None
        if not row.is_baseline:
            mean = means[int(row.trial.scenario[-1]) - 1]
            seen = estimate([mean - 1e4, mean, mean + 1e4])
            rows.append(replace(row, throughput=replace(row.throughput, forwarded_pps=seen)))
    title, lines = trends(rows)
    assert title == "VNFs in the chain"
    (line,) = lines
    assert line.startswith("linux-bridge, 64 B: ") and said in line


def test_rows_of_every_table_can_be_told_apart(tmp_path: Path) -> None:
    """The cost of each frame, too, is of one length of the chain."""
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
            told = [row for row in named if f"|loopback-{n}|" in row and f"|{both}|" in row]
            assert len(told) == 1, named


def test_throughput_is_drawn_over_a_cpu_limit(tmp_path: Path) -> None:
    limits = (1.0, 0.75, 0.125)
    records = [synthetic_record(synthetic_trial(cpu_limit=one)) for one in limits]
    rows = summary(write_run(tmp_path / "results", records))
    (mpps, _) = throughput_panels(rows, looks(rows)).figures
    assert mpps.layout["xaxis"]["ticktext"] == ["12.5", "75", "100"]


def test_nested_facts_become_lines() -> None:
    assert flatten({"a": {"b": [1, 2], "c": None}, "d": [{"e": True}], "f": []}) == [
        ("a.b", "1, 2"),
        ("a.c", "unknown"),
        ("d.0.e", "True"),
        ("f", "none"),
    ]


def test_text_of_pictures_has_no_tags_but_ours() -> None:
    evil = "<a href='https://example.com'>x</a>"
    (named,) = row_names([(evil, "1.23 Mpps")])
    drawn = Drawing("", [{"name": evil, "text": [evil]}], {"annotations": [named]}, 100).payload()
    assert "<a" not in str(drawn)
    assert drawn["data"][0]["text"] == ["&lt;a href='https://example.com'&gt;x&lt;/a&gt;"]
    assert drawn["layout"]["annotations"][0]["text"].startswith("<b>&lt;a ")


def test_a_long_name_stands_in_a_line_of_its_own() -> None:
    short, long = row_names([("ovs-dpdk", "3.51 Mpps"), ("x" * 60, "3.51 Mpps")])
    assert short["text"] == "<b>ovs-dpdk</b>  3.51 Mpps"
    assert long["text"].endswith("\N{HORIZONTAL ELLIPSIS}</b><br>3.51 Mpps")


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0.9, 11, [1, 2, 5, 10]),
        (0.93, 1.22, [0.95, 1, 1.05, 1.1, 1.15, 1.2]),
        (1e-3, 1e9, [1e-3, 1e1, 1e5, 1e9]),
    ],
)
def test_ticks_of_logarithmic_axes_are_few_and_round(
    low: float, high: float, wanted: list[float]
) -> None:
    ticks = log_ticks(low, high)
    assert 2 <= len(ticks) <= 6
    assert all(low <= tick <= high for tick in ticks)
    assert ticks == pytest.approx(wanted)


def test_trials_are_dots_and_of_a_single_trial_its_samples(tmp_path: Path) -> None:
    for repetitions, says in ((1, "samples"), (3, "repetitions")):
        records = [one for one in quick_records(repetitions) if one.throughput]
        rows = summary(write_run(tmp_path, records))
        figures = distribution_panels([], rows, records, looks(rows)).figures
        assert [one.title for one in figures] == ["Throughput, 64 B", "Throughput, 1500 B"]
        for figure in figures:
            assert figure.layout["xaxis"]["type"] == "log"
            dots = [trace for trace in figure.traces if trace.get("text")]
            assert len(dots) == 4 and all(min(trace["x"]) > 0 for trace in dots)
            assert all(says in one["text"] for one in figure.layout["annotations"])
            if repetitions > 1:
                assert {len(trace["x"]) for trace in dots} == {repetitions}
