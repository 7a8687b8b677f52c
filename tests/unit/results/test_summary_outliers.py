"""Outliers, bands and unsteady runs are shown wherever figures are, and stay in the means."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli.show import show
from switchmark.model.choices import Dimension
from switchmark.record import Record, SteadyRun
from switchmark.report.html import write_report
from switchmark.results.summary import summary
from tests.unit.records import synthetic_failure, synthetic_record, synthetic_trial, write_run


def repeated(loads_pps: Sequence[float], **changes: Any) -> list[Record]:
    records = []
    for repetition, load in enumerate(loads_pps):
        record = synthetic_record(synthetic_trial(repetition=repetition), **changes)
        assert record.throughput is not None
        (pair,) = record.throughput.pairs
        loads = {"forwarded_pps": load, "offered_pps": 3e6}
        throughput = record.throughput.model_copy(
            update={
                **loads,
                "forwarded_l2_bps": load * 64 * 8,
                "forwarded_l1_bps": load * 84 * 8,
                "pairs": [pair.model_copy(update=loads)],
            }
        )
        records.append(record.model_copy(update={"throughput": throughput}))
    return records


def steady(mean: float, rest: float, change_p: float | None = 0.5) -> SteadyRun:
    return SteadyRun(
        policy="MSER-5", steady=True, reason="", warm_up_samples=0, change_p=change_p,
        mean_pps=mean, mean_without_outliers_pps=rest, outliers=[], two_bands=None,
    )  # fmt: skip


NEAR = [1.00e6, 1.01e6, 0.99e6, 1.005e6, 0.995e6, 1.002e6]


def test_values_that_belong_together_are_not_remarked_on(tmp_path: Path) -> None:
    (row,) = summary(write_run(tmp_path, repeated(NEAR, steady=steady(1e6, 1.0005e6))))
    assert row.remarks == ()


def test_outlier_among_repetitions_is_reported_and_kept(tmp_path: Path) -> None:
    loads = [*NEAR, 0.2e6]
    (row,) = summary(write_run(tmp_path, repeated(loads)))
    (remark,) = row.remarks
    assert remark.startswith("outlier: repetition 6 with 0.2 Mpps (score -")
    assert row.throughput is not None
    assert row.throughput.forwarded_pps.mean == pytest.approx(sum(loads) / 7)
    assert "two-bands" not in row.marks


def test_two_bands_of_repetitions_are_reported_and_marked(tmp_path: Path) -> None:
    (row,) = summary(write_run(tmp_path, repeated([*NEAR, *(2 * load for load in NEAR)])))
    assert row.remarks == (
        "two bands: 6 values around 1 Mpps, 6 around 2.001 Mpps, 1 changes between them",
    )
    assert "two-bands" in row.marks


def test_medians_of_round_trips_are_checked(tmp_path: Path) -> None:
    records = []
    for repetition in range(7):
        trial = synthetic_trial(repetition=repetition, dimension=Dimension.LATENCY, rate_pps=1000)
        record = synthetic_record(trial)
        assert record.latency is not None
        times = 9.0 if repetition == 2 else 1 + 0.001 * repetition
        percentiles = dict.fromkeys(record.latency.percentiles_ns, 10000.0 * times)
        latency = record.latency.model_copy(update={"percentiles_ns": percentiles})
        records.append(record.model_copy(update={"latency": latency}))
    (row,) = summary(write_run(tmp_path, records))
    assert [one for one in row.remarks if one.startswith("outlier: repetition 2 with 90 us")]


def test_repetitions_keep_their_numbers_where_others_failed(tmp_path: Path) -> None:
    failed = synthetic_failure(synthetic_trial(repetition=2))
    records = [one for one in repeated([*NEAR, 0.2e6]) if one.trial.repetition != 2]
    (row,) = summary(write_run(tmp_path, [*records, failed]))
    assert (row.finished, row.failed) == (6, 1)
    assert [one for one in row.remarks if one.startswith("outlier: repetition 6 with 0.2 Mpps")]


def test_changes_within_trials_are_reported(tmp_path: Path) -> None:
    records = repeated(NEAR[:2], steady=steady(1e6, 1.2e6))
    records += [
        one.model_copy(update={"steady": steady(1e6, 1e6, 0.003)}) for one in repeated(NEAR[:3])[2:]
    ]
    (row,) = summary(write_run(tmp_path, records))
    assert row.remarks == (
        "outliers among the samples of 2 of 3 repetitions: the mean of the whole trial after its "
        "warm-up is 1 Mpps with them and 1.133 Mpps without",
        "not steady in 1 of 3 repetitions: the load changed within the run (CUSUM, p 0.003 at "
        "least)",
    )


def test_remarks_are_shown_exported_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path, repeated([*NEAR, 0.2e6]))
    assert show(str(run), full=True) == 0
    assert "outlier: repetition 6 with 0.2 Mpps" in capsys.readouterr().out
    assert show(str(run), json=True) == 0
    (flat,) = json.loads(capsys.readouterr().out)
    assert len(flat["remarks"]) == 1
    write_report(run, page := tmp_path / "page.html")
    assert "outlier: repetition 6 with 0.2 Mpps" in page.read_text()
