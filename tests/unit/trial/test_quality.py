"""Order, delay variation, fairness and loop costs: from engines' results to the printed table."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from switchmark.engine.events import Loss, TimedDelays
from switchmark.engine.process import EngineProcess
from switchmark.record import Latency, Record
from switchmark.record.quality import DelayVariation, Reordering
from switchmark.report.tables import quality_table
from switchmark.results.between_hosts import summarise_quality
from switchmark.results.groups import Records
from switchmark.results.summary import summary
from switchmark.statistics.histogram import Histogram
from switchmark.trial.quality import delay_variation, jain, loop_costs, reordering
from tests.unit.engine_lines import event, fields, timed
from tests.unit.records import synthetic_record, synthetic_trial, write_run
from tests.unit.trial_fakes import FakeEngine, finished, process


def histogram_of(*values: int) -> Histogram:
    return Histogram.of(Counter(values))


def latency_of(
    delays: list[int], grown: list[int], shrunk: list[int], base_ns: int = 0
) -> TimedDelays:
    changes = [*grown, *shrunk]
    figures = {
        "count": len(delays),
        "min_ns": min(delays, default=0),
        "max_ns": max(delays, default=0),
        "mean_ns": sum(delays) / len(delays) if delays else 0,
        "from_actual": histogram_of(*delays),
        "pdv": {
            "base_ns": base_ns,
            "above": histogram_of(*(delay - base_ns for delay in delays if delay >= base_ns)),
            "below": histogram_of(*(base_ns - delay for delay in delays if delay < base_ns)),
        },
        "ipdv": {
            "count": len(changes),
            "mean_ns": (sum(grown) - sum(shrunk)) / len(changes) if changes else 0,
            "mean_magnitude_ns": sum(changes) / len(changes) if changes else 0,
            "grown": histogram_of(*grown),
            "shrunk": histogram_of(*shrunk),
        },
    }
    return timed(figures)


def test_variation_of_two_pairs_is_that_of_all_their_samples() -> None:
    item = latency_of([1000, 1500, 1200], grown=[500], shrunk=[300])
    two = latency_of([900, 900, 950, 900], grown=[0, 50], shrunk=[50])
    found = delay_variation([item, two])
    assert found is not None
    assert found.ipdv_count == 5
    assert found.ipdv_mean_ns == pytest.approx((500 - 300 + 0 + 50 - 50) / 5)
    assert found.ipdv_mean_magnitude_ns == pytest.approx(900 / 5)
    assert found.ipdv_percentiles_ns["50"] == 50
    assert found.ipdv_percentiles_ns["99"] == pytest.approx(500, rel=1e-3)
    assert found.pdv_mean_ns == pytest.approx((3700 + 3650) / 7 - 900)
    assert found.pdv_percentiles_ns["50"] == 50
    assert found.pdv_percentiles_ns["99.9"] == pytest.approx(600, abs=2)


def test_jitter_on_long_delays_is_exact_to_a_thousandth() -> None:
    """Two pairs with different bases; a histogram of 20 ms has slots of 16 us."""
    near = [20_000_777 + 10 * step for step in range(1000)]
    far = [20_002_000 + 100 * step for step in range(1000)]
    item = latency_of(near, [], [], base_ns=near[3])
    two = latency_of(far, [], [], base_ns=far[40])
    found = delay_variation([item, two])
    assert found is not None
    both = sorted(near + far)
    for name, value in found.pdv_percentiles_ns.items():
        true = both[math.ceil(float(name) * 20) - 1] - both[0]
        assert value == pytest.approx(true, rel=1e-3, abs=8), name


def test_one_frame_has_no_neighbour_and_none_no_variation() -> None:
    assert delay_variation([]) is None
    assert delay_variation([latency_of([], [], [])]) is None
    alone = delay_variation([latency_of([1000], [], [])])
    assert alone is not None
    assert alone.ipdv_count == 0
    assert alone.ipdv_percentiles_ns == {}


def test_variation_must_hold_what_it_says() -> None:
    found = delay_variation([latency_of([1000, 1500], grown=[500], shrunk=[])])
    assert found is not None
    with pytest.raises(ValidationError, match="ipdv_count is 2, but the histograms have 1"):
        DelayVariation(**(found.model_dump() | {"ipdv_count": 2}))


def loss(**given: Any) -> Loss:
    return Loss.model_validate_json(json.dumps(fields(Loss, given)))


LOSS = {
    "reordered": 4,
    "reordered_ratio": 0.04,
    "max_reorder_extent": 3,
    "mean_reorder_extent": 1.5,
    "max_late_offset_ns": 900,
    "mean_late_offset_ns": 500,
    "n_reordered": {"1": 3, "2": 1},
    "extent_is_lower_bound": False,
}


def test_order_is_kept_where_frames_were_overtaken() -> None:
    found = reordering(loss(**LOSS))
    assert found is not None
    assert (found.ratio, found.max_extent, found.n_reordered["2"]) == (0.04, 3, 1)
    assert reordering(loss()) is None
    with pytest.raises(ValidationError, match="do not fall"):
        Reordering(**(found.model_dump() | {"n_reordered": {"1": 1, "2": 2}}))
    with pytest.raises(ValidationError, match="do not fall"):
        Reordering(**(found.model_dump() | {"n_reordered": {"1": 5}}))


def test_fairness_is_jains() -> None:
    assert jain([5.0, 5.0, 5.0]) == 1.0
    assert jain([9.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert jain([1.0, 2.0, 3.0]) == pytest.approx(36 / 42)
    assert jain([7.0]) is None
    assert jain([0.0, 0.0]) is None


def ran(role: str, tsc_hz: float, **cycles: int) -> EngineProcess:
    """An engine whose trial has ended."""
    engine = finished(role, 0, [event("result", cycles=cycles)])
    assert isinstance(engine.spawned, FakeEngine)
    engine.spawned.lines.append(event("ready", role=role, tsc_hz=tsc_hz))
    engine.wait_ready(0.1)
    return engine


def test_costs_of_a_role_are_summed_over_pairs() -> None:
    found = loop_costs(
        [
            ran("sender", 2e9, frames=100, useful_ticks=4000, idle_ticks=0),
            ran("sender", 2e9, frames=300, useful_ticks=4000, idle_ticks=8000),
            ran("receiver", 2e9, frames=0, useful_ticks=0, idle_ticks=50),
            process(FakeEngine(), "server"),
        ]
    )
    assert set(found) == {"sender", "receiver"}
    assert found["sender"].ticks_per_frame == 20
    assert found["sender"].ns_per_frame == 10
    assert found["sender"].useful_share == 0.5
    assert found["receiver"].ns_per_frame is None


def test_an_older_record_without_these_parts_is_read() -> None:
    document = json.loads(synthetic_record(synthetic_trial(pairs=2)).model_dump_json())
    for name in ("jain_fairness", "reordered_ratio", "max_reorder_extent"):
        del document["throughput"][name]
    for pair in document["throughput"]["pairs"]:
        del pair["reordering"]
    del document["loops"]
    read = Record.model_validate(document)
    assert read.throughput is not None
    assert read.throughput.jain_fairness is None
    assert read.loops == {}


def test_the_table_has_only_columns_and_rows_that_say_something() -> None:
    nothing = summarise_quality(Records({}, ()))
    fair = summarise_quality(Records({"jain_fairness": [0.9, 1.0]}, range(2)))
    columns = {
        "reordered_ratio": [0.0, 0.5],
        "max_reorder_extent": [0, 7],
        "ipdv_p50_ns": [None] * 2,
    }
    overtaken = summarise_quality(Records(columns, range(2)))
    in_order = summarise_quality(Records(columns, [0]))
    assert quality_table([nothing, in_order]) == ([], {})
    headings, lines = quality_table([nothing, fair, overtaken])
    assert headings == ["reordered", "by up to, frames", "Jain"]
    assert lines == {1: ["-", "-", "0.9500"], 2: ["25 %", "7", "-"]}


def test_recorded_variation_is_in_the_summary(tmp_path: Path) -> None:
    trial = synthetic_trial(dimension="latency", rate_pps=1000)
    record = synthetic_record(trial)
    assert record.latency is not None
    output = delay_variation([latency_of([9000, 9600, 9200], grown=[600], shrunk=[400])])
    saved = Latency(**(record.latency.model_dump() | {"variation": output}))
    loops = loop_costs([ran("client", 1e9, frames=10, useful_ticks=700, idle_ticks=0)])
    whole = record.model_copy(update={"latency": saved, "loops": loops})
    (row,) = summary(write_run(tmp_path, [whole]))
    assert row.quality.ipdv_p50_ns == pytest.approx(400, rel=1e-3)
    assert row.quality.pdv_p99_ns == pytest.approx(600, rel=2e-2)
    assert row.quality.client_ns_per_frame == 70
    assert row.quality.sender_ns_per_frame is None
