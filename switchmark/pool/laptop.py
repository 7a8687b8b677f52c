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


@dataclass(frozen=True, slots=True)
class HandedIn:
    """Where the results of a campaign are, and whether this call submitted it."""

    run: str
    is_new: bool


def hand_in(
    database: PoolDatabase,
    campaign: CampaignDefinition,
    there: Installed,
    *,
    campaign_text: str,
    overrides: tuple[str, ...] = (),
    baseline: bool = True,
    again: bool = False,
    shortest_lease_s: float = SHORTEST_LEASE_S,
) -> HandedIn:
    """Put the campaign into the queue, all of it or nothing.

    A campaign that was submitted before, and not cancelled, is found again, unless `again` asks for
    it anew. Raises `UsageError` for what a pool cannot run, `StoreAwayError`."""
    blocks = blocks_of(campaign, there, shortest_lease_s)
    asked = campaigns.submission_of(campaign, baseline=baseline)
    with database.transaction() as db:  # the run in the store, too: on the same connection
        campaigns.hold_submission(db, asked)
        known = campaigns.find_submission(db, asked, only_open=again)
        if known is not None:
            return HandedIn(known, is_new=False)
        beds = deciding_testbeds(db) if campaign.proves else ()
        first = first_blocks(campaign, blocks, beds)
        made = begin_run(database, campaign, campaign_text, overrides, secrets.token_hex(3), beds)
        who = _who()
        campaigns.submit(
            db, made, campaign, blocks, baseline=baseline, submitted_by=who, first=first
        )
    return HandedIn(made, is_new=True)


def follow(
    database: PoolDatabase, run: str, say: Callable[[str], None], *, is_new: bool
) -> CampaignStatus:
    """Report events until the campaign is over; a user who comes back is told how far it is."""
    seen = 0

    def look() -> tuple[CampaignStatus, list[PoolEvent]]:
        with database.transaction() as db:
            return campaigns.status_of(db, run), events.events_since(db, seen, run)

    if not is_new:
        with database.transaction() as db:
            seen = events.last_event(db)
    told = -1
    while True:
        now, happened = patiently(look, say)
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
