"""`switchmark show` as a user meets it: tables, exports, filters, exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest

from switchmark.cli.show import Format, show
from switchmark.errors import UsageError
from switchmark.model.choices import Dimension
from switchmark.model.functions import read_functions
from switchmark.model.io import Io
from switchmark.record import Record
from switchmark.report.html import write_report
from switchmark.results import answer
from switchmark.results.documents import read_record
from switchmark.results.run_directory import open_run
from tests.unit.records import (
    quick_records,
    synthetic_failure,
    synthetic_histogram,
    synthetic_record,
    synthetic_trial,
    write_run,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    failed = synthetic_failure(synthetic_trial(switch="ovs-netdev"), "no hugepages left")
    return write_run(tmp_path / "results", [*quick_records(3), failed])


def test_table_has_figures_marks_limits_and_failures(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(str(run), full=True) == 0
    out = capsys.readouterr().out
    line = next(one for one in out.splitlines() if one.startswith("ovs-dpdk  "))
    assert line.split()[-3:] == ["3", "switch", "oversubscribed"]
    for expected in (
        "fwd Mpps",
        "Gbit/s L2",
        "p99.9",
        "of baseline",
        "Programs had to share cores although",
        "Failed trials:",
        "no hugepages left",
        "basicfwd",
        "undecided",
    ):
        assert expected in out


def test_summary_reads_each_record_once_for_all_comparisons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(path: Path) -> Record:
        read.append(path.name)
        return read_record(path)

    monkeypatch.setattr(answer, "read_record", counted)
    trials = [
        synthetic_trial(switch=switch, function=read_functions("route"), routes=100)
        for switch in ("ovs-netdev", "ovs-dpdk")
    ]
    records = [synthetic_record(trial, number=number) for number, trial in enumerate(trials)]
    assert show(str(write_run(tmp_path, records))) == 0
    assert len(read) == len(set(read)) == 2


def test_latest_and_campaign_names_find_the_run(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (None, "latest", "synthetic", run.name):
        assert show(name, results=run.parent) == 0
        assert run.name in capsys.readouterr().out
    with pytest.raises(UsageError, match="neither a results directory nor a campaign"):
        show("quick", results=run.parent)


def test_csv_json_and_parquet_hold_the_same(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(str(run), format=Format.CSV) == 0
    as_csv = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert show(str(run), json=True) == 0
    as_json = json.loads(capsys.readouterr().out)
    target = tmp_path / "out.parquet"
    assert show(str(run), format=Format.PARQUET, output=target) == 0
    as_parquet = pl.read_parquet(target).to_dicts()
    assert as_parquet == as_json
    assert len(as_csv) == len(as_json) == 17
    for first, other in zip(as_csv, as_json, strict=True):
        assert first["contender"] == other["contender"]
        if other["forwarded_pps_mean"] is not None:
            assert float(first["forwarded_pps_mean"]) == other["forwarded_pps_mean"]
        assert first["marks"] == ";".join(other["marks"])
    failed = [row for row in as_json if row["repetitions_failed"]]
    assert [row["failures"] for row in failed] == [["no hugepages left"]]


def test_csv_of_a_run_in_which_nothing_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lists that are empty in every row are lists of text all the same."""
    run = write_run(tmp_path, [synthetic_record()])
    assert show(str(run), format=Format.CSV) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["failures"], row["remarks"]) == ("", "")


def test_a_file_that_cannot_be_written_is_bad_input(run: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "such" / "folder"
    for kind in (Format.CSV, Format.JSON, Format.PARQUET):
        with pytest.raises(UsageError, match=r"--output .*cannot be written \(No such file"):
            show(str(run), format=kind, output=nowhere)


def test_the_median_is_of_one_kind_in_figure_interval_and_ratio(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of repetitions far apart the merged median is that of one of them: beside an interval of
    the mean, and a ratio to the wire by the mean, it would contradict both."""
    records = []
    for number, median_ns in enumerate((5_000.0, 805_000.0)):
        trial = synthetic_trial(dimension=Dimension.LATENCY, rate_pps=1000, repetition=number)
        record = synthetic_record(trial)
        assert record.latency is not None
        histogram = synthetic_histogram(median_ns, record.latency.count)
        values = histogram.percentiles_ns()
        found = {
            "min_ns": values["50"] * 0.3, "mean_ns": values["50"] * 1.03,
            "max_ns": values["99.999"], "percentiles_ns": values, "histogram": histogram,
            "intended_percentiles_ns": values, "intended_histogram": histogram,
        }  # fmt: skip
        records.append(
            record.model_copy(update={"latency": record.latency.model_copy(update=found)})
        )
    run = write_run(tmp_path, records)
    assert show(str(run), full=True) == 0
    lines = capsys.readouterr().out.splitlines()
    (title,) = (n for n, one in enumerate(lines) if one.startswith("Round-trip time"))
    figure, *spread = lines[title + 2].split()[3:7]
    assert 62 <= float(figure) <= 65, (
        "in the middle of the logarithms, as where blocks are compared"
    )
    assert " ".join(spread) == "wider than 10x"
    write_report(run, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert f">{figure}<span" in "".join(page.split()).replace('<spanclass="spread"', "<span")


def test_a_wire_slower_than_the_switch_is_called_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A disturbed baseline makes `of baseline` a number above 100 % without a meaning."""
    records = [
        synthetic_record(synthetic_trial(switch="ovs-dpdk")),
        synthetic_record(synthetic_trial(switch="direct"), marks=["disturbed"]),
    ]
    run = write_run(tmp_path / "sound", records)
    assert show(str(run), full=True) == 0
    assert "which is impossible" not in capsys.readouterr().out
    loads = records[1].throughput
    assert loads is not None
    fields = ("forwarded_pps", "offered_pps", "forwarded_l2_bps", "forwarded_l1_bps")
    slow = {name: getattr(loads, name) / 4 for name in fields}
    pair = loads.pairs[0].model_copy(update={name: slow[name] for name in fields[:2]})
    held_up = loads.model_copy(update={**slow, "pairs": [pair]})
    records[1] = records[1].model_copy(update={"throughput": held_up})
    run = write_run(tmp_path / "held-up", records)
    assert show(str(run), full=True) == 0
    out = capsys.readouterr().out
    assert "times as good as the baseline, which is impossible" in out
    assert "its marks: disturbed" in out
    write_report(run, tmp_path / "report.html")
    assert "which is impossible" in (tmp_path / "report.html").read_text()


def test_a_run_without_a_trial_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(str(write_run(tmp_path, []))) == 0
    assert "No trial has ended yet." in capsys.readouterr().out


def test_filters_and_columns(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conditions = ["switch=ovs-dpdk", "dimension=latency"]
    assert show(str(run), where=conditions, columns="switch,packet_size", json=True) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"switch": "ovs-dpdk", "packet_size_bytes": 64},
        {"switch": "ovs-dpdk", "packet_size_bytes": 1500},
    ]
    assert show(str(run), where=["switch=nobody"], json=True) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert show(columns="help") == 0
    assert "forwarded_pps_mean" in capsys.readouterr().out.splitlines()
    with pytest.raises(UsageError, match="did you mean"):
        show(str(run), columns="swich")


def test_every_repetition_by_itself(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(str(run), trials=True, json=True) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(open_run(run).paths()) == 49


def test_a_damaged_file_is_named_and_the_exit_code_says_so(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = open_run(run).paths()[0]
    victim.write_text("{")
    assert show(str(run)) == 1
    captured = capsys.readouterr()
    assert str(victim) in captured.err
    assert len(captured.err.splitlines()) == 1
    assert "ovs-dpdk" in captured.out


def test_published_figures_are_printed_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = [
        {"match": {"io": "udp"}, "value": 338000, "unit": "pps", "source": "Ara et al. 2021"}
    ]
    record = synthetic_record(synthetic_trial(io=Io.UDP))
    run = write_run(tmp_path, [record], published=published)
    assert show(str(run), full=True) == 0
    assert record.throughput is not None
    line = next(x for x in capsys.readouterr().out.splitlines() if "Ara et al. 2021" in x)
    assert "338000" in line
    assert f"{record.throughput.forwarded_pps / 338000:.2f}" in line


def test_a_mark_that_invalidates_is_shouted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(str(write_run(tmp_path, [synthetic_record(marks=["flooding"])])), full=True) == 0
    out = capsys.readouterr().out
    assert "NOT VALID: flooding" in out
    assert "Do not use the number" in out


def test_the_answer_comes_first_in_few_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """However many contenders and points: 40 lines of 100 columns, and no interval below 0."""
    for sizes in ((64,), (64, 256, 512, 1024, 1280, 1500)):
        records = [
            synthetic_record(
                synthetic_trial(switch=switch, packet_size_bytes=size).repeated(number),
                number=number,
            )
            for size in sizes
            for switch in ("ovs-dpdk", "basicfwd", "linux-bridge")
            for number in range(10)
        ]
        run = write_run(tmp_path / f"{len(sizes)}", records, repetitions=10)
        assert show(str(run)) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) <= 40, lines
        assert all(len(line) <= 100 for line in lines if str(run) not in line), lines
        output = "\n".join(lines)
        assert "ovs-dpdk" in output and "[-" not in output and "±" not in output
        assert f"show --full {run}" in output
    assert show(str(run), full=True) == 0
    assert "fwd Mpps" in capsys.readouterr().out
