"""Sends a campaign's records to a store, between its trials.

The folder comes first: a record that the store cannot take now lies there, and goes with the last
push, or with `switchmark store push`. While frames flow nothing is sent.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from switchmark.errors import SwitchmarkError
from switchmark.record import Record
from switchmark.store.address import StoreAddress
from switchmark.store.errors import StoreAwayError
from switchmark.store.push import push_folder, push_record
from switchmark.store.store import open_store
from switchmark.trial.plan import TrialPlan


class StoreUpload:
    """An observer that stores every record after its trial."""

    def __init__(self, address: StoreAddress, say: Callable[[str], None]) -> None:
        """Raises UsageError where no store is set up there; one that cannot be reached is tried
        again later."""
        self._address = address
        self._say = say
        self._folder: Path | None = None
        self._begun = self._away = False
        try:
            with open_store(address):
                pass
        except StoreAwayError as error:
            self._is_away(error)

    def opened(self, folder: Path) -> None:
        """The campaign writes into this folder."""
        self._folder = folder

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:
        """Do nothing: frames flow soon."""

    def live(self, forwarded_pps: float | None) -> None:
        """Do nothing: frames flow."""

    def trial_ended(self, record: Record) -> None:
        """Store the record, unless the store could not be reached before: a campaign does not wait
        for it again."""
        if self._away or self._folder is None:
            return
        try:
            with open_store(self._address) as store:
                if not self._begun:
                    push_folder(store, self._folder)
                    self._begun = True
                else:
                    push_record(store, self._folder, record.trial_id)
        except SwitchmarkError as error:
            self._is_away(error)

    def finish(self) -> bool:
        """Store what is not stored yet; returns whether everything is."""
        if self._folder is None:
            return True
        try:
            with open_store(self._address) as store:
                push_folder(store, self._folder)
        except SwitchmarkError as error:
            self._say(
                f"not all is stored ({error}); all is kept in {self._folder}, later: switchmark "
                f"store push {shlex.join([str(self._folder), '--store', str(self._address)])}"
            )
            return False
        self._say(f"stored as {self._folder.name} in {self._address}")
        return True

    def _is_away(self, error: SwitchmarkError) -> None:
        self._away = True
        self._say(f"the store takes nothing now ({error}); records are kept in the results folder")
