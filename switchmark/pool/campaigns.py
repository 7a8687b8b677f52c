"""Campaigns in the pool: submit, read and cancel them. All functions take an open transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from psycopg import Connection
from psycopg.types.json import Jsonb

from switchmark.errors import UsageError
from switchmark.model.campaign import CampaignDefinition
from switchmark.pool.events import note_event
from switchmark.pool.proving import NextBlock, begin, plain_trials
from switchmark.pool.values import CampaignStatus, PlannedBlock
from switchmark.store.index import add_blocks


def submission_of(campaign: CampaignDefinition, *, baseline: bool) -> str:
    """Return a digest of everything that defines the results: equal submissions share a run."""
    submission = [campaign.model_dump(mode="json"), baseline]
    return hashlib.sha256(json.dumps(submission, sort_keys=True).encode()).hexdigest()


def find_submission(db: Connection[Any], submission: str, *, only_open: bool = False) -> str | None:
    """Return the run of the latest equal campaign that was not cancelled."""
    row = db.execute(
        "SELECT run_name FROM pool_campaigns WHERE submission = %s AND state <> 'cancelled' "
        "AND (state = 'open' OR NOT %s) ORDER BY submitted_at DESC LIMIT 1",
        (submission, only_open),
    ).fetchone()
    return None if row is None else str(row[0])


def lock_submission(db: Connection[Any], submission: str) -> None:
    """Keep other clients from submitting the same until this transaction ends."""
    db.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (submission,))


def submit(
    db: Connection[Any],
    run_name: str,
    campaign: CampaignDefinition,
    blocks: Sequence[PlannedBlock],
    *,
    baseline: bool = True,
    submitted_by: str = "",
    first: Sequence[NextBlock] = (),
) -> None:
    """Make the blocks of a campaign, whose run is in the store, open: all or none.

    For a campaign that proves, `blocks` are the first at each test point, and `first` is the first
    block of each of its testbeds."""
    testbeds = [block.testbed for block in first]
    inserted = db.execute(
        "INSERT INTO pool_campaigns "
        "(run_name, run, campaign, submission, definition, baseline, submitted_by, testbeds) "
        "VALUES (%s, (SELECT run FROM runs WHERE name = %s), %s, %s, %s, %s, %s, %s) RETURNING run",
        (
            run_name,
            run_name,
            campaign.name,
            submission_of(campaign, baseline=baseline),
            Jsonb(campaign.model_dump(mode="json")),
            baseline,
            submitted_by,
            testbeds,
        ),
    )
    row = inserted.fetchone()
    assert row is not None
    by = f" by {submitted_by}" if submitted_by else ""
    submitted = f"campaign {campaign.name} is submitted{by}"
    if testbeds:
        on_each = f"blocks until every comparison is decided on each of {', '.join(testbeds)}"
        note_event(db, f"{submitted}: {on_each}", run_name=run_name)
        begin(db, run_name, blocks, first)
        return
    add_blocks(db, int(row[0]), [[trial.id for trial in block.trials] for block in blocks])
    with (
        db.cursor() as cursor,
        cursor.copy("COPY pool_blocks (run_name, number, trials, lease_s) FROM STDIN") as copy,
    ):
        for number, block in enumerate(blocks):
            copy.write_row((run_name, number, plain_trials(block.trials), block.lease_s))
    trials_in_all = sum(len(block.trials) for block in blocks)
    many = f"{len(blocks)} blocks, {trials_in_all} trials"
    note_event(db, f"{submitted}: {many}", run_name=run_name)


def cancel(db: Connection[Any], name_or_run: str) -> CampaignStatus:
    """Cancel a campaign, given by its run, or by its name if one campaign of that name is open.

    Stored records stay; the record of a running trial is refused. Raises `UsageError`."""
    rows = db.execute(
        "SELECT run_name FROM pool_campaigns WHERE (run_name = %(name)s OR campaign = %(name)s) "
        "AND state = 'open' FOR UPDATE",
        {"name": name_or_run},
    ).fetchall()
    if len(rows) != 1:
        open_campaigns = [
            f"{name} ({run_name})"
            for run_name, name in db.execute(
                "SELECT run_name, campaign FROM pool_campaigns WHERE state = 'open' ORDER BY 1"
            )
        ]
        several = "more than one open campaign" if rows else "no open campaign"
        names = ", ".join(open_campaigns) or "none"
        raise UsageError(f"{name_or_run}: {several} of this name (open: {names})")
    run_name = str(rows[0][0])
    db.execute(
        "UPDATE pool_campaigns SET state = 'cancelled', ended_at = clock_timestamp() "
        "WHERE run_name = %s",
        (run_name,),
    )
    db.execute(
        "UPDATE pool_blocks SET state = 'cancelled', expires_at = NULL "
        "WHERE run_name = %s AND state IN ('queued', 'leased')",
        (run_name,),
    )
    note_event(db, "the campaign is cancelled", run_name=run_name)
    return status_of(db, run_name)


def status_of(db: Connection[Any], run_name: str) -> CampaignStatus:
    """Return the progress of a campaign. Raises `UsageError`."""
    row = db.execute(
        "SELECT campaign, state, submitted_at, submitted_by, testbeds "
        "FROM pool_campaigns WHERE run_name = %s",
        (run_name,),
    ).fetchone()
    if row is None:
        raise UsageError(f"{run_name}: no such campaign in the pool")
    campaign, state, submitted_at, submitted_by, testbeds = row
    blocks = db.execute(
        "SELECT state, count(*), sum(jsonb_array_length(trials)) FROM pool_blocks "
        "WHERE run_name = %s GROUP BY state",
        (run_name,),
    ).fetchall()
    done = db.execute(
        "SELECT a.status, count(*), count(*) FILTER (WHERE b.state = 'cancelled') "
        "FROM attempts a JOIN pool_campaigns c USING (run) "
        "LEFT JOIN pool_blocks b ON b.run_name = c.run_name AND b.number = a.block "
        "WHERE c.run_name = %s AND NOT a.superseded GROUP BY a.status",
        (run_name,),
    ).fetchall()
    trial_count = sum(
        int(count) for state, _, count in blocks if state != "cancelled" or not testbeds
    )
    if testbeds:  # an abandoned block counts only the trials that were stored before
        trial_count += sum(abandoned for _, _, abandoned in done)
    return CampaignStatus(
        run_name=run_name,
        campaign=campaign,
        state=state,
        submitted_at=submitted_at,
        submitted_by=submitted_by,
        blocks={block_state: count for block_state, count, _ in blocks},
        trials={status: count for status, count, _ in done},
        trials_asked=trial_count,
        testbeds=tuple(testbeds),
    )


def campaigns(db: Connection[Any], *, is_open: bool | None = None) -> list[CampaignStatus]:
    """Return all campaigns, or only those that are open or not, the latest first."""
    rows = db.execute(
        "SELECT run_name FROM pool_campaigns "
        "WHERE %(open)s::boolean IS NULL OR (state = 'open') = %(open)s "
        "ORDER BY submitted_at DESC LIMIT 100",
        {"open": is_open},
    ).fetchall()
    return [status_of(db, row[0]) for row in rows]
