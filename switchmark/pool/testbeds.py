"""The testbeds of a pool: who acts for each, and whether it may measure.

An agent that registers gets a token; a later agent's is higher, which ends what the earlier one
holds. Two living agents are not admitted: the second is told who the first is. All functions take
an open transaction.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection
from psycopg.types.json import Jsonb

from switchmark.errors import UnavailableError, UsageError
from switchmark.pool.events import note_event
from switchmark.pool.values import Membership, TestbedStatus

MEMBER_S = 60.0  # without a word, after which another place may take a testbed over
FIRST_RECHECK_S, LONGEST_RECHECK_S = 10.0, 3600.0  # of a testbed that is out


def register(
    db: Connection[Any], testbed: str, place: str, agent: str, clock_s: float
) -> Membership:
    """Let an agent act for a testbed.

    `place` is the same for agents that cannot be alive at once (they hold a lock on one machine);
    `clock_s` is the host's POSIX time, for information. Raises `UnavailableError` while another one
    does."""
    db.execute("INSERT INTO pool_testbeds (name) VALUES (%s) ON CONFLICT DO NOTHING", (testbed,))
    row = db.execute(
        "SELECT place, agent, expires_at >= clock_timestamp(), "
        "extract(epoch FROM clock_timestamp() - seen_at) "
        "FROM pool_testbeds WHERE name = %s FOR UPDATE",
        (testbed,),
    ).fetchone()
    assert row is not None
    if row[2] and row[0] != place:
        raise UnavailableError(
            f"testbed {testbed} is served by another agent ({row[1]}; it spoke "
            f"{float(row[3]):.0f} s ago): stop that one, or wait {MEMBER_S:.0f} s after its end"
        )
    taken = db.execute(
        "UPDATE pool_testbeds SET token = token + 1, place = %(place)s, agent = %(agent)s, "
        "seen_at = clock_timestamp(), clock_ahead_s = %(clock)s - "
        "extract(epoch FROM clock_timestamp()), state = CASE state WHEN 'draining' THEN 'drained' "
        "ELSE state END, check_at = CASE state WHEN 'out' THEN clock_timestamp() END, "
        "expires_at = clock_timestamp() + make_interval(secs => %(member)s) "
        "WHERE name = %(name)s RETURNING token, clock_ahead_s",
        {"place": place, "agent": agent, "clock": clock_s, "member": MEMBER_S, "name": testbed},
    ).fetchone()
    assert taken is not None
    member = Membership(testbed, int(taken[0]))
    clock = f"; its clock is {taken[1]:+.0f} s off the store's" if abs(taken[1]) >= 2 else ""
    note_event(db, f"{agent} serves {testbed}{clock}", testbed=testbed)
    take_back(db, member)
    return member


def take_back(db: Connection[Any], member: Membership) -> None:
    """Put back the block that the testbed held: its holder is fenced off, or dead, or has no
    block."""
    rows = db.execute(
        "UPDATE pool_blocks SET state = 'queued', expires_at = NULL, lost = lost + 1 "
        "WHERE testbed = %s AND state = 'leased' RETURNING id, run_name, number",
        (member.testbed,),
    ).fetchall()
    for block, run_name, number in rows:
        note_event(
            db,
            f"{member.testbed} was lost while it measured block {number}, which goes back",
            testbed=member.testbed, run_name=run_name, block=block,
        )  # fmt: skip


def speak(db: Connection[Any], member: Membership) -> bool:
    """Note that the agent is alive; returns whether it still acts for the testbed."""
    spoken = db.execute(
        "UPDATE pool_testbeds SET seen_at = clock_timestamp(), "
        "expires_at = clock_timestamp() + make_interval(secs => %s) WHERE name = %s AND token = %s",
        (MEMBER_S, member.testbed, member.token),
    )
    return spoken.rowcount == 1


def leave(db: Connection[Any], member: Membership) -> None:
    """Note that the agent ends."""
    left = db.execute(
        "UPDATE pool_testbeds SET expires_at = NULL, seen_at = clock_timestamp() "
        "WHERE name = %s AND token = %s",
        (member.testbed, member.token),
    )
    if left.rowcount == 1:
        note_event(db, f"the agent of {member.testbed} has ended", testbed=member.testbed)


def state_of(db: Connection[Any], member: Membership) -> str | None:
    """The testbed's state; None when another agent acts for it. Its row is held until the
    transaction ends."""
    row = db.execute(
        "SELECT state FROM pool_testbeds WHERE name = %s AND token = %s FOR UPDATE",
        (member.testbed, member.token),
    ).fetchone()
    return None if row is None else str(row[0])


def take_out(db: Connection[Any], member: Membership, reason: str) -> None:
    """Take out a testbed that is not what it was: it gets no block until a later check passes. The
    same reason is noted once, however often it is found."""
    row = db.execute(
        "SELECT state, reason FROM pool_testbeds "
        "WHERE name = %s AND token = %s AND state IN ('ready', 'out') FOR UPDATE",
        (member.testbed, member.token),
    ).fetchone()
    if row is None:
        return
    db.execute(
        "UPDATE pool_testbeds SET state = 'out', reason = %(reason)s, checks = checks + 1, "
        "check_at = clock_timestamp() + make_interval(secs => "
        "least(%(first)s * power(2, least(checks, 20)), %(longest)s)) WHERE name = %(name)s",
        {
            "reason": reason, "name": member.testbed,
            "first": FIRST_RECHECK_S, "longest": LONGEST_RECHECK_S,
        },
    )  # fmt: skip
    if row[0] != "out" or _kind(row[1]) != _kind(reason):
        note_event(db, f"{member.testbed} is taken out: {reason}", testbed=member.testbed)


def _kind(reason: str) -> str:
    """The reason without its figures."""
    return "".join(one for one in reason if not one.isdigit() and one != ".")


def take_in(db: Connection[Any], member: Membership) -> None:
    """Admit a testbed whose check has passed."""
    back = db.execute(
        "UPDATE pool_testbeds SET state = 'ready', reason = '', checks = 0, check_at = NULL "
        "WHERE name = %s AND token = %s AND state = 'out'",
        (member.testbed, member.token),
    )
    if back.rowcount == 1:
        note_event(db, f"{member.testbed} is back: its checks pass", testbed=member.testbed)


def drained(db: Connection[Any], member: Membership) -> None:
    """Note that a testbed that was to be drained has no block any more."""
    db.execute(
        "UPDATE pool_testbeds SET state = 'drained' "
        "WHERE name = %s AND token = %s AND state = 'draining'",
        (member.testbed, member.token),
    )


def drain(db: Connection[Any], testbed: str, reason: str) -> str:
    """Let the testbed finish its block and take no other; returns its state then. Raises
    `UsageError`."""
    _known(db, testbed)
    holds = db.execute(
        "SELECT 1 FROM pool_blocks WHERE testbed = %s AND state = 'leased' "
        "AND expires_at >= clock_timestamp()",
        (testbed,),
    ).fetchone()
    state = "draining" if holds else "drained"
    db.execute(
        "UPDATE pool_testbeds SET state = %s, reason = %s WHERE name = %s",
        (state, reason, testbed),
    )
    note_event(db, f"{testbed} is {state}: {reason}", testbed=testbed)
    return state


def undrain(db: Connection[Any], testbed: str) -> None:
    """Let the testbed measure again. Raises `UsageError`."""
    _known(db, testbed)
    db.execute(
        "UPDATE pool_testbeds SET state = 'ready', reason = '', checks = 0, check_at = NULL "
        "WHERE name = %s",
        (testbed,),
    )
    note_event(db, f"{testbed} may measure again", testbed=testbed)


def accept(db: Connection[Any], testbed: str) -> None:
    """Make the testbed's state now the one that later checks compare with. Raises `UsageError`."""
    _known(db, testbed)
    db.execute(
        "UPDATE pool_testbeds SET profile = NULL, wire_pps = '[]', checks = 0, "
        "check_at = CASE state WHEN 'out' THEN clock_timestamp() END WHERE name = %s",
        (testbed,),
    )
    note_event(db, f"{testbed} is accepted as it is now", testbed=testbed)


def _known(db: Connection[Any], testbed: str) -> None:
    """Hold the testbed's row. Raises `UsageError` where there is none."""
    if db.execute("SELECT 1 FROM pool_testbeds WHERE name = %s FOR UPDATE", (testbed,)).fetchone():
        return
    names = [one[0] for one in db.execute("SELECT name FROM pool_testbeds ORDER BY name")]
    raise UsageError(
        f"{testbed}: no such testbed in the pool (there: {', '.join(names) or 'none'})"
    )


def profile_of(db: Connection[Any], testbed: str) -> tuple[dict[str, Any] | None, list[float]]:
    """The testbed's profile when it was admitted, and its bare wire's rate then."""
    row = db.execute(
        "SELECT profile, wire_pps FROM pool_testbeds WHERE name = %s", (testbed,)
    ).fetchone()
    return (None, []) if row is None else (row[0], list(row[1]))


def keep_profile(
    db: Connection[Any], member: Membership, profile: dict[str, Any], wire_pps: list[float]
) -> None:
    """Keep the profile that later checks compare with."""
    db.execute(
        "UPDATE pool_testbeds SET profile = %s, wire_pps = %s WHERE name = %s AND token = %s",
        (Jsonb(profile), Jsonb(wire_pps), member.testbed, member.token),
    )


def testbed_states(db: Connection[Any]) -> list[TestbedStatus]:
    """All testbeds, by name."""
    rows = db.execute(
        "SELECT t.name, t.state, t.reason, t.agent, (t.expires_at >= clock_timestamp()) IS TRUE, "
        "extract(epoch FROM clock_timestamp() - t.seen_at)::float8, t.clock_ahead_s, "
        "coalesce((SELECT 'block ' || b.number || ' of ' || c.campaign FROM pool_blocks b "
        "JOIN pool_campaigns c USING (run_name) WHERE b.testbed = t.name AND b.state = 'leased' "
        "AND b.expires_at >= clock_timestamp() LIMIT 1), ''), "
        "(SELECT count(*) FROM pool_blocks b WHERE b.testbed = t.name AND b.state = 'done') "
        "FROM pool_testbeds t ORDER BY t.name"
    )
    return [TestbedStatus(*row) for row in rows]


def wanted_testbeds(db: Connection[Any]) -> list[str]:
    """The testbeds for which there is work now: a block to claim, or a check to try again."""
    rows = db.execute(
        "SELECT name FROM pool_testbeds t WHERE expires_at >= clock_timestamp() AND ("
        "(state = 'out' AND check_at <= clock_timestamp()) OR (state = 'ready' "
        "AND EXISTS (SELECT 1 FROM pool_blocks WHERE (state = 'queued' OR (state = 'leased' "
        "AND expires_at < clock_timestamp())) AND NOT t.name = ANY(unable) "
        "AND (only_on IS NULL OR only_on = t.name)) "
        "AND NOT EXISTS (SELECT 1 FROM pool_blocks b WHERE b.testbed = t.name "
        "AND b.state = 'leased' AND b.expires_at >= clock_timestamp()))) ORDER BY name"
    )
    return [str(row[0]) for row in rows]
