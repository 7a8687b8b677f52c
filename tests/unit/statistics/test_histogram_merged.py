"""Merged latencies: mean, extremes and percentiles are those of the union of all samples."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from switchmark.cli import main
from switchmark.engine.events import TimedDelays
from switchmark.model.choices import Dimension
from switchmark.record import Latency, Record
from switchmark.report.form import Form, form_text
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from switchmark.statistics.histogram import PERCENTILES, Histogram
from switchmark.statistics.means import of_all
from switchmark.trial import one_way
from switchmark.trial.one_way import merge_latency
from tests.unit.records import synthetic_record, synthetic_trial, write_run
from tests.unit.report.test_form import cells, section

SLOT = 1e-3  # relative width, as a histogram keeps three significant digits
HIGHEST_NS = 100_000_000_000

# Times of one client: near each other, or far apart like those of two bands and of stalls.
SAMPLES = st.lists(
    st.one_of(st.integers(1, 100), st.integers(20_000, 44_000), st.integers(1, 10**10)),
    min_size=1, max_size=40,
)  # fmt: skip
CLIENTS = st.lists(SAMPLES, min_size=1, max_size=4)


def timed(samples: list[int], wait_ns: int = 0) -> TimedDelays:
    """Return the engine's report of these delays, each due `wait_ns` before it was sent."""
    late = [one + wait_ns for one in samples]

    def figures(of: list[int]) -> dict[str, Any]:
        return {
            "count": len(of), "min_ns": min(of), "max_ns": max(of),
            "mean_ns": statistics.fmean(of), "stdev_ns": statistics.pstdev(of),
        }  # fmt: skip

    delays = SimpleNamespace(
        **figures(samples), intended=SimpleNamespace(**figures(late)),
        from_actual=Histogram.of(Counter(samples), HIGHEST_NS),
        from_intended=Histogram.of(Counter(late), HIGHEST_NS),
    )  # fmt: skip
    return cast(TimedDelays, delays)


def merged(clients: list[list[int]]) -> Latency:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_way, "delay_variation", lambda _: None)
        return merge_latency("rtt", [timed(one, 500) for one in clients], 0, "nothing")


def mean_of(histogram: Histogram) -> float:
    """Return the mean of the histogram's slots, each by its middle."""
    slots = list(histogram.slots())
    total = math.fsum((low + high) / 2 * count for low, high, count in slots)
    return total / sum(count for *_, count in slots)


def check(found: Latency, union: list[int]) -> None:
    """Check all figures of a latency against its samples."""
    ordered = sorted(union)
    assert (found.count, found.min_ns, found.max_ns) == (len(union), ordered[0], ordered[-1])
    assert found.min_ns <= found.mean_ns <= found.max_ns
    assert found.mean_ns == pytest.approx(statistics.fmean(union), rel=1e-9)
    assert found.stdev_ns == pytest.approx(statistics.pstdev(union), rel=1e-6, abs=1e-3)
    assert found.histogram is not None
    assert mean_of(found.histogram) == pytest.approx(found.mean_ns, rel=SLOT)
    percentiles = [found.percentiles_ns[name] for name in PERCENTILES]
    assert [found.min_ns, *percentiles, found.max_ns] == sorted(
        [found.min_ns, *percentiles, found.max_ns]
    )
    for name, value in zip(PERCENTILES, percentiles, strict=True):
        rank = max(1, math.ceil(float(name) / 100 * len(ordered) - 1e-9))
        assert value == pytest.approx(ordered[rank - 1], rel=SLOT)


@settings(deadline=None, max_examples=60)
@given(CLIENTS)
def test_merged_pairs_are_their_union(clients: list[list[int]]) -> None:
    check(merged(clients), [one for client in clients for one in client])


@given(st.lists(st.integers(1, 50), min_size=1, max_size=9), st.floats(1, 1e9))
def test_mean_of_equal_values_is_that_value(counts: list[int], value: float) -> None:
    """Rounding put it below the minimum by the last digit."""
    assert of_all((count, value, 0.0) for count in counts)[0] == value


def repetitions(clients: list[list[int]]) -> list[Record]:
    """Return a repetition for each client."""
    records = []
    for number, samples in enumerate(clients):
        trial = synthetic_trial(dimension=Dimension.LATENCY, rate_pps=1000, repetition=number)
        latency = merged([samples])
        records.append(synthetic_record(trial, number=number, latency=latency))
    return records


@settings(
    deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(SAMPLES, min_size=2, max_size=3))
def test_merged_repetitions_are_their_union(
    tmp_path_factory: pytest.TempPathFactory, clients: list[list[int]]
) -> None:
    (row,) = summary(write_run(tmp_path_factory.mktemp("run"), repetitions(clients)))
    assert row.latency is not None
    found, union = row.latency, sorted(one for client in clients for one in client)
    assert (found.min_ns, found.max_ns) == (union[0], union[-1])
    assert found.all_mean_ns == pytest.approx(statistics.fmean(union), rel=1e-9)
    assert found.min_ns <= found.all_mean_ns <= found.max_ns
    assert found.stdev_ns == pytest.approx(statistics.pstdev(union), rel=1e-6, abs=1e-3)
    percentiles = [found.percentiles_ns[name] for name in PERCENTILES]
    assert [found.min_ns, *percentiles, found.max_ns] == sorted(
        [found.min_ns, *percentiles, found.max_ns]
    )
    assert percentiles[0] == pytest.approx(union[math.ceil(len(union) / 2) - 1], rel=SLOT)
    assert found.min_ns <= found.median_ns.mean * (1 + SLOT) and found.median_ns.mean <= union[-1]


def test_mean_beside_merged_percentiles_is_of_all_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was the mean of the repetitions' means, whatever their numbers of samples: 1000 ns beside
    a median of 20 ns."""
    run = write_run(tmp_path, repetitions([[20] * 30, [1980]]))
    (row,) = summary(run)
    assert row.latency is not None
    assert (row.latency.mean_ns.mean, row.latency.percentiles_ns["50"]) == (1000.0, 20.0)
    assert row.latency.all_mean_ns == pytest.approx((30 * 20 + 1980) / 31)
    assert main.run(["show", str(run), "--format", "csv"]) == 0
    (exported,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert float(exported["rtt_merged_mean_ns"]) == pytest.approx(83.2, rel=0.01)


def test_rate_of_round_trips_in_a_form_is_the_total(tmp_path: Path) -> None:
    """All loads of a form are totals of all streams; this one was that of each pair."""
    records = [
        synthetic_record(synthetic_trial(dimension="latency", rate_pps=1000, pairs=pairs))
        for pairs in (1, 2)
    ]
    info = open_run(write_run(tmp_path, records)).info
    rows = cells(section(form_text(Form.RFC2544, info, records), "26.2"))
    assert {row[2]: row[4] for row in rows} == {"1": "1,000", "2": "2,000"}


@pytest.mark.parametrize(("pairs", "both"), [(1, False), (2, False), (1, True), (4, True)])
def test_loads_in_exports_are_totals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pairs: int, both: bool
) -> None:
    """Between record and readers no factor of pairs or directions remains."""
    trial = synthetic_trial(rate_pps=10_000, pairs=pairs, bidirectional=both)
    record = synthetic_record(trial)
    assert record.throughput is not None
    run = write_run(tmp_path, [record])
    assert main.run(["show", str(run), "--format", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    for column, name in (
        ("intended_pps", "intended_pps"), ("offered_pps_mean", "offered_pps"),
        ("forwarded_pps_mean", "forwarded_pps"), ("forwarded_l1_bps_mean", "forwarded_l1_bps"),
    ):  # fmt: skip
        assert float(row[column]) == pytest.approx(getattr(record.throughput, name))
    assert float(row["rate_pps"]) == 10_000, "the requested rate of each pair and direction"
