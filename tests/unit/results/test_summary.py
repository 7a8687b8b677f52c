"""Summaries: repetitions combined, contenders distinguished, every problem reported."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import duckdb
import pytest

from switchmark.errors import UsageError
from switchmark.model.campaign import Published
from switchmark.model.choices import Dimension
from switchmark.model.io import Io
from switchmark.model.ports import ConnectMode
from switchmark.record import Record
from switchmark.report import words
from switchmark.results import export
from switchmark.results.columns import COLUMNS
from switchmark.results.documents import CorruptResultError
from switchmark.results.origins import read_origins
from switchmark.results.published import published_beside
from switchmark.results.query import FULL_CHECK_LIMIT, connect, read_table
from switchmark.results.ranking import baseline_of
from switchmark.results.run_directory import Run, open_run
from switchmark.results.summary import summarise, summary
from switchmark.results.times import times_of
from switchmark.simulation.switch import Behaviour
from switchmark.statistics.histogram import Histogram
from switchmark.statistics.means import estimate
from tests.unit.method_fakes import run_simulated
from tests.unit.records import (
    quick_records,
    synthetic_failure,
    synthetic_record,
    synthetic_trial,
    write_run,
)


def repeated(count: int, **changes: Any) -> list[Record]:
    return [
        synthetic_record(synthetic_trial(repetition=repetition, **changes))
        for repetition in range(count)
    ]


def test_repetitions_are_drawn_together(tmp_path: Path) -> None:
    records = repeated(4)
    (row,) = summary(write_run(tmp_path, records))
    loads = [r.throughput.forwarded_pps for r in records if r.throughput]
    assert row.throughput is not None
    assert row.throughput.forwarded_pps == estimate(sorted(loads)) or (
        row.throughput.forwarded_pps.mean == pytest.approx(estimate(loads).mean)
    )
    assert (row.finished, row.failed, row.valid) == (4, 0, True)
    assert row.marks == ("oversubscribed",)
    assert row.limited_by == ("switch",)
    assert set(row.trial_ids) == {record.trial_id for record in records}
    assert row.cpu is not None
    assert row.cpu.switch_cores is None


def test_one_repetition_has_no_interval(tmp_path: Path) -> None:
    (row,) = summary(write_run(tmp_path, repeated(1)))
    assert row.throughput is not None
    assert row.throughput.forwarded_pps.low is None


def test_latency_percentiles_come_from_the_merged_histogram(tmp_path: Path) -> None:
    records = repeated(3, dimension=Dimension.LATENCY, rate_pps=1000)
    (row,) = summary(write_run(tmp_path, records))
    assert row.latency is not None
    summaries = [record.latency for record in records if record.latency]
    assert row.latency.count == sum(summary_of_one.count for summary_of_one in summaries)
    assert (
        row.latency.percentiles_ns
        == Histogram.merged(
            summary_of_one.histogram for summary_of_one in summaries
        ).percentiles_ns()
    )
    assert (
        row.latency.intended_percentiles_ns
        == Histogram.merged(
            summary_of_one.intended_histogram for summary_of_one in summaries
        ).percentiles_ns()
    )
    assert row.latency.p50_ns.mean == pytest.approx(
        sum(summary_of_one.percentiles_ns["50"] for summary_of_one in summaries) / 3
    )


def test_all_times_of_a_row_are_merged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page draws the histogram behind the percentiles; it reads no record again."""
    directory = write_run(tmp_path, repeated(3, dimension=Dimension.LATENCY, rate_pps=1000))
    run = open_run(directory)
    (row,) = summarise(directory, read_table(directory), with_curves=True)
    (plain,) = summarise(directory, read_table(directory))
    merged = times_of(run, plain)
    assert merged is not None
    monkeypatch.setattr(Run, "read", lambda *_: pytest.fail("a record was read again"))
    times = times_of(run, row)
    assert times is not None and times.percentiles_ns() == merged.percentiles_ns()


def test_marks_unite_and_one_invalid_repetition_spoils_the_row(tmp_path: Path) -> None:
    trials = [synthetic_trial(repetition=repetition) for repetition in range(2)]
    records = [
        synthetic_record(trials[0], marks=["unstable"]),
        synthetic_record(trials[1], marks=["flooding", "unstable"]),
    ]
    (row,) = summary(write_run(tmp_path, records))
    assert row.marks == ("unstable", "flooding")
    assert not row.valid


def test_failures_join_their_trial_and_are_shown(tmp_path: Path) -> None:
    gone = synthetic_failure(synthetic_trial(repetition=1), "the switch died")
    alone = synthetic_failure(synthetic_trial(switch="ovs-dpdk"), "no hugepages")
    rows = summary(write_run(tmp_path, [*repeated(1), gone, alone]))
    rows_by_switch = {row.trial.switch: (row.finished, row.failed, row.failures) for row in rows}
    assert rows_by_switch["linux-bridge"] == (1, 1, ("the switch died",))
    assert rows_by_switch["ovs-dpdk"] == (0, 1, ("no hugepages",))


def test_repetitions_done_in_different_ways_are_not_mixed(tmp_path: Path) -> None:
    trials = [synthetic_trial(repetition=repetition, connect_mode=None) for repetition in range(2)]
    records = [
        synthetic_record(trials[0], connect_mode="learning"),
        synthetic_record(trials[1], connect_mode="cross-connect"),
    ]
    rows = summary(write_run(tmp_path, records))
    assert sorted(row.contender for row in rows) == [
        "linux-bridge (cross-connect)",
        "linux-bridge (learning)",
    ]
    assert all("mixed-connect-modes" in row.marks for row in rows)


def test_names_of_contenders_have_the_distinguishing_field(tmp_path: Path) -> None:
    records = [synthetic_record(synthetic_trial(io=io)) for io in (Io.UDP, Io.RAW)]
    records.append(synthetic_record(synthetic_trial(switch="ovs-dpdk")))
    rows = summary(write_run(tmp_path, records))
    assert {row.contender for row in rows} == {
        "linux-bridge (udp)",
        "linux-bridge (raw)",
        "ovs-dpdk",
    }


def test_baseline_of_a_row_has_its_frame_size(tmp_path: Path) -> None:
    rows = summary(write_run(tmp_path, quick_records(3)))
    best = [row for row in rows if row.contender == "basicfwd"]
    assert len(best) == 4
    for row in best:
        baseline = baseline_of(row, rows)
        assert baseline is not None
        assert baseline.trial.packet_size_bytes == row.trial.packet_size_bytes
    (bridge,) = [
        r for r in rows if r.contender == "linux-bridge" and r.throughput
        and r.trial.packet_size_bytes == 64
    ]  # fmt: skip
    assert export.of_baseline(bridge, rows) is None, "the wire was measured over another port kind"


def test_intervals_of_until_ci_have_the_level_of_its_analysis(
    tmp_path: Path,
) -> None:
    records = repeated(5)
    (once,) = summary(write_run(tmp_path, records))
    looks = {"until_ci": 0.02, "repetitions": 3, "max_repetitions": 20}
    (again,) = summary(write_run(tmp_path, records, **looks))
    assert once.throughput is not None and again.throughput is not None
    usual, strict = once.throughput.forwarded_pps, again.throughput.forwarded_pps
    assert usual.mean == strict.mean
    assert usual.relative_half_width is not None and strict.relative_half_width is not None
    assert 1.3 * usual.relative_half_width < strict.relative_half_width


def test_empty_run_is_not_an_error(tmp_path: Path) -> None:
    table = read_table(write_run(tmp_path, []))
    assert len(table.frame) == 0
    assert table.frame.columns == ["file", *(column.name for column in COLUMNS)]
    assert summarise(tmp_path, table) == []


@pytest.mark.parametrize("full_check", [True, False], ids=["full check", "columns only"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: b"",
        lambda text: b"[]",
        lambda text: b"{}",
        lambda text: b"\xff\xfe\x00",
        lambda text: text + text,
        lambda text: text.replace(b'"status":"finished"', b'"status":"dreamt"'),
        lambda text: text.replace(b'"packet_size_bytes":64', b'"packet_size_bytes":"big"'),
        lambda text: text.replace(b'"schema_version":1', b'"schema_version":2'),
    ],
    ids=["cut", "empty", "list", "object", "bytes", "twice", "status", "type", "version"],
)
def test_damaged_files_are_named_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Any, full_check: bool
) -> None:
    if not full_check:
        monkeypatch.setattr("switchmark.results.query.FULL_CHECK_LIMIT", -1)
    directory = write_run(tmp_path, repeated(5))
    victim = open_run(directory).paths()[2]
    victim.write_bytes(damage(victim.read_bytes()))
    table = read_table(directory)
    assert len(table.frame) == 4
    (line,) = table.problems
    assert str(victim) in line
    assert "\n" not in line
    (row,) = summarise(directory, table)
    assert row.finished == 4


def test_conditions_and_columns(tmp_path: Path) -> None:
    flat = export.flat_rows(summary(write_run(tmp_path, quick_records(2))))
    assert all(list(row) == export.columns() for row in flat)
    selected = export.where(flat, ["switch=ovs-dpdk", "packet_size>=1500", "dimension=throughput"])
    assert [row["forwarded_pps_mean"] > 0 for row in selected] == [True]
    assert len(export.where(flat, ["switch!=direct", "packet_size<1500"])) == 6
    assert len(export.where(flat, ["marks=oversubscribed"])) == len(flat)
    assert export.where(flat, ["marks=flooding"]) == []
    assert len(export.where(flat, ["rate=none"])) == len(flat) / 2
    for wrong, says in (
        ("swich=ovs", "did you mean switch"),
        ("switch", "write column=value"),
        ("switch>ovs", "= or != only"),
        ("packet_size=big", "not a number"),
    ):
        with pytest.raises(UsageError, match=says):
            export.where(flat, [wrong])


def test_published_figures_stand_beside_measured_ones(tmp_path: Path) -> None:
    records = [
        synthetic_record(synthetic_trial(io=Io.UDP)),
        synthetic_record(synthetic_trial(dimension=Dimension.LATENCY, io=Io.UDP, rate_pps=1000)),
    ]
    rows = summary(write_run(tmp_path, records))
    figures = [
        Published(match={"io": "udp"}, value=338e3, unit="pps", source="a"),
        Published(match={"io": "udp"}, value=1e8, unit="bps", source="a"),
        Published(match={"io": "udp"}, value=64, unit="us", source="a"),
        Published(match={"io": "raw"}, value=1, unit="pps", source="a"),
    ]
    beside = published_beside(rows, figures)
    assert records[0].throughput is not None
    assert records[1].latency is not None
    assert [value for _, _, value in beside] == [
        records[0].throughput.forwarded_pps,
        records[0].throughput.forwarded_l2_bps,
        records[1].latency.percentiles_ns["50"] / 1e3,
        None,
    ]


def test_a_published_figure_stands_beside_its_own_kind_alone(tmp_path: Path) -> None:
    trial = synthetic_trial(dimension=Dimension.LATENCY, io=Io.UDP, rate_pps=1000)
    timed = synthetic_record(trial).latency
    both = synthetic_record(synthetic_trial(io=Io.UDP, bidirectional=True))
    rows = summary(write_run(tmp_path, [synthetic_record(trial), both]))
    assert timed is not None and both.throughput is not None

    def beside(unit: str, **what: object) -> float | None:
        figure = Published.model_validate(
            {"match": {"io": "udp"}, "value": 1, "unit": unit, "source": "a", **what}
        )
        return published_beside(rows, [figure])[0][2]

    found = {name: beside("ns", statistic=name) for name in ("mean", "min", "max", "stdev", "p99")}
    assert found == pytest.approx(
        {"mean": timed.mean_ns, "min": timed.min_ns, "max": timed.max_ns,
         "stdev": timed.stdev_ns, "p99": timed.percentiles_ns["99"]}
    )  # fmt: skip
    assert beside("ns", statistic="mean", path="one-way") is None, (
        "a round trip is not a one-way time"
    )
    assert beside("bps", layer="L1") == both.throughput.forwarded_l1_bps
    assert beside("pps", direction="each") == both.throughput.forwarded_pps / 2


def test_highest_percentiles_of_loads_need_few_repetitions(tmp_path: Path) -> None:
    rows = summary(write_run(tmp_path, repeated(3)))
    most = max(one for row in rows if row.throughput for one in row.throughput.forwarded_pps.values)
    for percentile in ("p99.9", "p99.99", "p99.999"):
        figure = Published(match={}, value=1, unit="pps", statistic=percentile, source="a")
        ((_, _, beside),) = published_beside(rows, [figure])
        assert beside == pytest.approx(most, rel=1e-3)


def test_a_static_mac_row_does_not_join_a_learning_one(tmp_path: Path) -> None:
    records = [
        synthetic_record(synthetic_trial(connect_mode=mode, repetition=repetition))
        for mode in (ConnectMode.LEARNING, ConnectMode.STATIC_MAC)
        for repetition in range(2)
    ]
    assert [row.finished for row in summary(write_run(tmp_path, records))] == [2, 2]


def test_no_progress_bar_comes_between_tables_and_json() -> None:
    """The setting is queried, because a test by a slow query would need to switch the bar on."""
    with connect() as connection:
        query = "SELECT current_setting('enable_progress_bar')"
        assert connection.execute(query).fetchone() == (False,)


def test_many_records_are_summarised_quickly_in_little_memory(tmp_path: Path) -> None:
    """100,000 records need less than 10 s and 500 MB on a quiet machine; here 10,000 cost little
    more than ten times as much as 1,000. Peak memory is measured in a separate process."""
    count = 10_000
    assert count > FULL_CHECK_LIMIT
    template = synthetic_record(synthetic_trial(duration_s=1.0))
    runs = [open_run(write_run(tmp_path / name, [])) for name in ("few", "many")]
    for run, records in zip(runs, (count // 10, count), strict=True):
        for number in range(records):
            changes = {"repetition": number % 5, "rate_pps": 1000 + number // 5}
            trial = template.trial.model_copy(update=changes)
            record = template.model_copy(update={"trial": trial, "trial_id": trial.id})
            run.path_of(trial.id).write_text(record.model_dump_json())
    script = textwrap.dedent(
        """
        import re, sys
        from pathlib import Path
        from switchmark.results.summary import summary
        from tests.unit.calls import calls_of

        few, many = map(Path, sys.argv[1:])
        summary(few)  # load modules that are loaded once
        _, few_calls = calls_of(lambda: summary(few))
        rows, many_calls = calls_of(lambda: summary(many))
        # Not ru_maxrss, because a new program inherits it from the program that started it.
        status = Path("/proc/self/status").read_text()
        peak_kib = re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]
        print(len(rows), sum(row.finished for row in rows), many_calls / few_calls, peak_kib)
        print("scipy.stats" in sys.modules)  # a table must not load it, which takes half a second
        """
    )
    result = subprocess.run(
        [sys.executable, "-c", script, *(str(run.directory) for run in runs)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    groups, finished, growth, peak_kib, loads_all_of_scipy = result.stdout.split()
    assert loads_all_of_scipy == "False"
    assert (int(groups), int(finished)) == (count // 5, count)
    assert float(growth) < 12, "for ten times as many records"
    assert int(peak_kib) < 500 * 1024


@pytest.mark.parametrize(
    ("place", "value"),
    [("trial/pairs", -5), ("method/figures/0/value", "much")],
)
def test_invalid_record_is_named_in_a_large_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, value: object
) -> None:
    method = run_simulated("plateau", Behaviour(capacity_pps=1e6), rate_pps=2e6)
    record = synthetic_record(synthetic_trial(method="plateau"), method=method, throughput=None)
    run = write_run(tmp_path, [record])
    path = open_run(run).path_of(record.trial_id)
    document = json.loads(path.read_text())
    *folders, name = place.split("/")
    part = document
    for folder in folders:
        part = part[int(folder) if folder.isdecimal() else folder]
    part[name] = value
    path.write_text(json.dumps(document))
    monkeypatch.setattr("switchmark.results.query.FULL_CHECK_LIMIT", -1)
    with pytest.raises(CorruptResultError, match=path.name):
        summary(run)


def test_invalid_machine_facts_still_give_a_machine(
    tmp_path: Path,
) -> None:
    record = synthetic_record()
    record = record.model_copy(update={"provenance": {**record.provenance, "cpus": "x"}})
    (origin,) = read_origins(open_run(write_run(tmp_path, [record]))).values()
    assert origin.machine.name


def test_options_of_a_switch_make_a_separate_contender(tmp_path: Path) -> None:
    trials = [synthetic_trial(), synthetic_trial(switch_options="static_fdb:on+vlan_filtering:on")]
    rows = summary(write_run(tmp_path, [synthetic_record(trial) for trial in trials]))
    assert {row.contender for row in rows} == {
        "linux-bridge (default options)",
        "linux-bridge (static_fdb on, vlan_filtering on)",
    }
    assert len({row.point for row in rows}) == 1, "they may be compared"


def test_runs_are_read_through_one_database_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open a database takes as long as to read a run, and a history has hundreds of runs."""
    run = open_run(write_run(tmp_path / "run", [synthetic_record()]))
    read_table(run.directory)
    opened = []
    monkeypatch.setattr(duckdb, "connect", lambda *_, **__: opened.append(1))
    assert len(read_table(run.directory).frame) == len(read_origins(run)) == 1
    assert not opened


def test_figure_of_some_repetitions_shows_their_number(tmp_path: Path) -> None:
    """An NDR of one repetition beside a PDR of two looked as if NDR were above PDR."""
    found = run_simulated("ndr-pdr", Behaviour(capacity_pps=1e6), goals="quick")
    without = [one for one in found.figures if one.name != "NDR"]
    results = [found, found.model_copy(update={"figures": without, "headline": "PDR"})]
    records = [
        synthetic_record(
            synthetic_trial(method="ndr-pdr", repetition=number), method=one, throughput=None
        )
        for number, one in enumerate(results)
    ]
    (row,) = summary(write_run(tmp_path, records))
    assert row.method is not None
    ndr, pdr = row.method.figures
    assert (ndr.name, ndr.found_in_part, pdr.found_in_part) == ("NDR", True, False)
    assert words.named(ndr).endswith(" in 1 of 2 repetitions")
    assert "repetitions" not in words.named(pdr)
