"""Repeats a trial that other programs disturbed, as often as the campaign permits.

The load of the other programs decides which measurement counts, and never the figure, since a
choice by the figure would bias the result. The record has the figures of all measurements.
"""

from __future__ import annotations

from collections.abc import Callable

from switchmark.errors import STARVED
from switchmark.record import Attempt, Record
from switchmark.trial.cost import hosts_used

DISTURBED = {"disturbed", "throttled"}


def retry_disturbed(measure: Callable[[], Record], more: int) -> Record:
    """Return the record of the first undisturbed measurement or, after `more` repetitions, of the
    least disturbed one. A failed measurement is only repeated if other programs used the core of
    its engine."""
    records = [measure()]
    while len(records) <= more and is_disturbed(records[-1]):
        records.append(measure())
    if len(records) == 1:
        return records[0]
    best = min(records, key=lambda r: (r.status == "failed", is_disturbed(r), _other_cores(r)))
    return best.model_copy(update={"attempts": [_attempt(record) for record in records]})


def is_disturbed(record: Record) -> bool:
    """Return True if other programs or other guests of the hypervisor disturbed the measurement, or
    made it fail, or if a CPU quota was used up."""
    if record.status == "failed":
        return STARVED in record.message
    return record.verdict is not None and not DISTURBED.isdisjoint(record.verdict.marks)


def _other_cores(record: Record) -> float:
    """Return the number of cores that other programs used, on the more disturbed host."""
    if record.cpu is None:
        return 0.0
    return max(host.taken_cores for host in hosts_used(record.far_host, record.cpu))


def _attempt(record: Record) -> Attempt:
    figure, unit = (record.status == "finished" and record.headline) or (None, "")
    return Attempt(
        started_at=record.started_at,
        figure=figure,
        unit=unit,
        others_cores=_other_cores(record),
        disturbed=is_disturbed(record),
        message=record.message,
    )
