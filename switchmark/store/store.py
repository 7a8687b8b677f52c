"""A store: the index and the objects together. Objects are written before their rows.

A crash between the two leaves an object without a row, which has no effect; `switchmark store
check` counts these. A row without an object never exists.
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
        """Store `run.json` and the other files of a run except records; return its number.

        It may be repeated with more files. Raises `StoreConflictError` if there is another run of
        this name."""
        if not is_run_name(name):
            raise UsageError(
                f"{name!r}: a run of this name cannot be stored", remedy="rename its directory"
            )
        for file in files:
            if not RUN_FILE.fullmatch(file):
                raise UsageError(f"{name}/{file}: is not a file of a run")
        info = RunInfo.model_validate_json(files["run.json"])
        for file, content in files.items():
            self.objects.put(run_file_object(name, file, digest(content)), content)
        return add_run(self.connection, name, info, files)

    def run_number(self, name: str) -> int:
        """Return the number of a stored run. Raises `UsageError` if there is no such run."""
        row = self.connection.execute("SELECT run FROM runs WHERE name = %s", [name]).fetchone()
        if row is None:
            raise UsageError(f"{self.address}: has no run {name}")
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
        """Store a record, given as the bytes of its file, as this attempt of its trial.

        `guard` is called in the transaction that indexes it. Raises `StoreConflictError`, and the
        errors of the guard; then nothing is indexed."""
        try:
            record = Record.model_validate_json(content)
        except ValidationError as error:
            raise CorruptStoreError(f"{run_name}: is not stored: it is not a record") from error
        row = IndexedAttempt.of(record, content, attempt, block=block, testbed=testbed)
        name = record_object(run_name, row.trial_id, attempt, row.sha256)
        self.objects.put(name, content)
        add_attempts(self.connection, self.run_number(run_name), [row], guard)


@contextmanager
def open_store(address: StoreAddress) -> Iterator[Store]:
    """Open a store for the block. Raises `UsageError`, `StoreAwayError`."""
    with connected(address) as connection:
        yield store_of(address, connection)


def store_of(address: StoreAddress, connection: Connection) -> Store:
    """Return the store of an open connection."""
    place = _place_of_objects(connection)
    if place is None:
        raise UsageError(
            f"{address}: the place of its record files is not set",
            remedy=f"run: switchmark store init {address} --objects s3://BUCKET/PREFIX",
        )
    return Store(address, connection, open_objects(place))


def _place_of_objects(connection: Connection) -> str | None:
    row = connection.execute("SELECT value FROM settings WHERE name = 'objects'").fetchone()
    return None if row is None else str(row[0])


def init_store(address: StoreAddress, objects: str | None) -> tuple[list[Migration], str]:
    """Set a store up, or bring it up to date; return the missing steps and the place of objects.

    It may be repeated. Raises `UsageError` if the place would change."""
    requested = None if objects is None else check_objects_address(objects)
    if requested is not None:
        open_objects(requested).check()
    with connected(address, checked=False) as connection, connection.transaction():
        done = migrate(connection, address)
        if requested is not None:
            connection.execute(
                "INSERT INTO settings (name, value) VALUES ('objects', %s) "
                "ON CONFLICT (name) DO NOTHING",
                [requested],
            )
        place = _place_of_objects(connection)
        if place is None:
            raise UsageError(
                "--objects is missing", remedy="give s3://BUCKET/PREFIX or a shared directory"
            )
        if requested is not None and place != requested:
            raise UsageError(
                f"--objects {objects}: the record files of this store are in {place}",
                remedy="copy them, then change the place in the database: UPDATE "
                "switchmark.settings ...",
            )
    return done, place
