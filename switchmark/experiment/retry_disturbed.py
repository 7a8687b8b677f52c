"""A trial that other programs disturbed is measured again, as often as the campaign allows.

Which of the measurements is kept is decided by how busy the others were, never by the figure: that
would choose the results one likes. All figures are in the record that is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from switchmark.errors import STARVED
from switchmark.record import Attempt, Record
from switchmark.trial.cost import hosts_used

DISTURBED = {"disturbed", "throttled"}


def retry_disturbed(measure: Callable[[], Record], more: int) -> Record:
    """The record of the first undisturbed measurement or, where `more` repeats brought none, of the
    least disturbed one. A measurement that fails is not repeated, unless
    other programs kept its engine from its core."""
    tried = [measure()]
    while len(tried) <= more and is_disturbed(tried[-1]):
        tried.append(measure())
    if len(tried) == 1:
        return tried[0]
    kept = min(tried, key=lambda one: (one.status == "failed", is_disturbed(one), _others(one)))
    return kept.model_copy(update={"attempts": [_attempt(one) for one in tried]})


def is_disturbed(record: Record) -> bool:
    """Return True if other programs, or other guests of the hypervisor, were busy meanwhile, or
    kept an engine from its core until there was nothing to measure, or a CPU quota was used up."""
    if record.status == "failed":
        return STARVED in record.message
    return record.verdict is not None and not DISTURBED.isdisjoint(record.verdict.marks)


def _others(record: Record) -> float:
    """The cores that others used, on the host where they used more."""
    if record.cpu is None:
        return 0.0
    return max(one.taken_cores for one in hosts_used(record.far_host, record.cpu))


def _attempt(record: Record) -> Attempt:
    figure, unit = (record.status == "finished" and record.headline) or (None, "")
    return Attempt(
        started_at=record.started_at,
        figure=figure,
        unit=unit,
        others_cores=_others(record),
        disturbed=is_disturbed(record),
        message=record.message,
    )
