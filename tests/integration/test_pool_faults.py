"""A pool with real processes and a real PostgreSQL, and what happens when something of it fails.

Nothing may be lost, stored twice, or left behind; testbeds are simulated. More of it, at random:
tools/pool-chaos.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from switchmark.cli.run_in_pool import _show
from switchmark.pool.database import PoolDatabase
from switchmark.results.answer import LeadVerdict, answer_run
from switchmark.results.store import open_run
from switchmark.statistics.boundaries import FIRST_LOOK
from switchmark.store.address import read_store_address
from switchmark.store.source import StoreSource
from switchmark.switch.registry import usual_overhead_s
from tests.pool_judge import check_campaign
from tests.pool_stand import PoolStand, pool_stand, wait_for
from tests.postgres import Cluster, programs

pytestmark = [pytest.mark.integration]
HELD_S = 50.0  # less than a statement or a transaction may take


@pytest.fixture
def stand() -> Iterator[PoolStand]:
    with pool_stand() as made:
        yield made


def ready(stand: PoolStand, *agents: str, blocks: int = 8, lease_s: float = 60.0) -> None:
    stand.serve()
    for name in agents:
        stand.agent(name)
    stand.laptop("laptop", blocks, lease_s=lease_s)


def stopped_in_a_trial(stand: PoolStand, testbed: str) -> None:
    """Until its agent is stopped while a trial runs there: one that has ended meanwhile is none."""
    marks = stand.state_of(testbed) / "deployed"
    status = Path(f"/proc/{stand.running[testbed].pid}/stat")

    def stopped() -> bool:
        return status.read_text().rpartition(")")[2].split()[0] == "T"

    def met() -> bool | None:
        if not marks.exists():
            return None
        stand.signal(testbed, signal.SIGSTOP)
        wait_for(lambda: stopped() or None, "its stop", stand)
        if marks.exists():
            return True
        stand.signal(testbed, signal.SIGCONT)
        return None

    wait_for(met, f"a trial on {testbed}", stand)


def test_an_agent_killed_in_mid_block_loses_nothing(stand: PoolStand) -> None:
    stand.trial_ms = 300
    ready(stand, "lab1", blocks=3)
    stopped_in_a_trial(stand, "lab1")
    stand.kill("lab1")
    assert (stand.state_of("lab1") / "deployed").exists()
    stand.agent("lab1")
    assert stand.wait_finished().trials == {"finished": 6}
    assert stand.exit_code("laptop") == 0
    assert any("lab1 was lost while it measured block" in one for one in stand.events())
    check_campaign(stand)


def test_an_agent_that_slept_through_its_lease_is_refused(stand: PoolStand) -> None:
    stand.trial_ms = 300
    ready(stand, "lab1", blocks=4, lease_s=2.0)
    stopped_in_a_trial(stand, "lab1")
    stand.agent("lab2")  # it takes over what lab1 has, as soon as the lease is over
    assert stand.wait_finished().trials == {"finished": 8}
    stand.signal("lab1", signal.SIGCONT)

    def told() -> bool | None:
        return any("lab1 was refused and ends block" in one for one in stand.events()) or None

    wait_for(told, "the refusal", stand)
    check_campaign(stand)


@pytest.mark.slow
def test_scheduler_and_database_may_be_restarted_and_laptops_may_leave(stand: PoolStand) -> None:
    stand.trial_ms = 150
    stand.clocks_s = {"lab1": 300.0, "lab2": -240.0}
    ready(stand, "lab1", "lab2", blocks=20)
    stand.wait_trials(4)
    stand.kill("laptop")
    stand.laptop("second", 20)
    stand.kill("serve")
    stand.wait_trials(6)
    stand.postgres.stop("immediate")
    stand.serve()
    stand.postgres.start()
    stand.laptop("third", 20)
    assert stand.wait_finished().trials == {"finished": 40}
    assert stand.exit_code("second") == stand.exit_code("third") == 0
    assert sum("is submitted" in one for one in stand.events()) == 1
    assert any("its clock is +300 s off the store's" in one for one in stand.events())
    check_campaign(stand)


def test_a_submitting_client_waits_for_a_database_that_restarts(stand: PoolStand) -> None:
    """It is down when one client submits, and when another comes back to the campaign."""
    stand.serve()
    stand.agent("lab1")
    for name in ("first", "second"):
        stand.postgres.stop("immediate")
        stand.laptop(name, 2)
        wait_until_client_waits(stand, name)
        stand.postgres.start()
        assert stand.exit_code(name) == 0, stand.said(name)
    assert printed_run(stand, "first") == printed_run(stand, "second")
    check_campaign(stand)


def wait_until_client_waits(stand: PoolStand, name: str) -> None:
    def is_waiting() -> bool | None:
        assert stand.running[name].poll() is None, stand.said(name)
        return "waiting for the store" in stand.said(name) or None

    wait_for(is_waiting, f"the message of {name}", stand)


def test_two_laptops_that_hand_in_the_same_at_the_same_moment_get_one(stand: PoolStand) -> None:
    """Both are held where a run is entered into the store, until both wait."""
    database, watching = stand.database(), stand.database()

    def waiting() -> bool | None:
        with watching.transaction() as db:
            row = db.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                "AND application_name IN ('one', 'another')"
            ).fetchone()
        return True if row == (2,) else None

    with database.transaction() as held:
        held.execute("LOCK TABLE runs IN EXCLUSIVE MODE")
        stand.laptop("one", 2)
        stand.laptop("another", 2)
        wait_for(waiting, "both laptops", stand, HELD_S)
    watching.close()
    stand.serve()
    stand.agent("lab1")
    assert stand.wait_finished().trials == {"finished": 4}
    assert stand.exit_code("one") == stand.exit_code("another") == 0
    assert printed_run(stand, "one") == printed_run(stand, "another")
    assert sum("is submitted" in one for one in stand.events()) == 1
    with database.transaction() as db:
        for table in ("runs", "pool_campaigns"):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)
    database.close()
    check_campaign(stand)


@pytest.mark.slow
def test_hosts_whose_clocks_are_minutes_apart_agree(stand: PoolStand) -> None:
    """Leases, tokens and the order of runs are of the database's clock alone."""
    stand.trial_ms = 300
    ahead, behind = 420.0, -420.0
    stand.host_clocks_s = {"lab1": ahead, "lab2": behind, "early": ahead, "late": behind}
    stand.serve()
    stand.agent("lab1")
    stand.laptop("early", 4, lease_s=2.0)
    stopped_in_a_trial(stand, "lab1")
    stand.agent("lab2")
    assert stand.wait_finished().trials == {"finished": 8}
    stand.signal("lab1", signal.SIGCONT)
    wait_for(
        lambda: any("lab1 was refused and ends block" in one for one in stand.events()) or None,
        "the refusal",
        stand,
    )
    check_campaign(stand)
    for clock in ("+420", "-420"):
        assert any(f"its clock is {clock} s off the store's" in one for one in stand.events())
    first = printed_run(stand, "early")
    stand.laptop("late", 2, lease_s=2.0)
    assert stand.exit_code("late") == 0
    runs = StoreSource(read_store_address(stand.store)).names()
    assert runs == [first, printed_run(stand, "late")]


def printed_run(stand: PoolStand, laptop: str) -> str:
    """The run that a laptop has handed in."""
    return next(one for one in stand.said(laptop).splitlines() if one.startswith("simulated-"))


@pytest.mark.slow
def test_record_files_wait_for_their_store(stand: PoolStand) -> None:
    ready(stand, "lab1", blocks=10)
    stand.wait_trials(2)
    away = stand.objects.rename(stand.folder / "away")
    wait_for(
        lambda: any("waiting for the store" in one for one in stand.events()) or None,
        "a word of it",
        stand,
    )
    away.rename(stand.objects)
    assert stand.wait_finished().trials == {"finished": 20}
    check_campaign(stand)


@pytest.mark.slow
def test_a_testbed_that_is_unfit_for_ever_costs_the_campaign_nothing(stand: PoolStand) -> None:
    (stand.state_of("lab2") / "unfit").write_text("the bare wire carries half of what it did")
    ready(stand, "lab1", "lab2", blocks=6)
    assert stand.wait_finished().trials == {"finished": 12}
    assert sum("lab2 is taken out: the bare wire" in one for one in stand.events()) == 1
    check_campaign(stand)


@pytest.mark.slow
def test_a_second_agent_of_a_testbed_is_refused(stand: PoolStand) -> None:
    ready(stand, "lab1", blocks=30)
    stand.wait_trials(2)
    stand.agent("lab1", place="elsewhere", name="second")
    assert stand.exit_code("second") == 3
    assert "testbed lab1 is served by another agent" in stand.said("second")
    assert stand.wait_finished().trials == {"finished": 60}
    check_campaign(stand)


@contextmanager
def on_a_small_disk() -> Iterator[Cluster]:
    """A PostgreSQL that has a hundred megabytes."""
    programs()
    folder = Path(tempfile.mkdtemp(prefix="sm-pg-", dir="/tmp"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=110m", "tmpfs", str(folder)], check=True)
    try:
        shutil.chown(folder, "postgres")
        server = Cluster(folder)
        server.make()
        yield server
        server.stop("immediate")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


@pytest.mark.slow
def test_a_database_without_room_is_waited_for() -> None:
    with pool_stand(100, on_a_small_disk) as stand:
        ready(stand, "lab1", blocks=30)
        stand.wait_trials(4)
        filler = stand.postgres.folder / "filler"
        with filler.open("wb") as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        said = "No space left on device"
        wait_for(lambda: said in stand.said("lab1") or None, "a word of it", stand)
        filler.unlink()
        if not (stand.postgres.folder / "data/postmaster.pid").exists():
            stand.postgres.start()
        assert stand.wait_finished().trials == {"finished": 60}
        check_campaign(stand)


@pytest.mark.slow
def test_a_laptop_may_be_gone_for_long() -> None:
    """It sleeps, and its connections are taken from it, for thirty times a lease; meanwhile the
    campaign ends. SWITCHMARK_ABSENCE_S says how long (90 s)."""
    absence_s = float(os.environ.get("SWITCHMARK_ABSENCE_S", "90"))
    blocks = 50
    with pool_stand(trial_ms=0.6 * 1e3 * absence_s / blocks) as stand:
        for name in ("lab1", "lab2"):
            stand.agent(name)
        stand.serve()
        stand.laptop("laptop", blocks, lease_s=max(3.0, absence_s / 30))
        stand.wait_trials(2)
        stand.signal("laptop", signal.SIGSTOP)
        back = time.monotonic() + absence_s
        database = stand.database()
        with database.transaction() as db:
            cut = db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'laptop'"
            ).fetchall()
        database.close()
        assert cut == [(True,)]
        over = stand.wait_finished(absence_s)
        assert over.trials == {"finished": 2 * blocks}
        time.sleep(max(0.0, back - time.monotonic()))
        stand.signal("laptop", signal.SIGCONT)
        assert stand.exit_code("laptop") == 0
        assert over.run_name in stand.said("laptop")
        check_campaign(stand)


@pytest.mark.slow
def test_a_campaign_that_proves_ends_when_each_testbed_has_decided(stand: PoolStand) -> None:
    """Agents are killed on the way; each testbed answers, and all obey one correction."""
    stand.serve()
    beds = ["lab1", "lab2", "lab3"]
    for name in beds:
        stand.agent(name)
        served(stand, name)
    stand.laptop("laptop", 0, contenders=3)
    stand.wait_trials(12)
    stand.kill("lab2")
    stand.agent("lab2")
    over = stand.wait_finished()
    assert over.testbeds == tuple(beds)
    assert over.trials["finished"] >= 3 * 3 * FIRST_LOOK
    assert stand.exit_code("laptop") == 0
    check_campaign(stand)
    found = StoreSource(read_store_address(stand.store)).find(over.run_name)
    answers = answer_run(open_run(found.directory), {}, usual_overhead_s)
    assert [one.testbed for one in answers] == beds
    for one in answers:
        assert one.blocks >= FIRST_LOOK
        assert {lead.verdict for lead in one.leads} == {LeadVerdict.AHEAD}
    verdicts = stand.folder / "verdicts.xml"
    database = PoolDatabase(read_store_address(stand.store))
    assert _show(database, over.run_name, verdicts, None) is False  # it expects nothing
    assert verdicts.read_text().count("<testcase") == 3


def served(stand: PoolStand, testbed: str) -> None:
    """Until its agent has spoken."""
    wait_for(lambda: f"{testbed} is with the pool" in stand.said(testbed) or None, testbed, stand)
