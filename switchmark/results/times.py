"""All times that a row's trials have measured, as one histogram."""

from __future__ import annotations

from switchmark.record import Record
from switchmark.results.rows import SummaryRow
from switchmark.results.store import Run
from switchmark.statistics.histogram import Histogram


def times_of(run: Run, row: SummaryRow) -> Histogram | None:
    """Round trips of a latency trial, or the times of a method that takes them at one load, merged
    over the repetitions; None where there are none. Raises CorruptResultError."""
    if row.latency is not None and row.latency.times is not None:
        return row.latency.times
    parts = [one for one in map(_times, map(run.read, row.trial_ids)) if one is not None]
    return Histogram.merged(parts) if parts else None


def _times(record: Record) -> Histogram | None:
    if record.latency is not None:
        return record.latency.histogram
    if record.method is not None and len(record.method.latency) == 1:
        return record.method.latency[0].latency.histogram
    return None
