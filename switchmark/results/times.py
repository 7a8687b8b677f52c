"""All times of the trials of a row, in one histogram."""

from __future__ import annotations

from switchmark.record import Record
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run
from switchmark.statistics.histogram import Histogram


def times_of(run: Run, row: SummaryRow) -> Histogram | None:
    """Return the round trips of a latency trial, or the times of a method at one load, merged over
    the repetitions; None if there are none. Raises CorruptResultError."""
    if row.latency is not None and row.latency.times is not None:
        return row.latency.times
    records = map(run.read, row.trial_ids)
    parts = [times for times in map(_times, records) if times is not None]
    return Histogram.merged(parts) if parts else None


def _times(record: Record) -> Histogram | None:
    if record.latency is not None:
        return record.latency.histogram
    if record.method is not None and len(record.method.latency) == 1:
        return record.method.latency[0].latency.histogram
    return None
