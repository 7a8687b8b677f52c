"""Finds runs in a store."""

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
    """A run of a store, with its totals."""

    run: int
    name: str
    campaign: str
    started_at: datetime
    finished: int  # trials
    failed: int  # trials without a finished attempt
    size_bytes: int
    switchmark: str  # the version that started it
    hostname: str  # empty if it is unknown, or the run is from a pool
    testbeds: Sequence[str]  # empty unless the run is from a pool


def list_stored(
    store: Store, campaign: str | None = None, last: int = 100, *, name: str | None = None
) -> list[StoredRun]:
    """Return the newest runs, of a campaign or with this name, sorted by their start."""
    chosen = store.connection.execute(
        "SELECT run FROM runs WHERE campaign = coalesce(%s, campaign) "
        "AND name = coalesce(%s, name) ORDER BY started_at DESC, run DESC LIMIT %s",
        [campaign, name, last],
    ).fetchall()
    rows = store.connection.execute(_LIST, [[run for (run,) in chosen]]).fetchall()
    return [StoredRun(*row) for row in rows]


def find_stored(store: Store, name: str | None) -> str:
    """Return the run of this name, the newest of a campaign, or the newest of all.

    Raises `UsageError` with the names of the campaigns."""
    requested = None if name in (None, "latest") else name
    row = store.connection.execute(
        "SELECT name FROM runs WHERE coalesce(%s, name) IN (name, campaign) "
        "ORDER BY (name = %s) DESC NULLS LAST, started_at DESC, run DESC LIMIT 1",
        [requested, requested],
    ).fetchone()
    if row is not None:
        return str(row[0])
    if requested is None:
        raise UsageError(
            f"{store.address}: contains no results",
            remedy="measure with --store, or run: switchmark store push",
        )
    rows = store.connection.execute("SELECT DISTINCT campaign FROM runs ORDER BY 1 LIMIT 20")
    known = ", ".join(campaign for (campaign,) in rows.fetchall()) or "none"
    raise UsageError(
        f"{store.address}: {requested}: is neither a run nor a campaign (campaigns: {known})"
    )
