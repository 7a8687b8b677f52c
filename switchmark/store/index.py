"""Writes the index: runs with their files, and attempts, each in one transaction.

Everything here may be repeated: rows that are there are compared, and never replaced.
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

Guard = Callable[["Connection"], None]  # runs first in the transaction; raises: nothing is stored


@dataclass(frozen=True, slots=True)
class IndexedAttempt:
    """A row about a record."""

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
        """The row about this record, whose file has this content."""
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
    """Index a run and the contents of its files that are no records; returns its number. More files
    may be added later.

    Raises StoreConflictError where a file of this name has another content."""
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
        held = connection.execute("SELECT name, sha256 FROM files WHERE run = %s", [run])
        stored = {one: bytes(sha256) for one, sha256 in held.fetchall()}
        for file, content in files.items():
            if stored[file] != digest(content):
                raise StoreConflictError(
                    f"{name}: {file} is stored with another content; is this another run of the "
                    "same name?"
                )
    return run


def add_blocks(connection: Connection, run: int, blocks: Sequence[Sequence[str]]) -> None:
    """Index the blocks of a run, each as the ids of its trials; the first one is block 0."""
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

    `guard` checks, in the same transaction, whether this may still be done (a lease). Raises
    StoreConflictError where an attempt is there with another record, or the trial is finished."""
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
                        *(run, one.trial_id, one.attempt, one.status, without_nul(one.switch)),
                        *(parse_utc(one.started_at), one.sha256, one.size_bytes, COLUMNS_DIGEST),
                        *(Jsonb(without_nul(one.columns)), one.block, one.testbed),
                    )
                    for one in attempts
                ],
            )
            stored = stored_attempts(connection, run, [one.trial_id for one in attempts])
            for one in attempts:
                if stored[one.trial_id, one.attempt] != one.sha256:
                    raise StoreConflictError(
                        f"trial {one.trial_id}: attempt {one.attempt} is stored with another record"
                    )
    except psycopg.errors.UniqueViolation as error:
        raise StoreConflictError(
            f"a trial is finished in the store already: {error.diag.message_detail}"
        ) from error


def stored_attempts(
    connection: Connection, run: int, trial_ids: Sequence[str]
) -> dict[tuple[str, int], bytes]:
    """The digests of what is stored of these trials, by trial and attempt."""
    found = connection.execute(
        "SELECT trial_id, attempt, sha256 FROM attempts WHERE run = %s AND trial_id = ANY(%s)",
        [run, list(trial_ids)],
    )
    return {(trial_id, attempt): bytes(sha256) for trial_id, attempt, sha256 in found.fetchall()}


def without_nul(value: Any) -> Any:
    """A copy without NUL, which PostgreSQL's text cannot hold."""
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, dict):
        return {without_nul(key): without_nul(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nul(item) for item in value]
    return value
