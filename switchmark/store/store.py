"""A store: the index and the objects together. Objects are written before their rows.

A crash between the two leaves an object without a row, which harms nothing and is counted by
`switchmark store check`; a row without its object never exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from switchmark.errors import UsageError
from switchmark.record import Record
from switchmark.results.run_info import RunInfo
from switchmark.store.address import StoreAddress, is_run_name
from switchmark.store.database import connected
from switchmark.store.errors import CorruptStoreError
from switchmark.store.index import Guard, IndexedAttempt, add_attempts, add_run
from switchmark.store.migrate import Migration, migrate
from switchmark.store.names import RUN_FILE, digest, record_object, run_file_object
from switchmark.store.objects import Objects, check_objects_address, open_objects

if TYPE_CHECKING:
    from psycopg import Connection


@dataclass(frozen=True, slots=True)
class Store:
    """An open store; `open_store` opens one."""

    address: StoreAddress
    connection: Connection
    objects: Objects

    def add_run(self, name: str, files: Mapping[str, bytes]) -> int:
        """Store a run's description: `run.json` and the files beside it; returns its number.

        May be repeated, and files added. Raises StoreConflictError where another run of this name
        is there."""
        if not is_run_name(name):
            raise UsageError(f"{name!r}: a run of this name cannot be stored; rename its folder")
        for file in files:
            if not RUN_FILE.fullmatch(file):
                raise UsageError(f"{name}/{file}: is no file of a run")
        info = RunInfo.model_validate_json(files["run.json"])
        for file, content in files.items():
            self.objects.put(run_file_object(name, file, digest(content)), content)
        return add_run(self.connection, name, info, files)

    def run_number(self, name: str) -> int:
        """The number of a stored run. Raises UsageError where there is none of this name."""
        row = self.connection.execute("SELECT run FROM runs WHERE name = %s", [name]).fetchone()
        if row is None:
            raise UsageError(f"{self.address}: no run {name} there")
        return int(row[0])

    def add_record(
        self,
        run_name: str,
        content: bytes,
        attempt: int,
        *,
        block: int | None = None,
        testbed: str | None = None,
        guard: Guard | None = None,
    ) -> None:
        """Store one record, the bytes of its file, as this attempt at its trial.

        `guard` is called in the transaction that indexes it. Raises StoreConflictError, or what the
        guard raises: then nothing is indexed."""
        try:
            record = Record.model_validate_json(content)
        except ValidationError as error:
            raise CorruptStoreError(f"{run_name}: not stored: is no record") from error
        row = IndexedAttempt.of(record, content, attempt, block=block, testbed=testbed)
        name = record_object(run_name, row.trial_id, attempt, row.sha256)
        self.objects.put(name, content)
        add_attempts(self.connection, self.run_number(run_name), [row], guard)


@contextmanager
def open_store(address: StoreAddress) -> Iterator[Store]:
    """A store for the time of the block. Raises UsageError, StoreAwayError in one line."""
    with connected(address) as connection:
        yield store_of(address, connection)


def store_of(address: StoreAddress, connection: Connection) -> Store:
    """The store of a connection that is open already."""
    place = _place_of_objects(connection)
    if place is None:
        raise UsageError(
            f"{address}: where its record files are is not known; run: switchmark store init "
            f"{address} --objects s3://BUCKET/PREFIX"
        )
    return Store(address, connection, open_objects(place))


def _place_of_objects(connection: Connection) -> str | None:
    row = connection.execute("SELECT value FROM settings WHERE name = 'objects'").fetchone()
    return None if row is None else str(row[0])


def init_store(address: StoreAddress, objects: str | None) -> tuple[list[Migration], str]:
    """Set a store up, or bring it up to date; returns the steps that were due, and the place of the
    objects. May be repeated. Raises UsageError where the place would change."""
    wanted = None if objects is None else check_objects_address(objects)
    if wanted is not None:
        open_objects(wanted).check()
    with connected(address, checked=False) as connection, connection.transaction():
        done = migrate(connection, address)
        if wanted is not None:
            connection.execute(
                "INSERT INTO settings (name, value) VALUES ('objects', %s) "
                "ON CONFLICT (name) DO NOTHING",
                [wanted],
            )
        place = _place_of_objects(connection)
        if place is None:
            raise UsageError(
                "--objects: say where the record files go: s3://BUCKET/PREFIX or a folder"
            )
        if wanted is not None and place != wanted:
            raise UsageError(
                f"--objects {objects}: the record files of this store are in {place}; copy them, "
                "then change it in the database: UPDATE switchmark.settings ..."
            )
    return done, place
