"""Testbeds that a proving campaign no longer waits for.

Each testbed answers for itself, so the answers of the others are complete.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from switchmark.pool.events import note_event
from switchmark.pool.leases import close_if_over

AFTER_S = 600.0  # that a testbed cannot measure while a block waits for it

_WAITING = """
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


def leave_out(db: Connection[Any], after_s: float = AFTER_S) -> list[str]:
    """End the part of each testbed that cannot measure and is the only one left; returns the
    events."""
    told = []
    for block, run_name, testbed, state, reason in db.execute(_WAITING, (after_s,)).fetchall():
        db.execute("SELECT 1 FROM pool_campaigns WHERE run_name = %s FOR UPDATE", (run_name,))
        ended = db.execute(
            "UPDATE pool_blocks SET state = 'cancelled', expires_at = NULL WHERE id = %s "
            "AND (state = 'queued' OR (state = 'leased' AND expires_at < clock_timestamp()))",
            (block,),
        )
        if ended.rowcount != 1:
            continue
        why = "has no agent" if state == "ready" else f"is {state}: {reason}"
        words = f"{testbed} {why}; the others are done, so the campaign ends without the rest of it"
        note_event(db, words, testbed=testbed, run_name=run_name, block=block)
        close_if_over(db, run_name)
        told.append(words)
    return told
