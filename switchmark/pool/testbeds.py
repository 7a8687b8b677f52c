"""The testbeds of a pool: the agent that acts for each, and the states that allow measurements.

An agent that registers gets a token. The token of a later agent is higher, which ends all rights of
the earlier agent. A second agent is refused while the first is alive. All functions take an open
transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.types.json import Jsonb

from switchmark.errors import UnavailableError, UsageError
from switchmark.pool.events import note_event
from switchmark.pool.values import Membership, TestbedStatus

MEMBER_S = 60.0  # an agent elsewhere may take over a testbed that is silent for longer
FIRST_RECHECK_S, LONGEST_RECHECK_S = 10.0, 3600.0  # between the checks of a testbed that is out


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The answer to an agent's report."""

    state: str  # the state of its testbed
    is_check_due: bool  # it is out, and its next check may begin


def register(
    db: Connection[Any], testbed: str, place: str, agent: str, clock_s: float
) -> Membership:
    """Let an agent act for a testbed.

    `place` is equal for agents that cannot be alive at the same time (they hold a lock on one
    machine); `clock_s` is the host's POSIX time, for information. Raises `UnavailableError` while
    another agent acts for it."""
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
            f"testbed {testbed} is served by another agent ({row[1]}; its last report was "
            f"{float(row[3]):.0f} s ago)",
            remedy=f"stop that agent, or wait {MEMBER_S:.0f} s after its end",
        )
    updated = db.execute(
        "UPDATE pool_testbeds SET token = token + 1, place = %(place)s, agent = %(agent)s, "
        "seen_at = clock_timestamp(), clock_ahead_s = %(clock)s - "
        "extract(epoch FROM clock_timestamp()), state = CASE state WHEN 'draining' THEN 'drained' "
        "ELSE state END, check_at = CASE state WHEN 'out' THEN clock_timestamp() END, "
        "expires_at = clock_timestamp() + make_interval(secs => %(member)s) "
        "WHERE name = %(name)s RETURNING token, clock_ahead_s",
        {"place": place, "agent": agent, "clock": clock_s, "member": MEMBER_S, "name": testbed},
    ).fetchone()
    assert updated is not None
    member = Membership(testbed, int(updated[0]))
    ahead_s = updated[1]
    clock = f"; its clock is {ahead_s:+.0f} s off the store's" if abs(ahead_s) >= 2 else ""
    note_event(db, f"{agent} serves {testbed}{clock}", testbed=testbed)
    take_back(db, member)
    return member


def take_back(db: Connection[Any], member: Membership) -> None:
    """Return the block that the testbed holds to the queue.

    Its holder is dead or replaced, or never received the answer to its claim."""
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


def report(db: Connection[Any], member: Membership) -> AgentReport | None:
    """Note that the agent is alive and measures nothing; return None if another agent acts for the
    testbed."""
    row = db.execute(
        "UPDATE pool_testbeds SET seen_at = clock_timestamp(), "
        "expires_at = clock_timestamp() + make_interval(secs => %s), "
        "state = CASE state WHEN 'draining' THEN 'drained' ELSE state END "
        "WHERE name = %s AND token = %s "
        "RETURNING state, (state = 'out' AND check_at <= clock_timestamp()) IS TRUE",
        (MEMBER_S, member.testbed, member.token),
    ).fetchone()
    return None if row is None else AgentReport(*row)


def leave(db: Connection[Any], member: Membership) -> None:
    """Note that the agent ends."""
    left = db.execute(
        "UPDATE pool_testbeds SET expires_at = NULL, seen_at = clock_timestamp() "
        "WHERE name = %s AND token = %s",
        (member.testbed, member.token),
    )
    if left.rowcount == 1:
        note_event(db, f"the agent of {member.testbed} has ended", testbed=member.testbed)


def silent_testbeds(db: Connection[Any]) -> list[str]:
    """Return the testbeds whose agent has not reported for longer than it may.

    That is its membership, or the lease of the block that it measures."""
    rows = db.execute(
        "SELECT name FROM pool_testbeds t WHERE expires_at < clock_timestamp() OR EXISTS ("
        "SELECT 1 FROM pool_blocks b WHERE b.testbed = t.name AND b.state = 'leased' "
        "AND b.expires_at < clock_timestamp() AND t.seen_at < b.expires_at)"
    )
    return [str(row[0]) for row in rows]


def state_of(db: Connection[Any], member: Membership) -> str | None:
    """Return the testbed's state and lock its row; None if another agent acts for it."""
    row = db.execute(
        "SELECT state FROM pool_testbeds WHERE name = %s AND token = %s FOR UPDATE",
        (member.testbed, member.token),
    ).fetchone()
    return None if row is None else str(row[0])


def take_out(db: Connection[Any], member: Membership, reason: str) -> None:
    """Take out a testbed whose check failed: it gets no block until a later check passes.

    An event is written once for each kind of problem."""
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
    if row[0] != "out" or _without_figures(row[1]) != _without_figures(reason):
        note_event(db, f"{member.testbed} is taken out: {reason}", testbed=member.testbed)


def _without_figures(reason: str) -> str:
    return "".join(char for char in reason if not char.isdigit() and char != ".")


def admit(db: Connection[Any], member: Membership) -> None:
    """Let a testbed whose check has passed measure again."""
    back = db.execute(
        "UPDATE pool_testbeds SET state = 'ready', reason = '', checks = 0, check_at = NULL "
        "WHERE name = %s AND token = %s AND state = 'out'",
        (member.testbed, member.token),
    )
    if back.rowcount == 1:
        note_event(db, f"{member.testbed} is back: its checks pass", testbed=member.testbed)


def drain(db: Connection[Any], testbed: str, reason: str) -> str:
    """Let the testbed finish its block and take no other; return its new state.

    Raises `UsageError`."""
    _lock_row(db, testbed)
    lease = db.execute(
        "SELECT 1 FROM pool_blocks WHERE testbed = %s AND state = 'leased' "
        "AND expires_at >= clock_timestamp()",
        (testbed,),
    ).fetchone()
    state = "draining" if lease else "drained"
    db.execute(
        "UPDATE pool_testbeds SET state = %s, reason = %s WHERE name = %s",
        (state, reason, testbed),
    )
    note_event(db, f"{testbed} is {state}: {reason}", testbed=testbed)
    return state


def undrain(db: Connection[Any], testbed: str) -> None:
    """Let the testbed measure again. Raises `UsageError`."""
    _lock_row(db, testbed)
    db.execute(
        "UPDATE pool_testbeds SET state = 'ready', reason = '', checks = 0, check_at = NULL "
        "WHERE name = %s",
        (testbed,),
    )
    note_event(db, f"{testbed} may measure again", testbed=testbed)


def accept(db: Connection[Any], testbed: str) -> None:
    """Forget the testbed's profile: its next check makes a new one. Raises `UsageError`."""
    _lock_row(db, testbed)
    db.execute(
        "UPDATE pool_testbeds SET profile = NULL, wire_pps = '[]', checks = 0, "
        "check_at = CASE state WHEN 'out' THEN clock_timestamp() END WHERE name = %s",
        (testbed,),
    )
    note_event(db, f"{testbed} is accepted as it is now", testbed=testbed)


def _lock_row(db: Connection[Any], testbed: str) -> None:
    """Lock the testbed's row until the transaction ends. Raises `UsageError` if there is none."""
    if db.execute("SELECT 1 FROM pool_testbeds WHERE name = %s FOR UPDATE", (testbed,)).fetchone():
        return
    names = [row[0] for row in db.execute("SELECT name FROM pool_testbeds ORDER BY name")]
    raise UsageError(
        f"{testbed}: no such testbed in the pool (known: {', '.join(names) or 'none'})"
    )


def profile_of(db: Connection[Any], testbed: str) -> tuple[dict[str, Any] | None, list[float]]:
    """Return the testbed's profile when it was admitted, and the rates of its baseline then."""
    row = db.execute(
        "SELECT profile, wire_pps FROM pool_testbeds WHERE name = %s", (testbed,)
    ).fetchone()
    return (None, []) if row is None else (row[0], list(row[1]))


def keep_profile(
    db: Connection[Any], member: Membership, profile: dict[str, Any], wire_pps: list[float]
) -> None:
    """Store the profile that later checks compare with."""
    db.execute(
        "UPDATE pool_testbeds SET profile = %s, wire_pps = %s WHERE name = %s AND token = %s",
        (Jsonb(profile), Jsonb(wire_pps), member.testbed, member.token),
    )


def testbed_states(db: Connection[Any]) -> list[TestbedStatus]:
    """Return the states of all testbeds, sorted by name."""
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
