"""The lease of a block: claimed, kept up, checked before anything is deployed, and at commit.

A lease is a row with an expiry and a fencing token. A testbed claims a block in one short
transaction (FOR UPDATE SKIP LOCKED); each claim raises the token. Whoever comes back with an older
one, or after the expiry, is refused, whatever it believes about the time: only the database's
clock decides. All functions take an open transaction.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection
from psycopg.rows import namedtuple_row

from switchmark.model.trial import Trial
from switchmark.pool.events import note_event, note_of_lease
from switchmark.pool.proving import NextBlock, queue_next
from switchmark.pool.testbeds import state_of
from switchmark.pool.values import BlockLease, LeaseLost, Membership

GIVEN_UP_AFTER = 8  # leases of one block that ended without a word, or with a fault of the bench

# A block that was begun goes back to its testbed first, so that its contenders stay together.
_CLAIM = """
WITH next AS (
    SELECT id, testbed AS before, state = 'leased' AS was_lost FROM pool_blocks
    WHERE (state = 'queued' OR (state = 'leased' AND expires_at < clock_timestamp()))
        AND NOT %(testbed)s = ANY(unable) AND (only_on IS NULL OR only_on = %(testbed)s)
    ORDER BY {order} LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE pool_blocks AS b SET state = 'leased', testbed = %(testbed)s, token = b.token + 1,
    lost = b.lost + next.was_lost::int,
    expires_at = clock_timestamp() + make_interval(secs => b.lease_s)
FROM next, pool_campaigns AS c
WHERE b.id = next.id AND c.run_name = b.run_name
RETURNING b.id, b.token, b.run_name, c.run, c.campaign,
    (SELECT info ->> 'run_id' FROM runs WHERE runs.run = c.run) AS run_id,
    b.number, c.definition, c.baseline, b.trials,
    b.lease_s, b.lost, next.before, next.was_lost, c.testbeds
"""


def claim(db: Connection[Any], member: Membership) -> BlockLease | None:
    """Claim the next block for this testbed; None when there is none, or it may not measure now."""
    if state_of(db, member) != "ready":
        return None
    held = db.execute(
        "SELECT 1 FROM pool_blocks WHERE testbed = %s AND state = 'leased' "
        "AND expires_at >= clock_timestamp() LIMIT 1",
        (member.testbed,),
    ).fetchone()
    if held is not None:  # one block at a time
        return None
    own = "(testbed = %(testbed)s) IS TRUE DESC, id"
    begun = db.execute(
        "SELECT 1 FROM pool_blocks WHERE testbed = %s AND state IN ('queued', 'leased') LIMIT 1",
        (member.testbed,),
    ).fetchone()
    statement = _CLAIM.format(order=own if begun else "id").encode()
    with db.cursor(row_factory=namedtuple_row) as cursor:
        row: Any = cursor.execute(statement, {"testbed": member.testbed}).fetchone()
    if row is None:
        return None
    if row.was_lost:
        note_event(
            db,
            f"{row.before} did not renew its lease of block {row.number} in time, "
            f"{member.testbed} takes the block",
            testbed=row.before, run_name=row.run_name, block=row.id,
        )  # fmt: skip
    if row.lost >= GIVEN_UP_AFTER:
        _give_up(db, row.id, row.run_name, row.number, row.lost)
        return None
    if row.before is not None and row.before != member.testbed:
        # Contenders are compared within a testbed: here the block begins anew.
        db.execute(
            "UPDATE attempts SET superseded = true "
            "WHERE run = %s AND block = %s AND testbed <> %s AND NOT superseded",
            (row.run, row.number, member.testbed),
        )
    _heard(db, member.testbed, row.lease_s)
    stored = db.execute(
        "SELECT trial_id FROM attempts WHERE run = %s AND block = %s AND NOT superseded",
        (row.run, row.number),
    ).fetchall()
    return BlockLease(
        block=row.id,
        token=row.token,
        run_name=row.run_name,
        run_id=row.run_id,
        campaign=row.campaign,
        number=row.number,
        testbed=member.testbed,
        definition=row.definition,
        baseline=row.baseline,
        trials=tuple(Trial.model_validate(one) for one in row.trials),
        stored=frozenset(one[0] for one in stored),
        lease_s=row.lease_s,
        testbeds=tuple(row.testbeds),
    )


def keep_up(db: Connection[Any], lease: BlockLease) -> None:
    """Renew the holder's lease for its full length, before each trial is deployed. Raises
    `LeaseLost`."""
    _heard(db, lease.testbed, lease.lease_s)
    kept = db.execute(
        "UPDATE pool_blocks SET expires_at = clock_timestamp() + make_interval(secs => lease_s) "
        "WHERE id = %s AND token = %s AND state = 'leased' AND expires_at >= clock_timestamp()",
        (lease.block, lease.token),
    )
    if kept.rowcount != 1:
        raise LeaseLost(why_lost(db, lease))


def _heard(db: Connection[Any], testbed: str, lease_s: float) -> None:
    """Note that the testbed's agent is alive; it may be silent for as long as its lease holds."""
    db.execute(
        "UPDATE pool_testbeds SET seen_at = clock_timestamp(), expires_at = greatest(expires_at, "
        "clock_timestamp() + make_interval(secs => %s)) WHERE name = %s",
        (lease_s, testbed),
    )


def fence(db: Connection[Any], lease: BlockLease) -> None:
    """Hold the block's row until this transaction ends. Raises `LeaseLost` for all but the lease's
    holder."""
    held = db.execute(
        "SELECT 1 FROM pool_blocks WHERE id = %s AND token = %s AND state = 'leased' "
        "AND expires_at >= clock_timestamp() FOR UPDATE",
        (lease.block, lease.token),
    ).fetchone()
    if held is None:
        raise LeaseLost(why_lost(db, lease))


def why_lost(db: Connection[Any], lease: BlockLease) -> str:
    """Why a lease does not hold, in words."""
    row = db.execute(
        "SELECT state, testbed, token FROM pool_blocks WHERE id = %s", (lease.block,)
    ).fetchone()
    if row is None:
        return f"{lease}: is not there any more"
    state, testbed, token = row
    if state == "cancelled":
        return f"{lease}: the campaign was cancelled"
    if token != lease.token:
        return (
            f"{lease}: lease {lease.token} of {lease.testbed} is over; {testbed} has had lease "
            f"{token} since"
        )
    if state != "leased":
        return f"{lease}: lease {lease.token} was given back"
    return f"{lease}: lease {lease.token} of {lease.testbed} is over; it was not renewed in time"


def finish(db: Connection[Any], lease: BlockLease, following: NextBlock | None = None) -> bool:
    """End the block, and queue the next one, if there is one; returns whether its campaign is over.
    Doing it again changes nothing. Raises `LeaseLost`."""
    db.execute("SELECT 1 FROM pool_campaigns WHERE run_name = %s FOR UPDATE", (lease.run_name,))
    done = db.execute(
        "SELECT 1 FROM pool_blocks WHERE id = %s AND token = %s AND state = 'done'",
        (lease.block, lease.token),
    )
    if done.fetchone() is not None:
        return False
    fence(db, lease)
    db.execute(
        "UPDATE pool_blocks SET state = 'done', expires_at = NULL WHERE id = %s", (lease.block,)
    )
    if following is not None:
        queue_next(db, lease.run_name, following)
    return close_if_over(db, lease.run_name)


def close_if_over(db: Connection[Any], run_name: str) -> bool:
    """Close a campaign (whose row the caller has locked) that has no open block left."""
    closed = db.execute(
        "UPDATE pool_campaigns SET state = 'finished', ended_at = clock_timestamp() "
        "WHERE run_name = %(run)s AND state = 'open' AND NOT EXISTS (SELECT 1 FROM pool_blocks "
        "WHERE run_name = %(run)s AND state IN ('queued', 'leased'))",
        {"run": run_name},
    )
    if closed.rowcount == 1:
        note_event(db, "the campaign is finished", run_name=run_name)
    return closed.rowcount == 1


def give_back(db: Connection[Any], lease: BlockLease, why: str, *, lost: bool = False) -> None:
    """Put the block back into the queue, if it is still this holder's; `lost` where it took the
    agent down."""
    given = db.execute(
        "UPDATE pool_blocks SET state = 'queued', expires_at = NULL, lost = lost + %s "
        "WHERE id = %s AND token = %s AND state = 'leased'",
        (int(lost), lease.block, lease.token),
    )
    if given.rowcount == 1:
        note_of_lease(db, lease, f"{lease.testbed} gives {lease} back: {why}")


def refuse(db: Connection[Any], lease: BlockLease, why: str) -> None:
    """Note that this testbed cannot measure the block; another may."""
    db.execute("SELECT 1 FROM pool_campaigns WHERE run_name = %s FOR UPDATE", (lease.run_name,))
    refused = db.execute(
        "UPDATE pool_blocks SET state = CASE WHEN only_on IS NULL THEN 'queued' ELSE 'failed' END, "
        "expires_at = NULL, unable = array_append(unable, testbed) "
        "WHERE id = %s AND token = %s AND state = 'leased'",
        (lease.block, lease.token),
    )
    if refused.rowcount == 1:
        note_of_lease(db, lease, f"{lease.testbed} cannot measure {lease}: {why}")
        close_if_over(db, lease.run_name)


def _give_up(db: Connection[Any], block: int, run_name: str, number: int, lost: int) -> None:
    """End a block that takes every agent down with it, so that it does not take the next ones."""
    db.execute("SELECT 1 FROM pool_campaigns WHERE run_name = %s FOR UPDATE", (run_name,))
    db.execute("UPDATE pool_blocks SET state = 'failed', expires_at = NULL WHERE id = %s", (block,))
    note_event(
        db,
        f"block {number} is given up: {lost} agents were lost while they measured it",
        run_name=run_name, block=block,
    )  # fmt: skip
    close_if_over(db, run_name)
