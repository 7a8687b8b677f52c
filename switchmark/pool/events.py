"""Events of the pool: one line each, written in the transaction in which they happen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from psycopg import Connection

from switchmark.pool.values import BlockLease, PoolEvent


def note_event(
    db: Connection[Any],
    text: str,
    *,
    testbed: str | None = None,
    run_name: str | None = None,
    block: int | None = None,
) -> None:
    """Write an event."""
    db.execute(
        "INSERT INTO pool_events (testbed, run_name, block, words) VALUES (%s, %s, %s, %s)",
        (testbed, run_name, block, text),
    )


def note_lease_event(db: Connection[Any], lease: BlockLease, text: str) -> None:
    """Write an event about a leased block."""
    note_event(db, text, testbed=lease.testbed, run_name=lease.run_name, block=lease.block)


def events_since(
    db: Connection[Any], number: int, run_name: str | None = None, limit: int = 1000
) -> list[PoolEvent]:
    """Return the events after event `number`, oldest first.

    With a run, return its events and those that belong to no run."""
    rows: Iterable[tuple[Any, ...]] = db.execute(
        "SELECT id, at, testbed, run_name, words FROM pool_events WHERE id > %(after)s AND "
        "(%(run)s::text IS NULL OR run_name = %(run)s OR run_name IS NULL) "
        "ORDER BY id LIMIT %(limit)s",
        {"after": number, "run": run_name, "limit": limit},
    )
    return [PoolEvent(*row) for row in rows]


def last_event(db: Connection[Any]) -> int:
    """Return the number of the latest event; 0 if there is no event."""
    row = db.execute("SELECT coalesce(max(id), 0) FROM pool_events").fetchone()
    return int(row[0]) if row else 0
