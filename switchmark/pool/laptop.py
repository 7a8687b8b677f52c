"""A campaign submitted and watched from anywhere: a user who leaves loses nothing, and may come
back."""

from __future__ import annotations

import os
import pwd
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from switchmark.campaign.installed import Installed
from switchmark.model.campaign import CampaignDefinition
from switchmark.pool import campaigns, events
from switchmark.pool.archive import begin_run
from switchmark.pool.blocks import SHORTEST_LEASE_S, blocks_of
from switchmark.pool.database import PoolDatabase
from switchmark.pool.patience import patiently
from switchmark.pool.proving import deciding_testbeds, first_blocks
from switchmark.pool.values import CampaignStatus, PoolEvent

LOOKS_EVERY_S = 1.0
SUBMIT_LIMIT_S = 120.0  # longer than a restart of PostgreSQL; a mistyped address ends then


@dataclass(frozen=True, slots=True)
class HandedIn:
    """Where the results of a campaign are, and whether this call submitted it."""

    run: str
    is_new: bool


def hand_in(
    database: PoolDatabase,
    campaign: CampaignDefinition,
    there: Installed,
    say: Callable[[str], None],
    *,
    campaign_text: str,
    overrides: tuple[str, ...] = (),
    baseline: bool = True,
    again: bool = False,
    shortest_lease_s: float = SHORTEST_LEASE_S,
) -> HandedIn:
    """Put the campaign into the queue, all of it or nothing; wait for a store that restarts.

    A campaign that was submitted before, and not cancelled, is found again, unless `again` asks for
    it anew. Raises `UsageError` for what a pool cannot run, `StoreAwayError`."""
    blocks = blocks_of(campaign, there, shortest_lease_s)
    asked = campaigns.submission_of(campaign, baseline=baseline)

    def submit() -> HandedIn:
        with database.transaction() as db:  # the run in the store, too: on the same connection
            campaigns.hold_submission(db, asked)
            known = campaigns.find_submission(db, asked, only_open=again)
            if known is not None:
                return HandedIn(known, is_new=False)
            beds = deciding_testbeds(db) if campaign.proves else ()
            first = first_blocks(campaign, blocks, beds)
            run_id = secrets.token_hex(3)
            run = begin_run(database, campaign, campaign_text, overrides, run_id, beds)
            campaigns.submit(
                db, run, campaign, blocks, baseline=baseline, submitted_by=_who(), first=first
            )
        return HandedIn(run, is_new=True)

    return patiently(submit, say, limit_s=SUBMIT_LIMIT_S)


def follow(
    database: PoolDatabase, run: str, say: Callable[[str], None], *, is_new: bool
) -> CampaignStatus:
    """Report events until the campaign is over; a user who comes back is told how far it is."""
    seen = 0 if is_new else None

    def look() -> tuple[CampaignStatus, list[PoolEvent], int]:
        with database.transaction() as db:
            first = events.last_event(db) if seen is None else seen
            return campaigns.status_of(db, run), events.events_since(db, first, run), first

    told = -1
    while True:
        now, happened, seen = patiently(look, say)
        for event in happened:
            say(event.words)
            seen = event.number
        done = sum(now.trials.values())
        if done != told:
            say(f"{now.campaign}: {now.progress} trials")
            told = done
        if now.state != "open":
            return now
        time.sleep(LOOKS_EVERY_S)


def _who() -> str:
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
