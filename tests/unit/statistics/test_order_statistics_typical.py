"""One estimator for one word: the median round trip is the median of the repetitions' medians."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.cli import main
from switchmark.model.campaign import Published
from switchmark.model.choices import Dimension
from switchmark.record import Record
from switchmark.report.bmf import bmf
from switchmark.report.html import write_report
from switchmark.report.summary_words import answers_of, summarise_in_words
from switchmark.results.answer import answer
from switchmark.results.blocks import observe
from switchmark.results.proving import Proving
from switchmark.results.published import measured
from switchmark.results.ranking import headline
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from switchmark.statistics.comparison import ratio_of, sides_of
from switchmark.statistics.means import estimate
from switchmark.statistics.order_statistics import by_median, typical
from switchmark.switch.registry import usual_overhead_s
from tests.unit.records import synthetic_histogram, synthetic_record, synthetic_trial, write_run

SPOILED_NS = (20_400, 16_300, 222_691_000)  # three repetitions, one of a stalled machine
STEADY_NS = (127_000, 125_000, 129_000)


def timed(switch: str, median_ns: int, repetition: int) -> Record:
    """Return a latency trial with this median."""
    trial = synthetic_trial(
        dimension=Dimension.LATENCY, switch=switch, repetition=repetition, rate_pps=10_000
    )
    record = synthetic_record(trial, number=repetition, is_baseline=False)
    assert record.latency is not None
    histogram = synthetic_histogram(median_ns, record.latency.count)
    values = histogram.percentiles_ns()
    changes: dict[str, Any] = {
        "min_ns": values["50"] * 0.3, "mean_ns": values["50"] * 1.03, "max_ns": values["99.999"],
        "percentiles_ns": values, "histogram": histogram,
        "intended_percentiles_ns": values, "intended_histogram": histogram,
    }  # fmt: skip
    return record.model_copy(update={"latency": record.latency.model_copy(update=changes)})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    records = [
        timed(switch, median_ns, repetition)
        for switch, medians in (("linux-bridge", SPOILED_NS), ("ovs-dpdk", STEADY_NS))
        for repetition, median_ns in enumerate(medians)
    ]
    return write_run(tmp_path, records)


@given(
    st.lists(st.floats(1.0, 1e9), min_size=3, max_size=31),
    st.floats(1e9, 1e15),
)
def test_typical_value_ignores_one_spoiled_repetition(values: list[float], spoiled: float) -> None:
    """However long one repetition took, the typical value is within the others."""
    found = typical([*values, spoiled])
    assert min(values) * 0.999 <= found <= max(values) * 1.001


@pytest.mark.parametrize(
    ("values", "low", "high", "is_range"),
    [
        ([3.0, 1.0, 2.0], 1.0, 3.0, True),
        ([5.0, 1.0, 2.0, 3.0, 4.0], 1.0, 5.0, True),
        ([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 1.0, 6.0, False),  # 1 - 2 x 0.5^6 = 96.9 %
        ([float(k) for k in range(1, 10)], 2.0, 8.0, False),  # 96.1 %
    ],
)
def test_interval_is_of_ranks_or_marked_as_a_range(
    values: list[float], low: float, high: float, is_range: bool
) -> None:
    found = by_median(estimate(values))
    assert (found.low, found.high, found.is_range) == (low, high, is_range)


def test_median_of_an_even_number_is_that_of_blocks() -> None:
    assert typical([1.0, 4.0]) == 2.0
    assert typical([0.0, 4.0]) == 2.0
    assert typical([7.0]) == 7.0
    assert by_median(estimate([7.0])) == estimate([7.0])


def test_spoiled_repetition_does_not_move_the_answer(run: Path) -> None:
    """It made a median round trip of 74 ms of 20 us, which was ranked behind 127 us."""
    rows = summary(run)
    opened = open_run(run)
    texts = summarise_in_words(opened, rows, rows, answers_of(opened, rows, rows))
    (point,) = texts.points
    assert point.lines[0].contender == "linux-bridge"
    assert re.match(r"20\.. µs", point.lines[0].amount)


def test_every_output_gives_the_same_median(
    run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = {row.contender: row for row in summary(run)}
    due_us = pytest.approx(20.4, rel=0.01)
    row = rows["linux-bridge"]
    assert headline(row).mean / 1e3 == due_us
    published = Published(
        match={}, value=1, unit="us", source="x", statistic="median", path="round-trip"
    )
    beside = measured(row, published)
    assert beside is not None and beside.mean == due_us
    metrics = bmf(list(rows.values()))
    (metric,) = [one["rtt-p50-ns"] for name, one in metrics.items() if "bridge" in name]
    assert metric["value"] / 1e3 == due_us
    assert main.run(["show", "--full", str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (title,) = (n for n, one in enumerate(lines) if one.startswith("Round-trip time"))
    line = next(one for one in lines[title:] if "linux-bridge" in one.split())
    assert any(re.fullmatch(r"20\.\d", cell) for cell in line.split())
    write_report(run, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert re.search(r">20\.\d<", "".join(page.split())) and ">742" not in page
    assert main.run(["show", str(run), "--format", "csv"]) == 0
    (exported,) = [
        one
        for one in csv.DictReader(io.StringIO(capsys.readouterr().out))
        if one["switch"] == "linux-bridge"
    ]
    assert float(exported["rtt_p50_ns_median"]) / 1e3 == due_us
    assert float(exported["rtt_p50_ns_mean"]) / 1e3 == pytest.approx(74_240, rel=0.01)


def test_answer_by_blocks_gives_the_same_median(run: Path) -> None:
    observed = [observe(comparison) for comparison in open_run(run).records()]
    proving = Proving.of({"repetitions": 3}, usual_overhead_s)
    found = [
        comparison
        for comparison in answer(observed, proving, {})
        if comparison.metric.name == "rtt-p50"
    ]
    rows = {row.contender: row for row in summary(run)}
    for comparison in found:
        for ranked in comparison.ranking:
            assert ranked.typical == pytest.approx(headline(rows[ranked.contender]).mean)
    assert json.dumps([comparison.metric.name for comparison in found]) == '["rtt-p50"]'


FIGURES = st.lists(st.just(0.0) | st.floats(1e-3, 1e9), min_size=2, max_size=12)


@given(FIGURES, FIGURES)
def test_figures_of_a_comparison_have_its_ratio(a: list[float], b: list[float]) -> None:
    """`compare` showed arithmetic means beside the ratio of geometric means."""
    ratio = ratio_of(a, b)
    first, second = sides_of(ratio, a, b)
    if ratio.value is not None and first > 0:
        assert second / first == pytest.approx(ratio.value, rel=1e-6)
