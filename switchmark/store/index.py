"""Writes the index: runs with their files, and attempts, each in one transaction.

All functions may be repeated: existing rows are compared, and never replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from switchmark.model.value import parse_utc
from switchmark.record import Record
from switchmark.results.columns import COLUMNS_DIGEST, columns_of
from switchmark.results.run_info import RunInfo
from switchmark.store.errors import StoreConflictError
from switchmark.store.names import digest

if TYPE_CHECKING:
    from psycopg import Connection

Guard = Callable[
    ["Connection"], None
]  # called first in the transaction; may raise to store nothing


@dataclass(frozen=True, slots=True)
class IndexedAttempt:
    """The row of a record."""

    trial_id: str
    attempt: int
    status: str
    switch: str
    started_at: str
    sha256: bytes
    size_bytes: int
    columns: dict[str, Any]
    block: int | None = None
    testbed: str | None = None

    @classmethod
    def of(
        cls,
        record: Record,
        content: bytes,
        attempt: int,
        *,
        block: int | None = None,
        testbed: str | None = None,
    ) -> IndexedAttempt:
        """Return the row of this record, whose file has this content."""
        return cls(
            trial_id=record.trial_id,
            attempt=attempt,
            status=record.status,
            switch=record.trial.switch,
            started_at=record.started_at,
            sha256=digest(content),
            size_bytes=len(content),
            columns=columns_of(record.model_dump(mode="json")),
            block=block,
            testbed=testbed,
        )


def add_run(connection: Connection, name: str, info: RunInfo, files: Mapping[str, bytes]) -> int:
    """Index a run and its files other than records; return its number. Files may be added later.

    Raises `StoreConflictError` if a file of this name has another content."""
    from psycopg.types.json import Jsonb

    with connection.transaction():
        connection.execute(
            "INSERT INTO runs (name, campaign, started_at, info) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (name) DO NOTHING",
            [
                name,
                without_nul(info.campaign),
                parse_utc(info.started_at),
                Jsonb(without_nul(info.model_dump(mode="json"))),
            ],
        )
        row = connection.execute("SELECT run FROM runs WHERE name = %s", [name]).fetchone()
        assert row is not None
        run = int(row[0])
        for file, content in files.items():
            connection.execute(
                "INSERT INTO files (run, name, sha256, bytes) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (run, name) DO NOTHING",
                [run, file, digest(content), len(content)],
            )
        file_rows = connection.execute("SELECT name, sha256 FROM files WHERE run = %s", [run])
        stored = {file: bytes(sha256) for file, sha256 in file_rows.fetchall()}
        for file, content in files.items():
            if stored[file] != digest(content):
                raise StoreConflictError(
                    f"{name}: {file} is stored with another content; is this another run with "
                    "the same name?"
                )
    return run


def add_blocks(connection: Connection, run: int, blocks: Sequence[Sequence[str]]) -> None:
    """Index the blocks of a run, each with the ids of its trials; the first is block 0."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO blocks (run, block, trial_ids) VALUES (%s, %s, %s) "
            "ON CONFLICT (run, block) DO NOTHING",
            [(run, number, list(ids)) for number, ids in enumerate(blocks)],
        )


def add_attempts(
    connection: Connection,
    run: int,
    attempts: Sequence[IndexedAttempt],
    guard: Guard | None = None,
) -> None:
    """Index attempts whose objects are written: all of them or none.

    `guard` checks in the same transaction that this is still allowed (a lease). Raises
    `StoreConflictError` if an attempt has another record, or the trial has finished."""
    import psycopg
    from psycopg.types.json import Jsonb

    try:
        with connection.transaction(), connection.cursor() as cursor:
            if guard is not None:
                guard(connection)
            cursor.executemany(
                """
                INSERT INTO attempts (run, trial_id, attempt, status, switch, started_at, sha256,
                                      bytes, columns_of, columns, block, testbed)
                VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
                ON CONFLICT (run, trial_id, attempt) DO NOTHING
                """,
                [
                    (
                        *(run, row.trial_id, row.attempt, row.status, without_nul(row.switch)),
                        *(parse_utc(row.started_at), row.sha256, row.size_bytes, COLUMNS_DIGEST),
                        *(Jsonb(without_nul(row.columns)), row.block, row.testbed),
                    )
                    for row in attempts
                ],
            )
            stored = stored_attempts(connection, run, [row.trial_id for row in attempts])
            for row in attempts:
                if stored[row.trial_id, row.attempt] != row.sha256:
                    raise StoreConflictError(
                        f"trial {row.trial_id}: attempt {row.attempt} is stored with another record"
                    )
    except psycopg.errors.UniqueViolation as error:
        raise StoreConflictError(
            f"a trial has finished in the store before: {error.diag.message_detail}"
        ) from error


def stored_attempts(
    connection: Connection, run: int, trial_ids: Sequence[str]
) -> dict[tuple[str, int], bytes]:
    """Return the digests of the stored records of these trials, by trial and attempt."""
    rows = connection.execute(
        "SELECT trial_id, attempt, sha256 FROM attempts WHERE run = %s AND trial_id = ANY(%s)",
        [run, list(trial_ids)],
    )
    return {(trial_id, attempt): bytes(sha256) for trial_id, attempt, sha256 in rows.fetchall()}


def without_nul(value: Any) -> Any:
    """Return a copy without NUL characters, which PostgreSQL does not accept in text."""
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, dict):
        return {without_nul(key): without_nul(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nul(item) for item in value]
    return value
