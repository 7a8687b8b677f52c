"""Reports in the form of standards, from records of methods on a simulated switch."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli import main
from switchmark.model.functions import FunctionList
from switchmark.model.rates import bit_rate
from switchmark.record.quality import DelayVariation
from switchmark.report.form import Form, form_text
from switchmark.report.form_source import NO_MEDIUM
from switchmark.results.run_directory import open_run
from switchmark.simulation.switch import Behaviour
from switchmark.statistics.histogram import Histogram
from tests.unit.method_fakes import run_simulated
from tests.unit.records import (
    synthetic_failure,
    synthetic_record,
    synthetic_trial,
    write_run,
)

LIMIT_PPS = 2e6


def searched(method: Any, number: Any, **changes: Any) -> Any:
    """Return the record of a method that ran on a switch with a limit."""
    trial = synthetic_trial(method=method, repetition=number, duration_s=1.0, **changes)
    behaviour = Behaviour(capacity_pps=LIMIT_PPS, buffer_frames=1000)
    result = run_simulated(method, behaviour, **changes)
    return synthetic_record(trial, marks=[], throughput=None, trim=None, method=result)


@pytest.fixture(scope="module")
def records() -> Any:
    methods = ("ndr-pdr", "back-to-back", "loss-vs-load", "recovery")
    return [
        *(searched(name, 0) for name in methods),
        searched("back-to-back", 1),
        synthetic_record(synthetic_trial(dimension="latency", rate_pps=1000)),
        synthetic_record(synthetic_trial(burst=8), marks=["flooding"]),
        synthetic_failure(synthetic_trial(burst=4), "the switch died"),
    ]


def section(text: Any, heading: Any) -> Any:
    return text.partition(f"## {heading}")[2].partition("\n## ")[0]


def cells(text: Any) -> Any:
    """Return the cells of the rows below the heading of a table."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_rfc_2544_report_has_each_part_from_the_records(records: Any, tmp_path: Path) -> None:
    info = open_run(write_run(tmp_path, records)).info
    text = form_text(Form.RFC2544, info, records)
    ndr, *_ = cells(section(text, "26.1"))
    bounds = records[0].method.bounds[0]
    assert ndr[:4] == ["linux-bridge", "64", "1", NO_MEDIUM]
    assert ndr[5] == f"{bounds.lower_pps:,.0f}"
    assert float(ndr[5].replace(",", "")) == pytest.approx(LIMIT_PPS, rel=0.05)
    (delay,) = cells(section(text, "26.2"))
    assert delay[:5] == ["linux-bridge", "64", "1", "round trip", "1,000"]
    assert delay[5:7] == ["1", f"{records[5].trial.duration_s:g}"]
    assert len(cells(section(text, "26.3"))) == records[2].method.trial_count
    (burst,) = cells(section(text, "26.4"))
    lengths = [r.method.figure("longest burst").value for r in (records[1], records[4])]
    assert burst[3] == f"{statistics.fmean(lengths):,.1f}"
    assert burst[-1] == "2"
    assert cells(section(text, "26.5"))
    left = section(text, "Left out")
    assert "flooding" in left
    assert "the switch died" in left


def test_search_without_a_load_has_a_row(records: Any, tmp_path: Path) -> None:
    """Without the row the report would state that it was not measured."""
    bounds = [bound.model_copy(update={"lower_pps": None}) for bound in records[0].method.bounds]
    method = records[0].method.model_copy(update={"bounds": bounds})
    trial = synthetic_trial(method="ndr-pdr", repetition=1, duration_s=1.0)
    found_none = records[0].model_copy(update={"trial": trial, "method": method})
    info = open_run(write_run(tmp_path, records)).info
    alone = section(form_text(Form.RFC2544, info, [found_none]), "26.1")
    assert "Not measured" not in alone
    assert [row[5:7] for row in cells(alone)] == [["none found", "-"]] * len(bounds)
    both = cells(section(form_text(Form.RFC2544, info, [records[0], found_none]), "26.1"))
    assert {row[-1] for row in both} == {"1 of 2 searches found a figure"}
    assert both[0][5] == f"{records[0].method.bounds[0].lower_pps:,.0f}"


def test_medium_gives_the_theoretical_rates(records: Any, tmp_path: Path) -> None:
    """64 bytes and 20 bytes of overhead at 10 Gbit/s: 14,880,952 frames/s (RFC 2544, B.1)."""
    info = open_run(write_run(tmp_path, records)).info
    text = form_text(Form.RFC2544, info, records, bit_rate("10Gbps-l1"))
    ndr, *_ = cells(section(text, "26.1"))
    assert ndr[3] == "14,880,952"
    rate = float(ndr[5].replace(",", ""))
    assert ndr[7] == f"{rate / 14_880_952:.1%}"
    for row in cells(section(text, "26.3")):
        load = float(row[3].replace(",", ""))
        assert row[4] == f"{load / 14_880_952:.1%}"


def test_loads_and_theoretical_rates_are_totals(records: Any, tmp_path: Path) -> None:
    """Two pairs in both directions have four streams, each with a link."""
    trial = synthetic_trial(
        method="ndr-pdr", duration_s=1.0, pairs=2, bidirectional=True, repetition=1
    )
    wide = records[0].model_copy(update={"trial": trial})
    info = open_run(write_run(tmp_path, records)).info
    text = form_text(Form.RFC2544, info, [records[0], wide], bit_rate("10Gbps-l1"))
    rows = cells(section(text, "26.1"))
    theoretical = {row[2]: row[3] for row in rows}
    assert theoretical == {"1": "14,880,952", "2, both ways": "59,523,808"}
    assert {row[-1] for row in rows} == {"1"}, "they are not repetitions of each other"


def test_different_trials_get_different_names(records: Any, tmp_path: Path) -> None:
    other = synthetic_trial(method="ndr-pdr", duration_s=1.0, burst=4)
    beside = records[0].model_copy(update={"trial": other, "notation": "other burst"})
    info = open_run(write_run(tmp_path, records)).info
    rows = cells(section(form_text(Form.RFC2544, info, [records[0], beside]), "26.1"))
    assert {row[0] for row in rows} == {"linux-bridge (burst 32)", "linux-bridge (burst 4)"}


def filtered(records: Any, rules: int, share: float, **changes: Any) -> Any:
    """Return the record of a search with filters, with this share of the usual throughput."""
    options = {"function": FunctionList("route+acl"), "switch": "ovs-dpdk", **changes}
    trial = synthetic_trial(method="ndr-pdr", duration_s=1.0, rules=rules, **options)
    bounds = [
        bound.model_copy(update={"lower_pps": share * bound.lower_pps})
        for bound in records[0].method.bounds
    ]
    method = records[0].method.model_copy(update={"bounds": bounds})
    return records[0].model_copy(update={"trial": trial, "method": method})


def test_filters_are_compared_without_filters(records: Any, tmp_path: Path) -> None:
    """RFC 2544, section 11.4: one filter permits the load; of 25 filters the last permits it."""
    info = open_run(write_run(tmp_path, records)).info
    given = [filtered(records, rules, share) for rules, share in ((25, 0.5), (0, 1.0), (1, 0.8))]
    beside = [
        filtered(records, rules, share, neighbour="cache") for rules, share in ((0, 0.4), (1, 0.1))
    ]
    text = form_text(
        Form.RFC2544, info, [*given, *beside, filtered(records, 25, 1, rule_hit="none")]
    )
    goals = len(records[0].method.bounds)
    rows = cells(section(text, "11.4"))[::goals]
    assert [(row[0], row[3], row[6]) for row in rows] == [
        ("ovs-dpdk (neighbour cache)", "none", "100.0%"),
        ("ovs-dpdk (neighbour cache)", "1", "25.0%"),
        ("ovs-dpdk (no neighbour)", "none", "100.0%"),
        ("ovs-dpdk (no neighbour)", "1", "80.0%"),
        ("ovs-dpdk (no neighbour)", "25", "50.0%"),
    ]
    usual = records[0].method.bounds[0].lower_pps
    assert rows[-1][5] == f"{usual / 2:,.0f}"


def test_filters_without_a_plain_search_have_no_share(records: Any, tmp_path: Path) -> None:
    info = open_run(write_run(tmp_path, records)).info
    alone = section(form_text(Form.RFC2544, info, [filtered(records, 25, 0.5)]), "11.4")
    assert {row[6] for row in cells(alone)} == {"-"}


@pytest.mark.parametrize("rules", [None, 0])
def test_run_without_filters_has_the_command(records: Any, tmp_path: Path, rules: Any) -> None:
    info = open_run(write_run(tmp_path, records)).info
    given = records if rules is None else [filtered(records, rules, 1.0)]
    text = section(form_text(Form.RFC2544, info, given), "11.4")
    assert "Not measured" in text
    assert "--set function=route+acl --set 'rules=0, 1, 25'`" in text


def test_latency_is_the_mean_over_trials(tmp_path: Path) -> None:
    trials = [synthetic_trial(dimension="latency", rate_pps=1000, repetition=n) for n in range(3)]
    records = [synthetic_record(trial, marks=[], number=n) for n, trial in enumerate(trials)]
    info = open_run(write_run(tmp_path, records)).info
    (row,) = cells(section(form_text(Form.RFC2544, info, records), "26.2"))
    assert row[5] == "3"
    mean_us = statistics.fmean(record.latency.mean_ns for record in records) / 1e3
    assert float(row[9].replace(",", "")) == pytest.approx(mean_us, rel=0.01)
    assert row[7] == str(sum(record.latency.count for record in records))


def test_tst_009_report_names_missing_measurements(records: Any, tmp_path: Path) -> None:
    info = open_run(write_run(tmp_path, records)).info
    text = form_text(Form.TST009, info, records)
    assert "`switchmark trial SWITCH --method soak` measures it" in section(
        text, "Loss over a long"
    )
    assert cells(section(text, "Throughput"))
    assert "Frame sizes: with FCS, bytes: 64" in text


# For each clause of a document: the required content, the section of the report, and its texts.
REQUIRED = {
    Form.RFC2544: [
        ("26.1", "throughput, theoretical rate of the medium, for each frame size",
         "26.1", ("frame size", "theoretical frames/s", "throughput frames/s")),
        ("26.1", "protocol, format of the data stream, type of media", "", (
            "- Protocol:", "- Data streams:", "- Media:", "- Frame sizes:")),
        ("26.2", "its rate, latency, how many trials, store-and-forward",
         "26.2", ("frames/s", "mean us", "| trials |", "store-and-forward")),
        ("26.3", "loss over the input rate as a share of the theoretical one",
         "26.3", ("offered frames/s", "of the theoretical rate", "loss %")),
        ("26.4, RFC 9004 6", "mean, deviation, least, most, N, buffer times, limits",
         "26.4", ("mean frames", "standard deviation", "minimum", "maximum", "repetitions",
                  "implied buffer time s", "corrected buffer time s", "longest burst that is tried",
                  "is within 2% of")),
        ("26.5", "throughput, time of recovery", "26.5", ("| throughput |", "recovery")),
        ("26.6", "time of reset", "26.5", ("reset: outage",)),
    ],
    Form.TST009: [
        ("device, tester, host and their versions", "", "", (
            "- Devices under test:", "- Tester:", "- Host:")),
        ("capacity at a loss ratio", "", "Throughput", ("loss ratio allowed", "longest trial s")),
        ("latency: least, mean, high percentiles, most", "", "Latency", (
            "minimum us", "p99 us", "p99.9 us", "maximum us", "samples")),
        ("delay variation: PDV, and from packet to packet", "", "Latency", (
            "PDV p99 us", "PDV p99.9 us", "IPDV p99 us")),
        ("loss over load", "", "Loss", ("offered frames/s", "loss %")),
        ("consecutive frames, buffer", "", "Burst", ("mean frames", "corrected buffer time s")),
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", list(Form))
def test_report_has_the_content_of_each_clause(records: Any, form: Any, tmp_path: Path) -> None:
    text = form_text(form, open_run(write_run(tmp_path, records)).info, records)
    for clause, required, heading, phrases in REQUIRED[form]:
        part = section(text, heading) if heading else text.partition("\n## ")[0]
        for phrase in phrases:
            assert phrase in part, f"{clause} {required}: {phrase}"


def test_tst_009_report_has_delay_variation(tmp_path: Path) -> None:
    grown = Histogram.of({1000: 100}, 1_000_000)
    variation = DelayVariation(
        ipdv_count=200, ipdv_mean_ns=0.0, ipdv_mean_magnitude_ns=1500.0,
        ipdv_percentiles_ns={"50": 1000.0, "99": 2500.0, "99.9": 3500.0},
        ipdv_grown=grown, ipdv_shrunk=grown,
        pdv_mean_ns=4500.0, pdv_percentiles_ns={"50": 4000.0, "99": 5500.0, "99.9": 6500.0},
    )  # fmt: skip
    record = synthetic_record(synthetic_trial(dimension="latency", rate_pps=1000), marks=[])
    latency = record.latency.model_copy(update={"variation": variation})
    records = [record.model_copy(update={"latency": latency})]
    info = open_run(write_run(tmp_path, records)).info
    text = section(form_text(Form.TST009, info, records), "Latency")
    assert "| 4.50 | 5.50 | 6.50 | 1.50 | 2.50 | 3.50 |" in text
    assert "IPDV" not in form_text(Form.RFC2544, info, records)


def test_command_writes_the_form_into_the_run(
    records: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path, records)
    assert main.run(["report", str(run), "--form", "tst009"]) == 0
    assert main.run(["report", str(run), "--form", "tst009", "--medium", "10Gbps"]) == 0
    output = capsys.readouterr().out
    assert str(run / "form-tst009.md") in output
    for name in ("throughput", "loss"):
        drawn = f"form-tst009-{name}.svg"
        assert str(run / drawn) in output
        assert f"]({drawn})" in (run / "form-tst009.md").read_text()
        assert "theoretical" in (run / drawn).read_text()
    assert main.run(["report", str(run), "--form", "tst009", "--medium", "10 apples"]) == 2
    assert "--medium" in capsys.readouterr().err
    assert main.run(["report", str(run), "--medium", "10Gbps"]) == 2
    assert (run / "form-tst009.md").read_text().startswith("# Report after ETSI GS NFV-TST 009")
    assert main.run(["report", str(run), "--form", "rfc9999"]) == 2
