"""Makes and changes a store's tables by numbered steps: `migrations/NNN_name.sql`, in order.

All steps that are due run in one transaction, and one program at a time: a store is either at its
old version or at its new one. A step that was applied never changes; its digest is kept.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.store.address import SCHEMA, StoreAddress
from switchmark.store.errors import not_set_up
from switchmark.version import __version__

if TYPE_CHECKING:
    from psycopg import Connection

_NAME = re.compile(r"(\d{3})_([a-z0-9_]+)\.sql")
_LOCK = 0x5377_6974_6368  # of PostgreSQL's advisory locks: "Switch"
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
    """One step."""

    number: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """The digest of its text, in hexadecimal digits."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    """All steps that this program knows, in order. Raises SwitchmarkError for a gap."""
    found = []
    for file in files("switchmark.store").joinpath("migrations").iterdir():
        if match := _NAME.fullmatch(file.name):
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    found.sort(key=lambda one: one.number)
    if [one.number for one in found] != list(range(1, len(found) + 1)):
        raise SwitchmarkError("switchmark/store/migrations: the numbers have a gap, or one twice")
    return found


def migrate(connection: Connection, address: StoreAddress) -> list[Migration]:
    """Bring the database to this program's version; returns the steps that were due.

    Raises UsageError where the database is newer than the program."""
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
    """Raise UsageError where the database is newer or older than this program, or none of ours."""
    row = connection.execute("SELECT to_regclass(%s)", [f"{SCHEMA}.migrations"]).fetchone()
    if row is None or row[0] is None:
        raise UsageError(not_set_up(address))
    known = migrations()
    applied = _applied(connection)
    _check_known(applied, known, address)
    if len(applied) < len(known):
        raise UsageError(
            f"{address}: the store is of an earlier switchmark (step {len(applied)} of "
            f"{len(known)}); bring it up to date: switchmark store init {address}"
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
            f"{address}: the store is of a newer switchmark (step {newest}, this one knows "
            f"{len(known)}); upgrade switchmark here"
        )
    for step in known[: len(applied)]:
        if applied.get(step.number) != (step.name, step.sha256):
            raise UsageError(
                f"{address}: step {step.number} ({step.name}) was applied in another form; the "
                "store is of a switchmark that was changed: use the one that made it"
            )
