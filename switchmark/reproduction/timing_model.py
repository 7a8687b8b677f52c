"""Learns the overhead of trials from earlier records, for the planning of budgets."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from switchmark.campaign.overhead import Around
from switchmark.errors import SwitchmarkError
from switchmark.method.registry import usual_time_s
from switchmark.model.choices import PLAIN
from switchmark.model.trial import Trial
from switchmark.record import Record
from switchmark.results.columns import Column
from switchmark.results.query import select
from switchmark.results.run_directory import open_run
from switchmark.trial.plan import TrialPlan

MOST = 40  # largest number of records that are read of a run
_COLUMNS = (
    Column("started_at", "/started_at"),
    Column("trial", "/trial"),
    Column("measure_s", "/timing/measure_s", "DOUBLE"),
    Column("overhead_s", "/timing/overhead_s", "DOUBLE"),
)


def learn_from(around: Around, runs: Iterable[Path]) -> None:
    """Learn from the records of these runs. Unreadable records are skipped; the page names them."""
    for directory in runs:
        with suppress(SwitchmarkError):
            some = open_run(directory).file_names()[:MOST]
            table = select(some, _COLUMNS).drop_nulls()
            for row in table.sort("started_at").iter_rows(named=True):
                with suppress(SwitchmarkError, ValueError):  # a record of another version
                    trial = Trial.model_validate_json(row["trial"])
                    around.learn(trial, _around_s(trial, row["measure_s"], row["overhead_s"]))


class Learner:
    """An observer of a campaign that learns from each trial as it ends."""

    def __init__(self, around: Around) -> None:
        self._around = around

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:
        """See `Observer`."""

    def live(self, forwarded_pps: float | None) -> None:
        """See `Observer`."""

    def trial_ended(self, record: Record) -> None:
        """See `Observer`."""
        trial = record.trial
        if (took := record.timing) is not None:
            self._around.learn(trial, _around_s(trial, took.measure_s, took.overhead_s))


def _around_s(trial: Trial, measure_s: float, overhead_s: float) -> float:
    """Return the overhead of a trial. For a method that searches, this is the recorded overhead."""
    more_s = measure_s - usual_time_s(trial) if trial.method == PLAIN else 0.0
    return overhead_s + max(0.0, more_s)
