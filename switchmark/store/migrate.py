"""Creates and changes the tables of a store in numbered steps: `migrations/NNN_name.sql`.

All missing steps run in one transaction, by one program at a time, so a store has either its old
version or the new one. A step that was applied never changes: the database contains its digest.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.store.address import SCHEMA, StoreAddress
from switchmark.store.errors import no_store
from switchmark.version import __version__

if TYPE_CHECKING:
    from psycopg import Connection

_NAME = re.compile(r"(\d{3})_([a-z0-9_]+)\.sql")
_LOCK = 0x5377_6974_6368  # the key of an advisory lock: "Switch"
_TABLE = f"""
    CREATE SCHEMA IF NOT EXISTS {SCHEMA};
    CREATE TABLE IF NOT EXISTS {SCHEMA}.migrations (
        number integer PRIMARY KEY,
        name text NOT NULL,
        sha256 text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now(),
        applied_by text NOT NULL
    )
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """A step."""

    number: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """Return the digest of its text, in hexadecimal digits."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    """Return all steps of this program, in order. Raises `SwitchmarkError` for a gap."""
    steps = []
    for file in files("switchmark.store").joinpath("migrations").iterdir():
        if match := _NAME.fullmatch(file.name):
            steps.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    steps.sort(key=lambda step: step.number)
    if [step.number for step in steps] != list(range(1, len(steps) + 1)):
        raise SwitchmarkError("switchmark/store/migrations: a number is missing or occurs twice")
    return steps


def migrate(connection: Connection, address: StoreAddress) -> list[Migration]:
    """Bring the database to this program's version; return the steps that were missing.

    Raises `UsageError` if the database is newer than the program."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        connection.execute(_TABLE)
        known = migrations()
        applied = _applied(connection)
        _check_known(applied, known, address)
        due = known[len(applied) :]
        for step in due:
            connection.execute(step.sql.encode())
            connection.execute(
                "INSERT INTO migrations (number, name, sha256, applied_by) VALUES (%s, %s, %s, %s)",
                [step.number, step.name, step.sha256, f"switchmark {__version__}"],
            )
    return due


def check_version(connection: Connection, address: StoreAddress) -> None:
    """Raise `UsageError` if the database is not a store, or newer or older than this program."""
    row = connection.execute("SELECT to_regclass(%s)", [f"{SCHEMA}.migrations"]).fetchone()
    if row is None or row[0] is None:
        raise UsageError(no_store(address))
    known = migrations()
    applied = _applied(connection)
    _check_known(applied, known, address)
    if len(applied) < len(known):
        raise UsageError(
            f"{address}: the store is of an earlier switchmark (step {len(applied)} of "
            f"{len(known)})",
            remedy=f"bring it up to date: switchmark store init {address}",
        )


def _applied(connection: Connection) -> dict[int, tuple[str, str]]:
    rows = connection.execute("SELECT number, name, sha256 FROM migrations ORDER BY number")
    return {number: (name, sha256) for number, name, sha256 in rows.fetchall()}


def _check_known(
    applied: dict[int, tuple[str, str]], known: list[Migration], address: StoreAddress
) -> None:
    newest = max(applied, default=0)
    if newest > len(known):
        raise UsageError(
            f"{address}: the store is of a newer switchmark (step {newest}, this one has "
            f"{len(known)})",
            remedy="upgrade switchmark here",
        )
    for step in known[: len(applied)]:
        if applied.get(step.number) != (step.name, step.sha256):
            raise UsageError(
                f"{address}: step {step.number} ({step.name}) was applied in another form",
                remedy="use the version of switchmark that created this store",
            )
