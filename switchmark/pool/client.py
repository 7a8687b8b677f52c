"""Campaigns of a client: cut into blocks, submitted, and followed until they end.

A client that ends changes nothing: the same command follows the campaign again.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from typing import Any, cast

from psycopg import Connection

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import Installed
from switchmark.campaign.overhead import usual_around_s
from switchmark.campaign.rules.pool import pool_refusal
from switchmark.errors import UsageError
from switchmark.method.registry import usual_time_s
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.parameter_table import point_of
from switchmark.model.trial import Trial
from switchmark.pool import campaigns, events
from switchmark.pool.database import PoolDatabase, retry
from switchmark.pool.proving import deciding_testbeds, first_blocks
from switchmark.pool.values import CampaignStatus, PlannedBlock, PoolEvent
from switchmark.results.run_info import RunInfo
from switchmark.version import full_version

READ_EVERY_S = 1.0
SHORTEST_LEASE_S = 60.0
SUBMIT_LIMIT_S = 120.0  # longer than a restart of PostgreSQL; a mistyped address ends then


@dataclass(frozen=True, slots=True)
class SubmittedRun:
    """The run of a campaign in the store."""

    run: str
    is_new: bool  # this call submitted it


def submit_campaign(
    database: PoolDatabase,
    campaign: CampaignDefinition,
    installed: Installed,
    say: Callable[[str], None],
    *,
    campaign_text: str,
    overrides: tuple[str, ...] = (),
    baseline: bool = True,
    again: bool = False,
    shortest_lease_s: float = SHORTEST_LEASE_S,
) -> SubmittedRun:
    """Submit all blocks of the campaign or none; wait for a store that restarts.

    A campaign that was submitted before, and not cancelled, is found again, unless `again` is set.
    Raises `UsageError` for a campaign that a pool cannot run, `StoreAwayError`."""
    blocks = blocks_of(campaign, installed, shortest_lease_s)
    digest = campaigns.submission_of(campaign, baseline=baseline)

    def submit() -> SubmittedRun:
        with database.transaction() as db:  # the store uses the same connection
            campaigns.lock_submission(db, digest)
            known = campaigns.find_submission(db, digest, only_open=again)
            if known is not None:
                return SubmittedRun(known, is_new=False)
            deciding = deciding_testbeds(db) if campaign.proves else ()
            first = first_blocks(campaign, blocks, deciding)
            run_id = secrets.token_hex(3)
            run = begin_run(database, campaign, campaign_text, overrides, run_id, deciding)
            campaigns.submit(
                db, run, campaign, blocks,
                baseline=baseline, submitted_by=_user_and_host(), first=first,
            )  # fmt: skip
        return SubmittedRun(run, is_new=True)

    return retry(submit, say, limit_s=SUBMIT_LIMIT_S)


def follow(
    database: PoolDatabase, run: str, say: Callable[[str], None], *, is_new: bool
) -> CampaignStatus:
    """Report events and progress until the campaign ends.

    For a campaign that was submitted before, only new events are reported."""
    last = 0 if is_new else None

    def read() -> tuple[CampaignStatus, list[PoolEvent], int]:
        with database.transaction() as db:
            first = events.last_event(db) if last is None else last
            return campaigns.status_of(db, run), events.events_since(db, first, run), first

    reported = -1
    while True:
        status, new_events, last = retry(read, say)
        for event in new_events:
            say(event.text)
            last = event.number
        done = sum(status.trials.values())
        if done != reported:
            say(f"{status.campaign}: {status.progress} trials")
            reported = done
        if status.state != "open":
            return status
        time.sleep(READ_EVERY_S)


def blocks_of(
    campaign: CampaignDefinition, installed: Installed, shortest_lease_s: float = SHORTEST_LEASE_S
) -> list[PlannedBlock]:
    """Return all blocks of the campaign in the order that its seed draws.

    They follow from the campaign and this installation alone. Cores and ports are planned on the
    testbed that measures a block. Raises `UsageError` for a campaign that a pool cannot run."""
    if (refusal := pool_refusal(campaign)) is not None:
        raise UsageError(f"{campaign.name}: {refusal}")
    trials = expand(campaign, installed.switches, installed.environments)
    groups = groupby(trials, key=lambda trial: (trial.repetition, point_of(trial)))
    return [_block(campaign, list(members), shortest_lease_s) for _, members in groups]


def _block(
    campaign: CampaignDefinition, trials: Sequence[Trial], shortest_lease_s: float
) -> PlannedBlock:
    """Return a block with the length of its lease.

    A lease lasts from one report of its agent to the next: longer than the longest trial, its bare
    wire, slow machines and `repeat_disturbed` together."""
    longest_s = max(usual_time_s(trial) + usual_around_s(trial) for trial in trials)
    times = 1 + campaign.repeat_disturbed
    return PlannedBlock(tuple(trials), shortest_lease_s + 3 * times * longest_s)


def begin_run(
    database: PoolDatabase,
    campaign: CampaignDefinition,
    campaign_text: str,
    overrides: Sequence[str],
    run_id: str,
    testbeds: Sequence[str] = (),
) -> str:
    """Create a run in the store, with the files of a run directory; return its name.

    `testbeds` are those of a campaign that proves. The database gives the time of the start: runs
    are sorted by it, and the clocks of clients differ."""
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
        host={},  # each record contains the facts of its testbed
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


def _now(db: Connection[Any]) -> datetime:
    row = db.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    return cast(datetime, row[0]).astimezone(UTC)


def _user_and_host() -> str:
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
