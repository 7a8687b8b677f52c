"""The kinds of picture that papers use: on the page, as files, and as objects for notebooks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import switchmark
from switchmark.method.registry import METHODS
from switchmark.model.campaign import Published
from switchmark.model.choices import Dimension
from switchmark.record import Record
from switchmark.record.runs import FarHost
from switchmark.report.cost import steps_panels
from switchmark.report.figures import Drawing, Panels, looks
from switchmark.report.html import write_report
from switchmark.report.pictures import paper_pictures
from switchmark.report.static import write_plots
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from switchmark.results.times import times_of
from switchmark.simulation.switch import Behaviour
from tests.unit.browser import browsing, chromium
from tests.unit.method_fakes import run_simulated
from tests.unit.records import synthetic_record, synthetic_trial, write_run

SWITCHES = ("linux-bridge", "ovs-dpdk")


def latency_records() -> list[Record]:
    return [
        synthetic_record(
            synthetic_trial(
                dimension=Dimension.LATENCY, switch=switch, rate_pps=1000, repetition=repetition,
                packet_size_bytes=size, burst=burst,
            )
        )
        for switch in SWITCHES
        for size in (64, 512, 1500)
        for burst in (4, 32, 128)
        for repetition in range(2)
    ]  # fmt: skip


def method_records(method: str, **parameters: object) -> list[Record]:
    result = run_simulated(method, Behaviour(capacity_pps=1e6), **parameters)
    changes: dict[str, Any] = {"marks": [], "throughput": None, "trim": None, "method": result}
    return [
        synthetic_record(synthetic_trial(switch=switch, method=method, **parameters), **changes)
        for switch in SWITCHES
    ]


def pictures(run: Path, published: tuple[Published, ...] = ()) -> dict[str, Panels]:
    opened, rows = open_run(run), summary(run)
    times = partial(times_of, opened)
    paper = paper_pictures(rows, opened.records(), published, looks(rows), times)
    return {panel.heading: panel for panel in (*paper.main, *paper.others)}


def assert_everywhere(
    run: Path, heading: str, folder: Path, published: tuple[Published, ...] = ()
) -> None:
    """The picture is on the page, in files of both formats, and in the plots of a notebook."""
    write_report(run, folder / "report.html")
    assert f">{heading}</h" in (folder / "report.html").read_text()
    names = [path.name for path in write_plots(run, folder / "plots")]
    stem = "-".join("".join(c if c.isalnum() else " " for c in heading.lower()).split())
    for ending in (".svg", ".png"):
        assert any(name.startswith(stem) and name.endswith(ending) for name in names), names
    assert len(names) == len(set(names))
    panel = pictures(run, published)[heading]
    titles = {drawing.title or heading for drawing in (*panel.figures, *panel.folded)}
    assert titles <= {plot.layout.title.text for plot in switchmark.Results(run).plots()}


def names_of(drawing: Drawing) -> set[str]:
    return {trace["name"] for trace in drawing.traces if trace.get("showlegend", True)}


def test_mean_and_percentiles_over_sizes_and_bursts(tmp_path: Path) -> None:
    run = write_run(tmp_path, latency_records())
    heading = "Latency over the swept parameter"
    panel = pictures(run)[heading]
    assert len(panel.figures) == 3 and "over frame size" in panel.figures[0].title
    assert len(panel.folded) == 3 and all("over burst" in drawing.title for drawing in panel.folded)
    drawn = panel.figures[0]
    assert {"ovs-dpdk, mean", "ovs-dpdk, median", "ovs-dpdk, p99"} <= names_of(drawn)
    row = next(row for row in summary(run) if row.trial.switch == "ovs-dpdk"
               and row.trial.burst == 4 and row.trial.packet_size_bytes == 64)  # fmt: skip
    trace = next(t for t in drawn.traces if t.get("name") == "ovs-dpdk, mean")
    assert row.latency is not None and trace["x"] == [64, 512, 1500]
    assert trace["y"][0] == pytest.approx(row.latency.mean_ns.mean / 1e3, rel=1e-4)
    assert_everywhere(run, heading, tmp_path)


@pytest.mark.parametrize(
    ("key", "values"),
    [("scenario", ("loopback-1", "loopback-2", "loopback-4")), ("cpu_limit", (0.25, 0.5, 1.0))],
)
def test_latency_is_drawn_over_a_chain_and_a_cpu_limit(
    tmp_path: Path, key: str, values: tuple[object, ...]
) -> None:
    records = [
        synthetic_record(
            synthetic_trial(dimension=Dimension.LATENCY, switch="ovs-dpdk", rate_pps=1000,
                            **{key: value})
        )
        for value in values
    ]  # fmt: skip
    (drawing,) = pictures(write_run(tmp_path, records))["Latency over the swept parameter"].figures
    trace = next(t for t in drawing.traces if t.get("name") == "ovs-dpdk, mean")
    assert len(trace["x"]) == 3


def test_distributions_of_all_values_share_one_picture(tmp_path: Path) -> None:
    records = [record for record in latency_records() if record.trial.packet_size_bytes == 64]
    run = write_run(tmp_path, records)
    heading = "Latency, cumulative, at all swept values"
    panel = pictures(run)[heading]
    assert [drawing.title for drawing in panel.figures] == ["linux-bridge", "ovs-dpdk"]
    assert names_of(panel.figures[0]) == {f"64 B, burst {n}" for n in (4, 32, 128)}
    assert_everywhere(run, heading, tmp_path)


def test_plateau_is_a_curve_over_the_offered_load(tmp_path: Path) -> None:
    run = write_run(tmp_path, method_records("plateau", rate_pps=2_000_000))
    heading = "Forwarded over offered load"
    (drawing,) = pictures(run)[heading].figures
    line = next(t for t in drawing.traces if t.get("name") == "ovs-dpdk")
    assert line["x"] == sorted(line["x"]) and len(line["x"]) > 3
    assert max(line["y"]) == pytest.approx(1.0, rel=0.05), "Mpps, the switch's capacity"
    assert_everywhere(run, heading, tmp_path)


def test_soak_is_a_line_over_time(tmp_path: Path) -> None:
    run = write_run(tmp_path, method_records("soak", rate_pps=500_000, duration_s=20.0))
    heading = "Soak over time"
    (drawing,) = pictures(run)[heading].figures
    line = next(t for t in drawing.traces if t.get("name") == "ovs-dpdk")
    assert line["x"][-1] == pytest.approx(20, rel=0.1) and len(line["y"]) > 5
    assert_everywhere(run, heading, tmp_path)


def test_latency_over_shares_of_r_plus_and_throughput(tmp_path: Path) -> None:
    run = write_run(tmp_path, method_records("r-plus", fractions="0.1+0.5+0.95"))
    (drawing,) = pictures(run)["Latency over the share of R+"].figures
    line = next(t for t in drawing.traces if t.get("name") == "ovs-dpdk, mean")
    assert line["x"] == [0.1, 0.5, 0.95]
    (scatter,) = pictures(run)["Throughput against latency"].figures
    assert names_of(scatter) == set(SWITCHES)
    assert "0.95 R+" in scatter.layout["yaxis"]["title"]["text"]
    assert_everywhere(run, "Latency over the share of R+", tmp_path)
    assert_everywhere(run, "Throughput against latency", tmp_path)


def test_published_values_are_marks_on_bars(tmp_path: Path) -> None:
    records = [
        synthetic_record(synthetic_trial(switch=switch, packet_size_bytes=size))
        for switch in SWITCHES
        for size in (64, 1500)
    ]
    value = {"match": {"switch": "ovs-dpdk", "packet_size_bytes": 64}, "value": 2e6,
              "unit": "pps", "source": "a paper"}  # fmt: skip
    run = write_run(tmp_path, records, published=[value])
    heading = "Measured and published values"
    published = (Published.model_validate(value),)
    (drawing,) = pictures(run, published)[heading].figures
    bars, marks = drawing.traces
    assert marks["x"] == [2.0] and marks["name"] == "published"
    (row,) = (row for row in summary(run) if row.trial.switch == "ovs-dpdk"
              and row.trial.packet_size_bytes == 64)  # fmt: skip
    assert row.throughput is not None
    assert bars["x"] == [pytest.approx(row.throughput.forwarded_pps.mean / 1e6)]
    assert_everywhere(run, heading, tmp_path, published)


@pytest.mark.parametrize("same", [False, True])
def test_cpu_against_throughput_counts_the_cores_of_all_hosts(tmp_path: Path, same: bool) -> None:
    records = []
    for pairs in (1, 2):
        local = synthetic_record(synthetic_trial(switch="ovs-dpdk", pairs=pairs))
        trial = synthetic_trial(switch="ovs-dpdk", pairs=pairs, location="remote")
        far = FarHost(
            name="right", address="192.0.2.7", hostname="right", near_interface="a",
            far_interface="b", agent_version="1", engine_version="1", placement=None,
            clock_before=None, clock_after=None, facts={}, cpu=local.cpu, same_machine=same,
        )  # fmt: skip
        records += [local, synthetic_record(trial, far_host=far)]
    run = write_run(tmp_path, records)
    rows = summary(run)
    (drawing,) = steps_panels(rows, looks(rows)).figures
    lines = {trace["name"]: trace["x"] for trace in drawing.traces}
    assert set(lines) == {"ovs-dpdk, one host", "ovs-dpdk, two hosts"}
    assert records[0].cpu is not None and records[0].cpu.total_cores_used is not None
    cores = records[0].cpu.total_cores_used
    assert lines["ovs-dpdk, one host"] == [cores, cores]
    assert lines["ovs-dpdk, two hosts"] == [cores if same else 2 * cores] * 2
    assert_everywhere(run, "CPU against throughput", tmp_path)


@pytest.mark.skipif(chromium() is None, reason="no chromium here (apt install chromium)")
@pytest.mark.xdist_group("browser")
def test_browser_draws_all_pictures_without_errors(tmp_path: Path) -> None:
    kinds = {
        "times": latency_records(),
        "plateau": method_records("plateau", rate_pps=2_000_000),
        "soak": method_records("soak", rate_pps=500_000, duration_s=20.0),
        "r-plus": method_records("r-plus", fractions="0.1+0.5+0.95"),
    }
    with browsing(tmp_path / "profile") as browser:
        for kind, records in kinds.items():
            page = tmp_path / f"{kind}.html"
            write_report(write_run(tmp_path / kind, records), page)
            for width in (1280, 400):
                browser.open(page, width)
                assert browser.complaints == [] and browser.requests == [page.as_uri()]
                shown = "[...document.querySelectorAll('#pictures .chart')]"
                shown += ".filter(one => !one.closest('details:not([open])'))"
                assert browser.value(f"{shown}.length") >= 1
                drawn = f"{shown}.filter(one => one.querySelector('.main-svg .trace')).length"
                assert browser.value(drawn) == browser.value(f"{shown}.length"), kind
                assert browser.value("document.documentElement.scrollWidth") <= width


def test_methods_name_the_picture_of_their_trials() -> None:
    drawn = {name: method.picture for name, method in METHODS.items() if method.picture}
    assert drawn == {"plateau": "loads", "loss-vs-load": "loads", "soak": "course"}
