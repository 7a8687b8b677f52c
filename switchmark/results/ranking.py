"""The figure by which a row is sorted, and the baseline that belongs to a row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from switchmark.model.parameter_table import load_of
from switchmark.record.page_sizes import are_compatible
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate


def headline(row: SummaryRow) -> Estimate:
    """Return the main figure of a row: the mean of forwarded frames/s, or of the throughput of an
    application in its unit; or the median over repetitions of the median round trip in ns."""
    if row.latency is not None:
        return row.latency.median_ns
    if row.transfer is not None:
        return row.transfer.completed_per_s
    assert row.throughput is not None, "a finished row has a throughput or a latency"
    return row.throughput.forwarded_pps


def baseline_of(row: SummaryRow, rows: Iterable[SummaryRow]) -> SummaryRow | None:
    """Return the baseline of a row; None if it was not measured, and for a baseline."""
    if row.is_wire:
        return None
    baselines = (other for other in rows if other.is_wire and other.finished and not other.method)
    conditions = _baseline_conditions(row)
    return next(
        (
            other
            for other in baselines
            if are_compatible(other.page_size_kib, row.page_size_kib)
            and _baseline_conditions(other) == conditions
        ),
        None,
    )


def _baseline_conditions(row: SummaryRow) -> dict[str, Any]:
    """Return the conditions that a row and its baseline share: the load, the ports, the hosts, and
    the cores that the switch uses and that the baseline leaves idle."""
    switch_cores = row.trial.switch_cores if row.switch_has_cores else 0
    spare = row.trial.spare_cores if row.is_wire else switch_cores
    ends = {"port_kind": row.port_kind, "io": row.io}
    elsewhere = row.bare_wire.model_dump(mode="json") if row.bare_wire else {}
    return load_of(row.trial) | ends | elsewhere | {"spare_cores": spare}


def rank(row: SummaryRow) -> float:
    """Return the key by which rows are sorted, the best first; 0 for methods of many trials."""
    if row.method is not None:
        return 0.0
    value = headline(row).mean
    return value if row.latency is not None else -value
