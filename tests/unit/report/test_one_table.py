"""The main table of the report: its columns, the order of its lines, and their texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.model.functions import read_functions
from switchmark.model.parameter_table import PARAMETERS
from switchmark.model.workload import BITS, REQUESTS
from switchmark.report import words
from switchmark.report.one_table import OneTable, one_table
from switchmark.results.summary import summary
from switchmark.results.transfer_summary import TransferSummary, TransportSummary
from switchmark.statistics.means import estimate
from tests.unit.records import synthetic_record, synthetic_trial, write_run


def _table_of_rules(root: Path) -> OneTable:
    """A baseline, then two switches with 0 rules at burst 1 and with 100 rules at burst 32."""
    trials = [
        synthetic_trial(switch=switch, function=read_functions("route+acl"), routes=100,
                        rules=rules, burst=burst)
        for rules, burst in ((0, 1), (100, 32))
        for switch in ("ovs-netdev", "ovs-dpdk")
    ]  # fmt: skip
    trials.insert(0, synthetic_trial(switch="direct"))
    records = [synthetic_record(trial, number=number) for number, trial in enumerate(trials)]
    return one_table(summary(write_run(root, records)), ())


def test_fields_that_vary_together_share_one_column(tmp_path: Path) -> None:
    table = _table_of_rules(tmp_path)
    assert len(table.where) == 1
    assert table.where[0] in ("burst", "rules")


def test_fields_of_baselines_alone_have_no_column(tmp_path: Path) -> None:
    assert not {"function", "routes"} & set(_table_of_rules(tmp_path).where)


def test_baselines_are_the_last_lines(tmp_path: Path) -> None:
    lines = _table_of_rules(tmp_path).lines
    assert [line.first.is_baseline for line in lines] == [False] * 4 + [True]


def test_cells_have_values_without_the_name_of_the_column(tmp_path: Path) -> None:
    trials = [
        synthetic_trial(switch="ovs-dpdk", function=read_functions("route+acl"), rules=rules)
        for rules in (0, 100)
    ]
    trials.append(synthetic_trial(switch="direct"))
    records = [synthetic_record(trial, number=number) for number, trial in enumerate(trials)]
    table = one_table(summary(write_run(tmp_path, records)), ())
    assert table.where == ("rules",)
    assert [line.where for line in table.lines] == [("0",), ("100",), ("-",)]


def test_cells_of_a_rate_do_not_repeat_its_name(tmp_path: Path) -> None:
    trials = [synthetic_trial(rate_pps=rate_pps) for rate_pps in (1_000_000, None)]
    records = [synthetic_record(trial, number=number) for number, trial in enumerate(trials)]
    table = one_table(summary(write_run(tmp_path, records)), ())
    assert [words.heading(name) for name in table.where] == ["Rate"]
    assert {line.where for line in table.lines} == {("1M pps",), ("max",)}


def test_headings_begin_with_a_capital_and_keep_abbreviations() -> None:
    texts = [words.heading(name) for name in PARAMETERS]
    assert all(text[0].isupper() for text in texts if text != "vCPUs")
    assert {"Connect mode", "IP version", "I/O", "Switch CPUs", "Packet size"} <= set(texts)


@pytest.mark.parametrize(
    ("unit", "costs", "column", "text"),
    [
        (BITS, {"client_s_per_gigabit": 0.03, "server_s_per_gigabit": 0.02},
         "CPU, ms/Gbit", "50.0"),
        (REQUESTS, {"client_us_per_request": 30.0, "switch_us_per_request": None},
         "CPU, µs/request", "30.0"),
    ],
)  # fmt: skip
def test_cpu_time_of_an_application_is_in_the_unit_of_its_figure(
    tmp_path: Path, unit: str, costs: dict[str, float | None], column: str, text: str
) -> None:
    row = summary(write_run(tmp_path, [synthetic_record()]))[0]
    rate = estimate([1000.0])
    transfer = TransferSummary(unit, None, rate, rate, rate, estimate([0.0]))
    transport = TransportSummary(64.0, 64.0, 0.0, "reno", "", costs)
    table = one_table([replace(row, throughput=None, transfer=transfer, transport=transport)], ())
    (line,) = table.lines
    assert line.cells[table.columns.index(column)].text == text
    assert len([name for name in table.columns if name.startswith("CPU")]) == 1
