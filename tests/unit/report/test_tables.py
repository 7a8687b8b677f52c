"""The tables of `show --full` and the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.cli.run_output import print_run
from switchmark.model.functions import read_functions
from switchmark.model.trial import Trial
from switchmark.record import FunctionNote, Record
from switchmark.record.function import Policing
from switchmark.report.html import write_report
from switchmark.report.tables import FUNCTION_TITLE, function_table, quality_title
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from tests.unit.records import synthetic_record, synthetic_trial, write_run


def record(trial: Trial, entries: int, load_time_s: float, **changes: object) -> Record:
    values = {
        "functions": list(trial.function.names),
        "table": "0" * 16,
        "announced": {"routes": entries, "next hops": 2},
        "read_back": {"routes": entries, "next hops": 2},
        "load_time_s": load_time_s,
        "cases": 4,
        "must_arrive": 2,
        "must_not_arrive": 2,
    }
    return synthetic_record(trial, function=FunctionNote.model_validate(values | changes))


def routing(routes: int, **changes: object) -> Trial:
    return synthetic_trial(
        switch="ovs-netdev", function=read_functions("route"), routes=routes, **changes
    )


def test_quality_title_names_the_columns_of_the_table() -> None:
    assert quality_title(["PDV p99", "Jain"]) == (
        "Delay variation (IPDV RFC 3393, PDV RFC 5481), fairness between pairs"
    )
    assert quality_title(["client ns"]) == "CPU time of a frame in the applications"


def test_a_contender_and_scale_have_one_line(tmp_path: Path) -> None:
    """Frame sizes and repetitions share it; entries a second and memory are of the load alone."""
    memory = {
        "memory_before_kib": 10_240, "memory_after_kib": 20_480, "memory_kib": 20_992,
        "hugepages_kib": 2048,
    }  # fmt: skip
    records = [
        record(routing(1), 10, 0.0),
        record(routing(1000), 998, 0.5, **memory),
        record(routing(1000, repetition=1), 998, 0.5, **memory),
        record(routing(1000, packet_size_bytes=1500), 998, 0.5, **memory),
        synthetic_record(synthetic_trial(switch="ovs-netdev")),
    ]
    table = function_table(summary(write_run(tmp_path, records)))
    assert table.columns[3:] == (
        "native entries", "load s", "entries/s", "memory MiB", "process MiB", "policer", "trials"
    )  # fmt: skip
    assert table.lines == (
        ("ovs-netdev", "route", "1 route", "12", "0", "-", "-", "-", "-", "1"),
        ("ovs-netdev", "route", "1,000 routes", "1,000", "0.500", "2000", "10.0", "22.5", "-", "3"),
    )


def test_tables_that_are_compiled_at_the_start_have_no_rate(tmp_path: Path) -> None:
    """The load time has the start of the switch in it."""
    compiled = record(routing(1000), 998, 0.5, loads_at_start=True)
    (line,) = function_table(summary(write_run(tmp_path, [compiled]))).lines
    assert line[3:6] == ("1,000", "0.500", "-")


def test_a_policer_that_was_not_judged_is_shown(tmp_path: Path) -> None:
    trial = synthetic_trial(switch="ovs-netdev", function=read_functions("forward+policer"))
    sizes = {"frame_bytes": 64, "cir_bps": 10**7, "cbs_bytes": 10**5}
    (judged, not_judged) = (
        record(trial.changed({"repetition": k}), 1, 0.1, policing=Policing(**sizes, **result))
        for k, result in enumerate(({"error": -0.01}, {"unjudged": "the senders were slow"}))
    )
    (line,) = function_table(summary(write_run(tmp_path, [judged, not_judged]))).lines
    assert line[2] == "-"
    assert line[-2:] == ("-1.00%, 1 not judged", "2")


def test_policers_of_several_rates_have_their_rates_as_table(tmp_path: Path) -> None:
    policer = synthetic_trial(switch="ovs-netdev", function=read_functions("forward+policer"))
    sizes = {"frame_bytes": 64, "cbs_bytes": 10**5, "error": 0.0}
    records = [
        record(policer.changed({"cir_bps": cir}), 1, 0.1, policing=Policing(cir_bps=cir, **sizes))
        for cir in (10**7, 16 * 10**9)
    ]
    lines = function_table(summary(write_run(tmp_path, records))).lines
    assert [line[2] for line in lines] == ["CIR 10Mbit/s", "CIR 16Gbit/s"]


def test_kernel_memory_says_so_and_both_pages_have_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = {"memory_before_kib": 4096, "memory_after_kib": 3072, "memory_is_kernel": True}
    found = open_run(write_run(tmp_path, [record(routing(1000), 998, 0.5, **memory)]))
    rows = summary(found.directory)
    assert "-1.00 (kernel)" in function_table(rows).lines[0]
    print_run(found, rows, rows)
    assert "Tables of network functions" in capsys.readouterr().out
    target = tmp_path / "report.html"
    assert not write_report(found.directory, target)
    page = target.read_text("utf-8")
    assert "<h3>Tables of network functions</h3>" in page and FUNCTION_TITLE.split(":")[0] in page


def test_runs_that_only_forward_have_no_table(tmp_path: Path) -> None:
    rows = summary(write_run(tmp_path, [synthetic_record()]))
    assert function_table(rows).lines == ()
