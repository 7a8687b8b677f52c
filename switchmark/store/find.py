"""Finds the runs of a store, and the one that a user means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from switchmark.errors import UsageError
from switchmark.store.store import Store

_LIST = """
    SELECT runs.run, runs.name, runs.campaign, runs.started_at,
           count(*) FILTER (WHERE status = 'finished' AND NOT superseded),
           count(DISTINCT trial_id) FILTER (WHERE NOT superseded)
               - count(*) FILTER (WHERE status = 'finished' AND NOT superseded),
           coalesce(sum(bytes), 0),
           coalesce(info ->> 'switchmark_version', ''), coalesce(info #>> '{host,hostname}', ''),
           array_remove(array_agg(DISTINCT testbed), NULL)
    FROM runs LEFT JOIN attempts USING (run)
    WHERE runs.run = ANY(%s)
    GROUP BY runs.run ORDER BY runs.started_at, runs.run
"""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run of a store, in one line."""

    run: int
    name: str
    campaign: str
    started_at: datetime
    finished: int  # trials
    failed: int  # trials, of which no attempt finished
    size_bytes: int
    switchmark: str  # the version that began it
    hostname: str  # of one machine; empty: unknown, or of a pool
    testbeds: Sequence[str]  # of a pool


def list_stored(
    store: Store, campaign: str | None = None, last: int = 100, *, name: str | None = None
) -> list[StoredRun]:
    """The newest runs (of a campaign, or the one of this very name), the oldest of them first."""
    chosen = store.connection.execute(
        "SELECT run FROM runs WHERE campaign = coalesce(%s, campaign) "
        "AND name = coalesce(%s, name) ORDER BY started_at DESC, run DESC LIMIT %s",
        [campaign, name, last],
    ).fetchall()
    rows = store.connection.execute(_LIST, [[run for (run,) in chosen]]).fetchall()
    return [StoredRun(*row) for row in rows]


def find_stored(store: Store, name: str | None) -> str:
    """The name of the run that a user means: a run's, a campaign's (its newest) or the newest.
    Raises UsageError that says what is there."""
    wanted = None if name in (None, "latest") else name
    row = store.connection.execute(
        "SELECT name FROM runs WHERE coalesce(%s, name) IN (name, campaign) "
        "ORDER BY (name = %s) DESC NULLS LAST, started_at DESC, run DESC LIMIT 1",
        [wanted, wanted],
    ).fetchone()
    if row is not None:
        return str(row[0])
    if wanted is None:
        raise UsageError(
            f"{store.address}: no results here; measure with --store, or: switchmark store push"
        )
    rows = store.connection.execute("SELECT DISTINCT campaign FROM runs ORDER BY 1 LIMIT 20")
    known = ", ".join(one for (one,) in rows.fetchall()) or "nothing"
    raise UsageError(f"{store.address}: {wanted}: neither a run nor a campaign (there: {known})")
