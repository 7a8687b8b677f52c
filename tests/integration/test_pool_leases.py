"""The lease of a block in a real PostgreSQL: claims, refusals, and records that count once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import Connection

from switchmark.cli import run_in_pool
from switchmark.errors import UnavailableError, UsageError
from switchmark.model.trial import Trial
from switchmark.pool import campaigns, client, leases, testbeds
from switchmark.pool.agent import Agent, AgentReplaced, HealthCheck, StoreArchive
from switchmark.pool.client import blocks_of
from switchmark.pool.database import PoolDatabase
from switchmark.pool.events import events_since
from switchmark.pool.proving import NextBlock, TestbedSchedules, deciding_testbeds, first_blocks
from switchmark.pool.values import BlockLease, LeaseLost, Membership
from switchmark.record import Record
from switchmark.results.run_info import RunInfo
from switchmark.statistics.boundaries import FIRST_ANALYSIS
from switchmark.store.address import read_store_address
from switchmark.store.database import connected
from switchmark.store.errors import StoreConflictError
from switchmark.store.index import IndexedAttempt, add_attempts, add_run
from switchmark.store.store import init_store
from tests.pool_fakes import simulated_campaign, with_simulated
from tests.postgres import cluster
from tests.unit.block_fakes import at_rate
from tests.unit.records import synthetic_record, synthetic_trial

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster() as postgres:
        init_store(read_store_address(postgres.url()), str(tmp_path_factory.mktemp("objects")))
        yield postgres.url()


@pytest.fixture
def db(server: str) -> Iterator[Connection[Any]]:
    """A connection that commits each statement, and empty tables."""
    with connected(read_store_address(server)) as opened:
        opened.execute(
            "TRUNCATE pool_campaigns, pool_blocks, pool_testbeds, pool_events, runs CASCADE"
        )
        yield opened


def new_run(db: Connection[Any], name: str) -> None:
    info = RunInfo(
        run_id=name, campaign="simulated", campaign_sha256="", started_at="2026-01-01T00:00:00Z",
        switchmark_version="0", definition={}, settings={}, host={},
    )  # fmt: skip
    add_run(db, name, info, {})


def handed_in(db: Connection[Any], blocks: int = 3, run_name: str = "run1", **more: Any) -> str:
    campaign = simulated_campaign(blocks)
    new_run(db, run_name)
    with db.transaction():
        campaigns.submit(db, run_name, campaign, blocks_of(campaign, with_simulated()), **more)
    return run_name


def member(db: Connection[Any], name: str, place: str = "") -> Membership:
    with db.transaction():
        return testbeds.register(db, name, place or f"host-{name}", f"agent of {name}", 0.0)


def claim_any(db: Connection[Any], lab1: Membership) -> BlockLease | None:
    """Claim the first open block that this testbed may measure, as Dask would place it."""
    for block in leases.open_block_ids(db):
        if (lease := leases.claim(db, lab1, block)) is not None:
            return lease
    return None


def check_due(db: Connection[Any], lab1: Membership) -> bool:
    report = testbeds.report(db, lab1)
    assert report is not None
    return report.is_check_due


def only_block(db: Connection[Any]) -> int:
    (row,) = db.execute("SELECT id FROM pool_blocks").fetchall()
    return int(row[0])


def claimed(db: Connection[Any], lab1: Membership) -> BlockLease:
    with db.transaction():
        lease = claim_any(db, lab1)
    assert lease is not None
    return lease


def store_trial(
    db: Connection[Any], lease: BlockLease, trial: Trial, attempt: int | None = None
) -> None:
    """Index a trial like the store, without the file of the record."""
    row = IndexedAttempt(
        trial.id, attempt or lease.token, "finished", trial.switch,
        "2026-01-01T00:00:00Z", b"0" * 32, 1, {},
        block=lease.number, testbed=lease.testbed,
    )  # fmt: skip
    found = db.execute("SELECT run FROM runs WHERE name = %s", (lease.run_name,)).fetchone()
    assert found is not None
    add_attempts(db, found[0], [row], guard=lambda other_db: leases.fence(other_db, lease))


def expire(db: Connection[Any], lease: BlockLease) -> None:
    """End the lease now, as if its agent had been silent."""
    db.execute(
        "UPDATE pool_blocks SET expires_at = clock_timestamp() - interval '1 s' WHERE id = %s",
        (lease.block,),
    )


def event_texts(db: Connection[Any]) -> list[str]:
    return [entry.text for entry in events_since(db, 0)]


def test_each_block_goes_to_one_testbed_and_a_testbed_has_one(db: Connection[Any]) -> None:
    handed_in(db)
    lab1, other = member(db, "lab1"), member(db, "lab2")
    first, second = claimed(db, lab1), claimed(db, other)
    assert {first.number, second.number} == {0, 1}
    with db.transaction():
        assert claim_any(db, lab1) is None
    for trial in first.todo:
        store_trial(db, first, trial)
    with db.transaction():
        assert not leases.finish(db, first)
    assert claimed(db, lab1).number == 2


def test_concurrent_claims_get_different_blocks(db: Connection[Any], server: str) -> None:
    handed_in(db, 24)
    members = [member(db, f"lab{number}") for number in range(8)]
    got: list[int] = []

    def work(lab1: Membership) -> None:
        with connected(read_store_address(server)) as other_db:
            for _ in range(3):
                with other_db.transaction():
                    lease = claim_any(other_db, lab1)
                assert lease is not None
                got.append(lease.number)
                with other_db.transaction():
                    leases.finish(other_db, lease)

    threads = [threading.Thread(target=work, args=(entry,)) for entry in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(24))
    assert campaigns.status_of(db, "run1").state == "finished"


def test_ended_lease_can_neither_deploy_nor_store(db: Connection[Any]) -> None:
    handed_in(db, 1)
    lab1, other = member(db, "lab1"), member(db, "lab2")
    old = claimed(db, lab1)
    store_trial(db, old, old.trials[0])
    expire(db, old)
    new = claimed(db, other)
    assert new.block == old.block and new.token > old.token
    for late in (
        lambda: leases.keep_up(db, old),
        lambda: store_trial(db, old, old.trials[1]),
        lambda: leases.finish(db, old),
    ):
        with pytest.raises(LeaseLost, match="lab2 has lease 2 now"), db.transaction():
            late()
    # Contenders are compared within a testbed, so the record of lab1 stays but does not count.
    assert not new.stored
    for trial in new.todo:
        store_trial(db, new, trial)
    with db.transaction():
        assert leases.finish(db, new)
    counted = db.execute("SELECT testbed, count(*) FROM attempts WHERE NOT superseded GROUP BY 1")
    assert counted.fetchall() == [("lab2", 2)]
    assert db.execute("SELECT count(*) FROM attempts").fetchone() == (3,)
    assert any(
        "lab1 did not renew its lease of block 0 in time" in entry for entry in event_texts(db)
    )


def test_ended_lease_is_refused_without_a_successor(db: Connection[Any]) -> None:
    handed_in(db, 1)
    old = claimed(db, member(db, "lab1"))
    expire(db, old)
    with pytest.raises(LeaseLost, match="it was not renewed in time"), db.transaction():
        store_trial(db, old, old.trials[0])


def test_report_in_time_keeps_the_lease(db: Connection[Any]) -> None:
    handed_in(db, 1)
    lease = claimed(db, member(db, "lab1"))
    db.execute("UPDATE pool_blocks SET expires_at = clock_timestamp() + interval '5 s'")
    with db.transaction():
        leases.keep_up(db, lease)
    left = db.execute(
        "SELECT extract(epoch FROM expires_at - clock_timestamp()) FROM pool_blocks"
    ).fetchone()
    assert left is not None and left[0] > 20


def test_testbed_continues_its_block_after_a_kill(db: Connection[Any]) -> None:
    handed_in(db, 2)
    old = claimed(db, member(db, "lab1"))
    store_trial(db, old, old.trials[0])
    again = claimed(db, member(db, "lab1"))  # restarted at the same place
    assert again.block == old.block and again.stored == {old.trials[0].id}
    assert [trial.id for trial in again.todo] == [old.trials[1].id]
    with pytest.raises(LeaseLost), db.transaction():
        leases.keep_up(db, old)


def test_a_trial_counts_once(db: Connection[Any]) -> None:
    handed_in(db, 1)
    lease = claimed(db, member(db, "lab1"))
    store_trial(db, lease, lease.trials[0])
    store_trial(db, lease, lease.trials[0])  # again, because the answer was lost
    with pytest.raises(StoreConflictError, match="finished in the store before"):
        store_trial(db, lease, lease.trials[0], attempt=7)


def test_second_agent_of_a_testbed_is_refused(db: Connection[Any]) -> None:
    handed_in(db)
    first = member(db, "lab1")
    with pytest.raises(
        UnavailableError, match=r"lab1 is served by .*agent of lab1; its last report"
    ):
        member(db, "lab1", "elsewhere")
    db.execute("UPDATE pool_testbeds SET expires_at = clock_timestamp() - interval '1 s'")
    second = member(db, "lab1", "elsewhere")
    with db.transaction():
        assert claim_any(db, first) is None
        assert testbeds.report(db, first) is None
    assert claimed(db, second).number == 0


def test_unfit_testbed_gets_no_block_and_one_event(db: Connection[Any]) -> None:
    handed_in(db)
    lab1 = member(db, "lab1")
    for carried in ("1.2", "1.3", "1.25"):
        with db.transaction():
            testbeds.take_out(db, lab1, f"the baseline is {carried} Mpps")
    with db.transaction():
        assert claim_any(db, lab1) is None
        assert not check_due(db, lab1)
    assert sum("is taken out" in entry for entry in event_texts(db)) == 1
    db.execute("UPDATE pool_testbeds SET check_at = clock_timestamp()")
    assert check_due(db, lab1)
    db.execute("UPDATE pool_testbeds SET check_at = check_at + interval '1 h'")
    lab1 = member(db, "lab1")  # a new agent checks its testbed at once
    assert check_due(db, lab1)
    with db.transaction():
        testbeds.admit(db, lab1)
    assert claimed(db, lab1).number == 0


def test_accepted_testbed_is_checked_again_at_once(db: Connection[Any]) -> None:
    lab1 = member(db, "lab1")
    with db.transaction():
        testbeds.take_out(db, lab1, "the kernel is another")
    assert not check_due(db, lab1)
    with db.transaction():
        testbeds.accept(db, "lab1")
    assert check_due(db, lab1)


def test_drained_testbed_ends_its_block_and_takes_no_other(db: Connection[Any]) -> None:
    handed_in(db)
    lab1 = member(db, "lab1")
    lease = claimed(db, lab1)
    with db.transaction():
        assert testbeds.drain(db, "lab1", "new cables") == "draining"
        leases.keep_up(db, lease)
        leases.finish(db, lease)
        assert testbeds.report(db, lab1) == testbeds.AgentReport("drained", is_check_due=False)
        assert claim_any(db, lab1) is None
        assert testbeds.testbed_states(db)[0].state == "drained"
        testbeds.undrain(db, "lab1")
    assert claimed(db, lab1).number == 1
    with pytest.raises(UsageError, match=r"lab7: no such testbed in the pool .known: lab1"):
        testbeds.drain(db, "lab7", "")


def test_cancelled_campaign_ends_after_the_trial(
    db: Connection[Any],
) -> None:
    handed_in(db)
    lease = claimed(db, member(db, "lab1"))
    store_trial(db, lease, lease.trials[0])
    with db.transaction():
        left = campaigns.cancel(db, "simulated")
    assert left.state == "cancelled" and left.trials == {"finished": 1}
    with pytest.raises(LeaseLost, match="the campaign was cancelled"), db.transaction():
        leases.keep_up(db, lease)
    with pytest.raises(UsageError, match=r"no open campaign of this name .open: none"):
        campaigns.cancel(db, "simulated")


def test_block_that_ends_every_agent_is_abandoned(db: Connection[Any]) -> None:
    handed_in(db, 1)
    lab1 = member(db, "lab1")
    for _ in range(leases.GIVEN_UP_AFTER):
        expire(db, claimed(db, lab1))
    with db.transaction():
        assert claim_any(db, lab1) is None
    assert campaigns.status_of(db, "run1").blocks == {"failed": 1}
    assert campaigns.status_of(db, "run1").state == "finished"
    assert "is given up" in "\n".join(event_texts(db))


def test_block_that_ends_restarted_agents_is_abandoned(
    db: Connection[Any],
) -> None:
    handed_in(db, 1)
    for _ in range(leases.GIVEN_UP_AFTER):
        claimed(db, member(db, "lab1"))
    lab1 = member(db, "lab1")
    with db.transaction():
        assert claim_any(db, lab1) is None
    assert campaigns.status_of(db, "run1").blocks == {"failed": 1}


class Testbed:
    """A testbed that passes every check and whose blocks end with a given result."""

    __test__ = False  # not a test class

    def __init__(self, end: BaseException, meanwhile: Callable[[], object] = lambda: None) -> None:
        self._end = end
        self._meanwhile = meanwhile  # called during the check

    def check(self, profile: Mapping[str, Any] | None, wire_pps: list[float]) -> HealthCheck:
        self._meanwhile()
        return HealthCheck(None, profile or {}, ())

    def measure(self, *_: object) -> None:
        raise self._end

    def clean(self) -> list[str]:
        return []


@contextmanager
def agent_at(server: str, lab1: Membership, executor: Testbed) -> Iterator[Agent]:
    database = PoolDatabase(read_store_address(server))
    try:
        yield Agent(lab1, database, StoreArchive(database), executor, str)
    finally:
        database.close()


def test_block_is_abandoned_for_bugs_not_for_stopped_agents(
    db: Connection[Any], server: str
) -> None:
    handed_in(db, 1)
    lab1 = member(db, "lab1")
    ends: list[type[BaseException]] = [KeyboardInterrupt, ZeroDivisionError]
    for end in ends:
        with agent_at(server, lab1, Testbed(end())) as agent:
            for _ in range(leases.GIVEN_UP_AFTER):
                assert campaigns.status_of(db, "run1").blocks == {"queued": 1}
                with pytest.raises(end):
                    agent.measure(only_block(db))
    with agent_at(server, lab1, Testbed(ZeroDivisionError())) as agent:
        block = only_block(db)
        assert agent.measure(block) == f"lab1: block {block} is not open"
    assert campaigns.status_of(db, "run1").blocks == {"failed": 1}


def test_replaced_agent_leaves_the_block_of_the_new_agent(db: Connection[Any], server: str) -> None:
    handed_in(db)
    leases_held: list[BlockLease] = []
    replace = Testbed(
        ZeroDivisionError(), lambda: leases_held.append(claimed(db, member(db, "lab1")))
    )
    with agent_at(server, member(db, "lab1"), replace) as agent, pytest.raises(AgentReplaced):
        agent.measure(leases.open_block_ids(db)[0])
    with db.transaction():
        leases.keep_up(db, leases_held[0])
    assert campaigns.status_of(db, "run1").blocks == {"leased": 1, "queued": 2}


def test_same_campaign_from_two_clients_is_shared(db: Connection[Any], server: str) -> None:
    campaign = simulated_campaign(3)
    blocks = blocks_of(campaign, with_simulated())
    digest = campaigns.submission_of(campaign, baseline=True)
    found: list[str] = []

    def submit(number: int) -> None:
        with connected(read_store_address(server)) as other_db, other_db.transaction():
            campaigns.lock_submission(other_db, digest)
            run_name = campaigns.find_submission(other_db, digest)
            if run_name is None:
                run_name = f"run{number}"
                new_run(other_db, run_name)
                campaigns.submit(other_db, run_name, campaign, blocks)
            found.append(run_name)

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 4
    assert db.execute("SELECT count(*) FROM pool_blocks").fetchone() == (3,)


def proving(db: Connection[Any], *names: str) -> str:
    """A campaign that each of these testbeds decides for itself."""
    campaign = simulated_campaign(0)
    blocks = blocks_of(campaign, with_simulated())
    info = RunInfo(
        run_id="run1", campaign="simulated", campaign_sha256="", started_at="2026-01-01T00:00:00Z",
        switchmark_version="0", definition={}, settings={"testbeds": list(names)}, host={},
    )  # fmt: skip
    add_run(db, "run1", info, {})
    with db.transaction():
        campaigns.submit(db, "run1", campaign, blocks, first=first_blocks(campaign, blocks, names))
    return "run1"


def test_block_for_a_testbed_goes_to_no_other(db: Connection[Any]) -> None:
    lab1, other, late = member(db, "lab1"), member(db, "lab2"), member(db, "lab3")
    assert deciding_testbeds(db) == ("lab1", "lab2", "lab3")
    proving(db, "lab1", "lab2")
    opened = leases.open_blocks(db, leases.open_block_ids(db))
    assert [block.only_on for block in opened] == ["lab1", "lab2"]
    second, first = claimed(db, other), claimed(db, lab1)
    assert (first.number, second.number) == (0, 1)
    assert {trial.repetition for trial in second.trials} == {1}
    assert first.testbeds == ("lab1", "lab2")
    with db.transaction():
        assert claim_any(db, late) is None
    expire(db, first)
    with db.transaction():
        assert claim_any(db, late) is None
    again = claimed(db, lab1)
    assert (again.number, again.token) == (0, 2)


def test_next_block_is_opened_with_the_end_of_a_block(
    db: Connection[Any],
) -> None:
    run, lab1 = proving(db, "lab1"), member(db, "lab1")
    lease = claimed(db, lab1)
    following = NextBlock("lab1", 1, tuple(trial.repeated(1) for trial in lease.trials), 60.0)
    with db.transaction():
        assert not leases.finish(db, lease, following)
        assert not leases.finish(db, lease, following)  # repeated, since the answer was lost
    assert campaigns.status_of(db, run).blocks == {"done": 1, "queued": 1}
    last = claimed(db, lab1)
    with db.transaction():
        assert leases.finish(db, last)
    over = campaigns.status_of(db, run)
    assert (over.state, over.progress) == ("finished", "0")


def test_unfit_testbed_ends_its_part_alone(db: Connection[Any]) -> None:
    run, lab1, other = proving(db, "lab1", "lab2"), member(db, "lab1"), member(db, "lab2")
    lease = claimed(db, lab1)
    with db.transaction():
        leases.refuse(db, lease, "ovs-dpdk is not installed")
    assert campaigns.status_of(db, run).state == "open"
    rest = claimed(db, other)
    with db.transaction():
        assert leases.finish(db, rest)
    assert campaigns.status_of(db, run).state == "finished"


def test_unreachable_testbed_is_abandoned_at_the_end(db: Connection[Any]) -> None:
    lab1, other = member(db, "lab1"), member(db, "lab2")
    run = proving(db, "lab1", "lab2")
    with db.transaction():
        testbeds.take_out(db, other, "the baseline is half of its rate")
        assert leases.abandon_unreachable(db, after_s=0) == []  # lab1 has a block
    lease = claimed(db, lab1)
    with db.transaction():
        leases.finish(db, lease)
        assert leases.abandon_unreachable(db) == []  # it may recover
        (message,) = leases.abandon_unreachable(db, after_s=0)
    assert message.startswith("lab2 is out: the baseline") and message in event_texts(db)
    assert campaigns.status_of(db, run).state == "finished"


def ago(db: Connection[Any], column: str, minutes: float) -> None:
    """Set this time of lab2, or of all blocks, back by some minutes."""
    table = "pool_blocks" if column == "queued_at" else "pool_testbeds"
    where = "" if column == "queued_at" else " WHERE name = 'lab2'"
    statement = (
        f"UPDATE {table} SET {column} = clock_timestamp() - make_interval(mins => %s){where}"
    )
    db.execute(statement.encode(), (minutes,))


@pytest.mark.parametrize("away", ["is out", "has left", "is silent"])
def test_wait_for_a_testbed_begins_when_it_went_away(db: Connection[Any], away: str) -> None:
    lab1, other = member(db, "lab1"), member(db, "lab2")
    proving(db, "lab1", "lab2")
    lease = claimed(db, lab1)
    with db.transaction():
        leases.finish(db, lease)
    ago(db, "queued_at", 60)
    ago(db, "state_since", 60)
    ago(db, "seen_at", 60)
    with db.transaction():
        if away == "is out":
            testbeds.take_out(db, other, "the baseline is half of its rate")
        elif away == "has left":
            testbeds.leave(db, other)
    since = {"is out": "state_since", "has left": "seen_at", "is silent": "expires_at"}[away]
    if away == "is silent":
        ago(db, since, 0)
    with db.transaction():
        assert leases.abandon_unreachable(db) == []
    ago(db, since, 9)
    assert leases.abandon_unreachable(db) == []
    ago(db, since, 11)
    assert len(leases.abandon_unreachable(db)) == 1


def test_recently_queued_block_is_not_abandoned(db: Connection[Any]) -> None:
    lab1 = member(db, "lab1")
    with db.transaction():
        testbeds.take_out(db, lab1, "the baseline is half of its rate")
    db.execute("UPDATE pool_testbeds SET state_since = clock_timestamp() - interval '1 h'")
    proving(db, "lab1")
    with db.transaction():
        assert leases.abandon_unreachable(db) == []


@pytest.mark.parametrize(
    ("stored", "message", "code"),
    [(2, "3 trials finished, 0 failed", 0), (1, "2 trials finished, 1 failed", 1)],
)
def test_skipped_trials_are_not_requested(
    db: Connection[Any], server: str, monkeypatch: pytest.MonkeyPatch, capsys: Any,
    stored: int, message: str, code: int,
) -> None:  # fmt: skip
    """Each of two testbeds has two trials; the second trial is skipped after the first."""
    lab1, other = member(db, "lab1"), member(db, "lab2")
    run = proving(db, "lab1", "lab2")
    lease, left = claimed(db, lab1), claimed(db, other)
    for trial in lease.trials[:stored]:
        store_trial(db, lease, trial)
    store_trial(db, left, left.trials[0])
    with db.transaction():
        leases.refuse(db, lease, "ovs-dpdk is not installed")
        leases.give_back(db, left, "its other host is lost")
        testbeds.take_out(db, other, "its other host is lost")
        assert len(leases.abandon_unreachable(db, after_s=0)) == 1
    monkeypatch.setattr(
        client, "submit_campaign", lambda *_, **__: client.SubmittedRun(run, is_new=True)
    )
    monkeypatch.setattr(run_in_pool, "_show", lambda *_: False)
    database = PoolDatabase(read_store_address(server))
    ended = run_in_pool.run_in_pool(
        simulated_campaign(0), with_simulated(), database,
        campaign_text="", overrides=[], baseline=True, again=False,
    )  # fmt: skip
    database.close()
    assert ended == code
    assert message in capsys.readouterr().err


def test_campaign_that_proves_needs_an_agent(db: Connection[Any]) -> None:
    with pytest.raises(UsageError, match="start agents first"):
        deciding_testbeds(db)


def test_every_agent_gets_the_same_next_block(db: Connection[Any], server: str) -> None:
    """An agent that continues, and an agent that restarts after each block."""
    proving(db, "lab1", "lab2")
    lab1 = member(db, "lab1")
    database = PoolDatabase(read_store_address(server))
    archive, lasting = StoreArchive(database), TestbedSchedules(database)
    draw = random.Random(1)
    blocks = 0
    while True:
        with db.transaction():
            lease = claim_any(db, lab1)
        if lease is None:
            break
        assert {trial.repetition for trial in lease.trials} == {2 * blocks}
        for trial in lease.trials:
            archive.enter(lease, measured(lease, trial, draw))
        following = lasting.next_after(lease)
        assert (
            following == lasting.next_after(lease) == TestbedSchedules(database).next_after(lease)
        )
        with db.transaction():
            leases.finish(db, lease, following)
        blocks += 1
    assert blocks == FIRST_ANALYSIS  # a lead of 50 % is proven at the first interim analysis
    database.close()


def measured(lease: BlockLease, trial: Trial, draw: random.Random) -> Record:
    record = synthetic_record(synthetic_trial(switch="direct", duration_s=trial.duration_s))
    assert record.throughput is not None
    rate_pps = 1e6 * 1.5 ** int(trial.contender[1:]) * draw.lognormvariate(0, 0.01)
    return record.model_copy(
        update={
            "trial": trial, "trial_id": trial.id, "campaign": lease.campaign,
            "run_id": lease.run_id, "throughput": at_rate(record.throughput, rate_pps),
            "engines": [],
            "provenance": {"testbed": lease.testbed, "fencing_token": lease.token},
        }
    )  # fmt: skip
