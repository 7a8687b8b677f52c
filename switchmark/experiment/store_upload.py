"""Sends a campaign's records to a store, between its trials.

Records are written to the results folder first. If the store cannot be reached, they are sent at
the end of the campaign, or by `switchmark store push`. Nothing is sent during a measurement.
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
        """Raise UsageError if there is no store at the address. A store that cannot be reached is
        tried again at the end."""
        self._address = address
        self._say = say
        self._folder: Path | None = None
        self._begun = self._away = False
        try:
            with open_store(address):
                pass
        except StoreAwayError as error:
            self._set_away(error)

    def opened(self, folder: Path) -> None:
        """Note the folder of the campaign."""
        self._folder = folder

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:
        """Do nothing before a measurement."""

    def live(self, forwarded_pps: float | None) -> None:
        """Do nothing during a measurement."""

    def trial_ended(self, record: Record) -> None:
        """Send the record. After a failure, the campaign does not wait for the store again."""
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
            self._set_away(error)

    def finish(self) -> bool:
        """Send the remaining records. Return True if all records are stored."""
        if self._folder is None:
            return True
        try:
            with open_store(self._address) as store:
                push_folder(store, self._folder)
        except SwitchmarkError as error:
            self._say(
                f"not all records are in the store ({error}); they are in {self._folder}; send "
                "them with: switchmark store push "
                f"{shlex.join([str(self._folder), '--store', str(self._address)])}"
            )
            return False
        self._say(f"stored as {self._folder.name} in {self._address}")
        return True

    def _set_away(self, error: SwitchmarkError) -> None:
        self._away = True
        self._say(f"cannot reach the store ({error}); records stay in the results folder")
