"""Several observers of one campaign, each told the same."""

from __future__ import annotations

from collections.abc import Iterable

from switchmark.experiment.campaign import Observer
from switchmark.record import Record
from switchmark.trial.plan import TrialPlan


class Observers:
    """An observer that passes everything on to others, in their order."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = tuple(observers)

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:
        """See `Observer`."""
        for one in self._observers:
            one.trial_begins(number, total, plan, left_s)

    def live(self, forwarded_pps: float | None) -> None:
        """See `Observer`."""
        for one in self._observers:
            one.live(forwarded_pps)

    def trial_ended(self, record: Record) -> None:
        """See `Observer`."""
        for one in self._observers:
            one.trial_ended(record)
