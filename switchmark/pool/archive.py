"""Stores records of a pool: under their lease, whole, and once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, cast

from psycopg import Connection

from switchmark.model.campaign import CampaignDefinition
from switchmark.pool.database import PoolDatabase
from switchmark.pool.leases import fence
from switchmark.pool.values import BlockLease
from switchmark.record import Record
from switchmark.results.run_info import RunInfo
from switchmark.version import full_version


class StoreArchive:
    """The store as an agent uses it."""

    def __init__(self, database: PoolDatabase) -> None:
        self._database = database

    def enter(self, lease: BlockLease, record: Record) -> None:
        """See `Archive.enter`.

        The object is written first, under a name with the attempt, which is the lease's token; the
        transaction that indexes it holds the lease's row."""
        content = record.model_dump_json(indent=2).encode() + b"\n"
        with self._database.store() as store:
            store.add_record(
                lease.run_name,
                content,
                lease.token,
                block=lease.number,
                testbed=lease.testbed,
                guard=lambda db: fence(db, lease),
            )


def _now(db: Connection[Any]) -> datetime:
    row = db.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    return cast(datetime, row[0]).astimezone(UTC)


def begin_run(
    database: PoolDatabase,
    campaign: CampaignDefinition,
    campaign_text: str,
    overrides: Sequence[str],
    run_id: str,
    testbeds: Sequence[str] = (),
) -> str:
    """Make a run in the store, as a folder of results would be made; returns its name.

    `testbeds` are those that decide each by itself, if any do. The database gives the time of its
    begin: runs are ordered by it, and the clocks of laptops differ."""
    with database.transaction() as db:
        now = _now(db)
    info = RunInfo(
        run_id=run_id,
        campaign=campaign.name,
        campaign_sha256=sha256(campaign_text.encode()).hexdigest(),
        started_at=now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        switchmark_version=full_version(),
        definition=campaign.model_dump(mode="json"),
        settings={"set": list(overrides)} | ({"testbeds": list(testbeds)} if testbeds else {}),
        host={},  # each record says which testbed it is of
    )
    safe_name = re.sub(r"[^A-Za-z0-9._-]+", "_", campaign.name).strip(".") or "campaign"
    name = f"{safe_name}-{now:%Y%m%dT%H%M%SZ}-{run_id}"
    files = {
        "run.json": info.model_dump_json(indent=2).encode() + b"\n",
        "campaign.yaml": campaign_text.encode(),
    }
    with database.store() as store:
        store.add_run(name, files)
    return name
