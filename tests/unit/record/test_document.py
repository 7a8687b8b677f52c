"""The record refuses contradictions, and the published schema is right."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from switchmark.engine import events
from switchmark.record import Interval, Record, schema
from switchmark.record.runs import MAY_FALL
from tests.unit.records import synthetic_failure, synthetic_record, synthetic_trial


def changed(path: str, value: Any, dimension: str = "throughput") -> dict[str, Any]:
    """Return a valid record's document with one value changed."""
    rate_pps = None if dimension == "throughput" else 10_000
    trial = synthetic_trial(dimension=dimension, rate_pps=rate_pps)
    document = synthetic_record(trial).model_dump(mode="json")
    place: Any = document
    *parents, last = path.split(".")
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place[name]
    place[last] = value
    return document


def test_a_sound_record_survives_a_round_trip() -> None:
    record = synthetic_record()
    assert Record.model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("message", "but why", "failed record needs a message"),
        ("status", "failed", "failed record needs a message"),
        ("throughput", None, "lacks throughput"),
        ("verdict", None, "lacks verdict"),
        ("placement", None, "lacks placement"),
        ("limit", None, "lacks limit"),
        ("throughput.forwarded_pps", -1.0, "greater than or equal to 0"),
        ("throughput.offered_pps", 1e12, "pairs sum to"),
        ("throughput.forwarded_l2_bps", 1.0, "frames/s of 64 B make"),
        ("throughput.forwarded_l1_bps", 1.0, "frames/s of 84 B make"),
        ("throughput.loss_ratio", 1.2, "less than or equal to 1"),
        ("started_at", "2025-11-21 12:00:00", "not a UTC time"),
        ("started_at", "2025-11-21T12:00:00+02:00", "not a UTC time"),
        ("ended_at", "2025-11-21T11:00:00Z", "before started_at"),
        ("trial_id", "XYZ", "pattern"),
        ("schema_version", 2, "Input should be 1"),
        ("verdict.explanations", [], "1 marks but 0 explanations"),
        ("trim.kept_to_ns", 0, "before kept_from_ns"),
        ("engines.0.intervals", [{"index": -1}], "greater than or equal to 0"),
        ("surprise", 1, "Extra inputs"),
    ],
)
def test_contradictions_are_refused(path: str, value: Any, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Record.model_validate(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("latency", None, "lacks latency"),
        ("latency.count", 0, "without one answer"),
        ("latency.count", 3999, "has 4000 samples, but count is 3999"),
        ("latency.histogram", "AAAA", "not an HdrHistogram"),
        ("latency.mean_ns", 1e12, "not between min and max"),
        ("latency.min_ns", 1e12, "above max_ns"),
        ("latency.percentiles_ns", {"50": 10.0, "90": 9.0}, "below a lower percentile"),
        ("latency.percentiles_ns", {"101": 10.0}, "not between 0 and 100"),
    ],
)
def test_latency_contradictions_are_refused(path: str, value: Any, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Record.model_validate(changed(path, value, "latency"))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_are_finite_everywhere(bad: float) -> None:
    for path in ("throughput.offered_pps", "provenance", "engines.0.result"):
        value: Any = bad if path == "throughput.offered_pps" else {"load": [{"one": bad}]}
        with pytest.raises(ValidationError, match="finite"):
            Record.model_validate(changed(path, value))


def test_a_failed_record_needs_no_figures_but_a_message() -> None:
    assert synthetic_failure().throughput is None
    with pytest.raises(ValidationError, match="needs a message"):
        synthetic_failure(message="  ")


def test_interval_is_recorded_if_the_engine_may_print_it() -> None:
    path = Path(events.__file__).with_name("events.schema.json")
    counters = json.loads(path.read_text())["$defs"]["interval"]["properties"]
    signed = [name for name, of in counters.items() if of.get("type") == "integer"]
    assert sorted(signed) == sorted(MAY_FALL)
    Interval(index=0, t_ns=1, duration_ns=1, counters=dict.fromkeys(signed, -1))
    with pytest.raises(ValidationError, match="tx_offered is -1, below 0"):
        Interval(index=0, t_ns=1, duration_ns=1, counters={"tx_offered": -1})


def test_the_files_in_docs_are_up_to_date() -> None:
    assert schema.main(["--check"]) == 0, "run: python -m switchmark.record.schema"


def test_outdated_docs_are_detected_and_renewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / schema.SCHEMA_FILE).write_text(json.dumps({"title": "Record"}))
    text = (schema.DOCS / schema.RESULTS_FILE).read_text()
    (tmp_path / schema.RESULTS_FILE).write_text(text.replace("| `flooding` |", "| `wet` |"))
    assert schema.main(["--check"], tmp_path) == 1
    stderr = capsys.readouterr().err
    assert schema.SCHEMA_FILE in stderr
    assert schema.RESULTS_FILE in stderr
    assert schema.main([], tmp_path) == 0
    assert schema.main(["--check"], tmp_path) == 0
    assert (tmp_path / schema.RESULTS_FILE).read_text() == text
    (tmp_path / schema.RESULTS_FILE).write_text("# all gone")
    with pytest.raises(ValueError, match="comments around the table"):
        schema.main([], tmp_path)
