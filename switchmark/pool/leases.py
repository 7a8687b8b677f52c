"""The lease of a block: claimed, renewed, and checked before a deployment and at each commit.

A lease is a row with an end and a fencing token. A testbed claims a block in one short transaction;
each claim raises the token. An agent with an older token, or whose lease has ended, is refused:
only the clock of the database decides. All functions take an open transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import Connection
from psycopg.rows import namedtuple_row

from switchmark.model.trial import Trial
from switchmark.pool.events import note_event, note_lease_event
from switchmark.pool.proving import NextBlock, queue_next
from switchmark.pool.testbeds import state_of
from switchmark.pool.values import BlockLease, LeaseLost, Membership, OpenBlock

GIVEN_UP_AFTER = 8  # leases of one block that were lost with their agent
ABANDON_AFTER_S = 600.0  # during which a testbed could not measure a block that only it may measure

_IS_OPEN = "(state = 'queued' OR (state = 'leased' AND expires_at < clock_timestamp()))"
_CLAIM = f"""
WITH next AS (
    SELECT id, testbed AS before, state = 'leased' AS was_lost FROM pool_blocks
    WHERE id = %(block)s AND {_IS_OPEN}
        AND NOT %(testbed)s = ANY(unable) AND (only_on IS NULL OR only_on = %(testbed)s)
    FOR UPDATE
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


def open_block_ids(db: Connection[Any]) -> list[int]:
    """Return the blocks that a testbed may claim now, in the order of their submission."""
    statement = f"SELECT id FROM pool_blocks WHERE {_IS_OPEN} ORDER BY id"
    return [int(row[0]) for row in db.execute(statement.encode())]


def open_blocks(db: Connection[Any], ids: Sequence[int]) -> list[OpenBlock]:
    """Return those of the blocks that are open, with the facts for their placement."""
    statement = (
        "SELECT id, testbed, only_on, unable, "
        "jsonb_path_exists(trials, '$[*] ? (@.location != \"local\")') "
        f"FROM pool_blocks WHERE id = ANY(%s) AND {_IS_OPEN} ORDER BY id"
    )
    rows = db.execute(statement.encode(), (list(ids),))
    return [OpenBlock(row[0], row[1], row[2], tuple(row[3]), row[4]) for row in rows]


def ended_blocks(db: Connection[Any], ids: Sequence[int]) -> list[int]:
    """Return those of the blocks that no testbed needs to measure any more."""
    rows = db.execute(
        "SELECT id FROM pool_blocks WHERE id = ANY(%s) AND state NOT IN ('queued', 'leased')",
        (list(ids),),
    )
    return [int(row[0]) for row in rows]


def claim(db: Connection[Any], member: Membership, block: int) -> BlockLease | None:
    """Claim the block for this testbed; None if it is not open, or the testbed may not measure."""
    if state_of(db, member) != "ready":
        return None
    own_lease = db.execute(
        "SELECT 1 FROM pool_blocks WHERE testbed = %s AND state = 'leased' "
        "AND expires_at >= clock_timestamp() LIMIT 1",
        (member.testbed,),
    ).fetchone()
    if own_lease is not None:  # a testbed measures one block at a time
        return None
    with db.cursor(row_factory=namedtuple_row) as cursor:
        arguments = {"testbed": member.testbed, "block": block}
        row: Any = cursor.execute(_CLAIM.encode(), arguments).fetchone()
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
        # Contenders are compared within a testbed: the new testbed measures the whole block.
        db.execute(
            "UPDATE attempts SET superseded = true "
            "WHERE run = %s AND block = %s AND testbed <> %s AND NOT superseded",
            (row.run, row.number, member.testbed),
        )
    _note_alive(db, member.testbed, row.lease_s)
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
        trials=tuple(Trial.model_validate(trial) for trial in row.trials),
        stored=frozenset(trial_id for (trial_id,) in stored),
        lease_s=row.lease_s,
        testbeds=tuple(row.testbeds),
    )


def keep_up(db: Connection[Any], lease: BlockLease) -> None:
    """Renew the lease for its full length, before each trial is deployed. Raises `LeaseLost`."""
    _note_alive(db, lease.testbed, lease.lease_s)
    renewed = db.execute(
        "UPDATE pool_blocks SET expires_at = clock_timestamp() + make_interval(secs => lease_s) "
        "WHERE id = %s AND token = %s AND state = 'leased' AND expires_at >= clock_timestamp()",
        (lease.block, lease.token),
    )
    if renewed.rowcount != 1:
        raise LeaseLost(why_lost(db, lease))


def _note_alive(db: Connection[Any], testbed: str, lease_s: float) -> None:
    """Note that the testbed's agent is alive; it may be silent until its lease ends."""
    db.execute(
        "UPDATE pool_testbeds SET seen_at = clock_timestamp(), expires_at = greatest(expires_at, "
        "clock_timestamp() + make_interval(secs => %s)) WHERE name = %s",
        (lease_s, testbed),
    )


def fence(db: Connection[Any], lease: BlockLease) -> None:
    """Lock the block's row until the transaction ends. Raises `LeaseLost` if the lease is not
    valid."""
    row = db.execute(
        "SELECT 1 FROM pool_blocks WHERE id = %s AND token = %s AND state = 'leased' "
        "AND expires_at >= clock_timestamp() FOR UPDATE",
        (lease.block, lease.token),
    ).fetchone()
    if row is None:
        raise LeaseLost(why_lost(db, lease))


def why_lost(db: Connection[Any], lease: BlockLease) -> str:
    """Return the reason why a lease is not valid."""
    row = db.execute(
        "SELECT state, testbed, token FROM pool_blocks WHERE id = %s", (lease.block,)
    ).fetchone()
    if row is None:
        return f"{lease}: was removed"
    state, testbed, token = row
    if state == "cancelled":
        return f"{lease}: the campaign was cancelled"
    if token != lease.token:
        return (
            f"{lease}: lease {lease.token} of {lease.testbed} has ended; {testbed} has lease "
            f"{token} now"
        )
    if state != "leased":
        return f"{lease}: lease {lease.token} was returned"
    return f"{lease}: lease {lease.token} of {lease.testbed} has ended; it was not renewed in time"


def finish(db: Connection[Any], lease: BlockLease, following: NextBlock | None = None) -> bool:
    """End the block and queue the next one, if there is one; return True if its campaign is over.

    Ending it again has no effect. Raises `LeaseLost`."""
    db.execute("SELECT 1 FROM pool_campaigns WHERE run_name = %s FOR UPDATE", (lease.run_name,))
    ended = db.execute(
        "SELECT 1 FROM pool_blocks WHERE id = %s AND token = %s AND state = 'done'",
        (lease.block, lease.token),
    )
    if ended.fetchone() is not None:
        return False
    fence(db, lease)
    db.execute(
        "UPDATE pool_blocks SET state = 'done', expires_at = NULL WHERE id = %s", (lease.block,)
    )
    if following is not None:
        queue_next(db, lease.run_name, following)
    return close_if_over(db, lease.run_name)


def close_if_over(db: Connection[Any], run_name: str) -> bool:
    """Close the campaign if it has no open block; return True if it was closed.

    The caller has locked its row."""
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
    """Return the block to the queue, if the lease is valid; `lost` counts it as a lost agent."""
    returned = db.execute(
        "UPDATE pool_blocks SET state = 'queued', expires_at = NULL, lost = lost + %s "
        "WHERE id = %s AND token = %s AND state = 'leased'",
        (int(lost), lease.block, lease.token),
    )
    if returned.rowcount == 1:
        note_lease_event(db, lease, f"{lease.testbed} returns {lease}: {why}")


def refuse(db: Connection[Any], lease: BlockLease, why: str) -> None:
    """Note that this testbed cannot measure the block; another testbed may."""
    db.execute("SELECT 1 FROM pool_campaigns WHERE run_name = %s FOR UPDATE", (lease.run_name,))
    refused = db.execute(
        "UPDATE pool_blocks SET state = CASE WHEN only_on IS NULL THEN 'queued' ELSE 'failed' END, "
        "expires_at = NULL, unable = array_append(unable, testbed) "
        "WHERE id = %s AND token = %s AND state = 'leased'",
        (lease.block, lease.token),
    )
    if refused.rowcount == 1:
        note_lease_event(db, lease, f"{lease.testbed} cannot measure {lease}: {why}")
        close_if_over(db, lease.run_name)


def _give_up(db: Connection[Any], block: int, run_name: str, number: int, lost: int) -> None:
    """End a block whose agents are lost each time, so that it does not end further agents."""
    db.execute("SELECT 1 FROM pool_campaigns WHERE run_name = %s FOR UPDATE", (run_name,))
    db.execute("UPDATE pool_blocks SET state = 'failed', expires_at = NULL WHERE id = %s", (block,))
    note_event(
        db,
        f"block {number} is given up: {lost} agents were lost while they measured it",
        run_name=run_name, block=block,
    )  # fmt: skip
    close_if_over(db, run_name)


_UNREACHABLE = """
SELECT b.id, b.run_name, b.only_on, t.state, t.reason FROM pool_blocks b
JOIN pool_testbeds t ON t.name = b.only_on
WHERE (b.state = 'queued' OR (b.state = 'leased' AND b.expires_at < clock_timestamp()))
    AND (t.state <> 'ready' OR (t.expires_at >= clock_timestamp()) IS NOT TRUE)
    AND greatest(b.queued_at, CASE t.state WHEN 'ready' THEN coalesce(t.expires_at, t.seen_at)
        ELSE t.state_since END) < clock_timestamp() - make_interval(secs => %s)
    AND NOT EXISTS (SELECT 1 FROM pool_blocks o JOIN pool_testbeds s ON s.name = o.only_on
        WHERE o.run_name = b.run_name AND o.state IN ('queued', 'leased')
        AND s.state = 'ready' AND s.expires_at >= clock_timestamp())
ORDER BY b.id
"""


def abandon_unreachable(db: Connection[Any], after_s: float = ABANDON_AFTER_S) -> list[str]:
    """End the part of each testbed that cannot measure and is the last of its campaign.

    Each testbed of a campaign that proves has its own result, so the results of the others are
    complete. Return the events."""
    written = []
    for block, run_name, testbed, state, reason in db.execute(_UNREACHABLE, (after_s,)).fetchall():
        db.execute("SELECT 1 FROM pool_campaigns WHERE run_name = %s FOR UPDATE", (run_name,))
        ended = db.execute(
            "UPDATE pool_blocks SET state = 'cancelled', expires_at = NULL WHERE id = %s "
            "AND (state = 'queued' OR (state = 'leased' AND expires_at < clock_timestamp()))",
            (block,),
        )
        if ended.rowcount != 1:
            continue
        why = "has no agent" if state == "ready" else f"is {state}: {reason}"
        text = f"{testbed} {why}; the others are done, so the campaign ends without the rest of it"
        note_event(db, text, testbed=testbed, run_name=run_name, block=block)
        close_if_over(db, run_name)
        written.append(text)
    return written
