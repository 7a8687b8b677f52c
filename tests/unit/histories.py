"""Runs of many nights, for tests of histories."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from switchmark.record import Record
from tests.unit.records import synthetic_record, synthetic_trial, write_run

FIRST_NIGHT = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
HOST = {"hostname": "lab1", "cpu_model": "a model", "architecture": "x86_64", "cpus": [{"id": 0}]}


def scaled(record: Record, rate_pps: float) -> Record:
    """Return a throughput record at another rate."""
    loads = record.throughput
    assert loads is not None
    factor = rate_pps / loads.forwarded_pps
    names = ("offered_pps", "forwarded_pps", "forwarded_l2_bps", "forwarded_l1_bps")
    loads_scaled = {name: getattr(loads, name) * factor for name in names}
    of_pair = {name: loads_scaled[name] for name in ("offered_pps", "forwarded_pps")}
    pairs = [one.model_copy(update=of_pair) for one in loads.pairs]
    update = {"throughput": loads.model_copy(update={**loads_scaled, "pairs": pairs})}
    return record.model_copy(update=update)


BUILD = {
    "compiler": "gcc 12.2.0", "optimisation": "3", "sanitizers": None, "coverage": False,
    "cpu": "znver3", "options": None, "dpdk": "22.11.11", "build_id": "00", "fast": True,
}  # fmt: skip


def built(record: Record, build: Mapping[str, Any] | None) -> Record:
    """Return a record whose engines report this build."""
    if build is None:
        return record
    engines = [
        one.model_copy(update={"ready": {**one.ready, "build": dict(build)}})
        for one in record.engines
    ]
    return record.model_copy(update={"engines": engines})


def night(
    folder: Path,
    number: int,
    rates_pps: Sequence[float],
    version: str = "1.0",
    host: Mapping[str, Any] = HOST,
    details: Mapping[str, str] | None = None,
    engine_build: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """The run of one night, with a repetition for each rate."""
    records = []
    for repetition, rate_pps in enumerate(rates_pps):
        trial = synthetic_trial(repetition=repetition, **changes)
        record = synthetic_record(
            trial, number=repetition, provenance={"synthetic": True, **host},
            switch_details={"version": version, **(details or {})},
        )  # fmt: skip
        records.append(scaled(built(record, engine_build), rate_pps))
    return dated(write_run(folder, records, campaign="nightly"), number, host)


def dated(run: Path, number: int, host: Mapping[str, Any] = HOST) -> Path:
    """Give the run the date of that night, and a host."""
    description = json.loads((run / "run.json").read_text())
    description["started_at"] = (FIRST_NIGHT + timedelta(days=number)).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )
    description["host"] = dict(host)
    (run / "run.json").write_text(json.dumps(description))
    return run


def nights(
    folder: Path, levels: Sequence[float], versions: Sequence[str], seed: int = 1, **changes: Any
) -> list[Path]:
    """Return a run for each night, with three repetitions each; runs deviate by 1 %, repetitions by
    0.3 %."""
    draw = random.Random(seed)
    runs = []
    for number, (level, version) in enumerate(zip(levels, versions, strict=True)):
        rate = 1e6 * level * draw.gauss(1, 0.01)
        rates = [rate * draw.gauss(1, 0.003) for _ in range(3)]
        runs.append(night(folder, number, rates, version, **changes))
    return runs
