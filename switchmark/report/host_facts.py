"""Facts of the machine in a report: those of the host, and those that were recorded with trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from switchmark.formatting import first_of
from switchmark.record import Record
from switchmark.results.run_directory import Run


def machine_facts(run: Run, records: Sequence[Record]) -> dict[str, list[tuple[str, str]]]:
    """Return facts of the host, and the provenance of the records: one value if it stayed the same,
    a range or a list if it changed during the run."""
    values_by_key: dict[str, dict[str, None]] = {"engine": dict.fromkeys(engine_versions(records))}
    for record in records:
        for key, value in flatten(record.provenance):
            values_by_key.setdefault(key, {})[value] = None
    host = flatten(run.info.host)
    known = dict(host)
    varied = [(key, _all_values(list(values))) for key, values in values_by_key.items() if values]
    return {
        "Host at the start of the run": host,
        "As recorded with the trials": [item for item in varied if known.get(item[0]) != item[1]],
    }


def engine_versions(records: Sequence[Record]) -> list[str]:
    """Return the versions of the traffic engines that measured, as the engines reported them."""
    versions = (
        engine.ready.get("engine_version") for record in records for engine in record.engines
    )
    return sorted({str(engine) for engine in versions if engine})


def _all_values(values: Sequence[str]) -> str:
    if len(values) == 1:
        return values[0]
    try:
        numbers = sorted(float(value) for value in values)
        return f"{numbers[0]:g} to {numbers[-1]:g} (changed during the run)"
    except ValueError:
        return f"{first_of(values, 4, '; ')} (changed during the run)"


def flatten(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested values as (path, text) pairs: `cpu.model`, `Xeon ...`. Lists stay on a line."""
    pairs: list[tuple[str, str]] = []
    for key, item in value.items():
        path = f"{prefix}{key}"
        if isinstance(item, Mapping):
            pairs += flatten(item, f"{path}.")
        elif isinstance(item, list) and any(isinstance(element, Mapping) for element in item):
            numbered = {str(i): element for i, element in enumerate(item)}
            pairs += flatten(numbered, f"{path}.")
        elif isinstance(item, list):
            pairs.append((path, ", ".join(map(str, item)) or "none"))
        else:
            pairs.append((path, "unknown" if item is None else str(item)))
    return pairs
