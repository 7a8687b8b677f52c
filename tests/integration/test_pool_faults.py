"""A pool with real processes and a real PostgreSQL, and faults of its parts.

Nothing may be lost, stored twice, or left behind; testbeds are simulated. tools/pool-chaos injects
more faults at random.
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
from switchmark.results.run_directory import open_run
from switchmark.statistics.boundaries import FIRST_ANALYSIS
from switchmark.store.address import read_store_address
from switchmark.store.source import StoreSource
from switchmark.switch.registry import usual_overhead_s
from tests.pool_judge import check_campaign
from tests.pool_rig import PoolRig, pool_rig, wait_for
from tests.postgres import Cluster, programs

pytestmark = [pytest.mark.integration]
HELD_S = 50.0  # less than the timeout of a statement or a transaction


@pytest.fixture
def rig() -> Iterator[PoolRig]:
    with pool_rig() as new_rig:
        yield new_rig


def ready(rig: PoolRig, *agents: str, blocks: int = 8, lease_s: float = 60.0) -> None:
    rig.serve()
    for name in agents:
        rig.agent(name)
    rig.client("client", blocks, lease_s=lease_s)


def stopped_in_a_trial(rig: PoolRig, testbed: str) -> None:
    """Stop the testbed's agent while a trial runs there."""
    marks = rig.state_of(testbed) / "deployed"
    status = Path(f"/proc/{rig.running[testbed].pid}/stat")

    def stopped() -> bool:
        return status.read_text().rpartition(")")[2].split()[0] == "T"

    def met() -> bool | None:
        if not marks.exists():
            return None
        rig.signal(testbed, signal.SIGSTOP)
        wait_for(lambda: stopped() or None, "its stop", rig)
        if marks.exists():
            return True
        rig.signal(testbed, signal.SIGCONT)
        return None

    wait_for(met, f"a trial on {testbed}", rig)


def test_agent_killed_during_a_block_loses_nothing(rig: PoolRig) -> None:
    rig.trial_ms = 300
    ready(rig, "lab1", blocks=3)
    stopped_in_a_trial(rig, "lab1")
    rig.kill("lab1")
    assert (rig.state_of("lab1") / "deployed").exists()
    rig.agent("lab1")
    assert rig.wait_finished().trials == {"finished": 6}
    assert rig.exit_code("client") == 0
    assert any("lab1 was lost while it measured block" in one for one in rig.events())
    check_campaign(rig)


def test_agent_with_an_expired_lease_is_refused(rig: PoolRig) -> None:
    rig.trial_ms = 300
    ready(rig, "lab1", blocks=4, lease_s=2.0)
    stopped_in_a_trial(rig, "lab1")
    rig.agent("lab2")  # takes over the block of lab1 once the lease expires
    assert rig.wait_finished().trials == {"finished": 8}
    rig.signal("lab1", signal.SIGCONT)

    def is_refused() -> bool | None:
        return any("lab1 was refused and ends block" in one for one in rig.events()) or None

    wait_for(is_refused, "the refusal", rig)
    check_campaign(rig)


@pytest.mark.slow
def test_scheduler_and_database_restart_while_clients_leave(rig: PoolRig) -> None:
    rig.trial_ms = 150
    rig.clocks_s = {"lab1": 300.0, "lab2": -240.0}
    ready(rig, "lab1", "lab2", blocks=20)
    rig.wait_trials(4)
    rig.kill("client")
    rig.client("second", 20)
    rig.kill("serve")
    rig.wait_trials(6)
    rig.postgres.stop("immediate")
    rig.serve()
    rig.postgres.start()
    rig.client("third", 20)
    assert rig.wait_finished().trials == {"finished": 40}
    assert rig.exit_code("second") == rig.exit_code("third") == 0
    assert sum("is submitted" in one for one in rig.events()) == 1
    assert any("its clock is +300 s off the store's" in one for one in rig.events())
    check_campaign(rig)


def test_a_submitting_client_waits_for_a_database_that_restarts(rig: PoolRig) -> None:
    """It is down when one client submits, and when another reconnects to the campaign."""
    rig.serve()
    rig.agent("lab1")
    for name in ("first", "second"):
        rig.postgres.stop("immediate")
        rig.client(name, 2)
        wait_until_client_waits(rig, name)
        rig.postgres.start()
        assert rig.exit_code(name) == 0, rig.output(name)
    assert printed_run(rig, "first") == printed_run(rig, "second")
    check_campaign(rig)


def wait_until_client_waits(rig: PoolRig, name: str) -> None:
    def is_waiting() -> bool | None:
        assert rig.running[name].poll() is None, rig.output(name)
        return "waiting for the store" in rig.output(name) or None

    wait_for(is_waiting, f"the message of {name}", rig)


def test_clients_with_the_same_campaign_share_a_run(rig: PoolRig) -> None:
    """Both wait for a lock where a run is entered into the store."""
    database, watching = rig.database(), rig.database()

    def waiting() -> bool | None:
        with watching.transaction() as db:
            row = db.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                "AND application_name IN ('one', 'another')"
            ).fetchone()
        return True if row == (2,) else None

    with database.transaction() as locked:
        locked.execute("LOCK TABLE runs IN EXCLUSIVE MODE")
        rig.client("one", 2)
        rig.client("another", 2)
        wait_for(waiting, "both clients", rig, HELD_S)
    watching.close()
    rig.serve()
    rig.agent("lab1")
    assert rig.wait_finished().trials == {"finished": 4}
    assert rig.exit_code("one") == rig.exit_code("another") == 0
    assert printed_run(rig, "one") == printed_run(rig, "another")
    assert sum("is submitted" in one for one in rig.events()) == 1
    with database.transaction() as db:
        for table in ("runs", "pool_campaigns"):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)
    database.close()
    check_campaign(rig)


@pytest.mark.slow
def test_hosts_with_clocks_minutes_apart_agree(rig: PoolRig) -> None:
    """Leases, tokens and the order of runs use the database's clock alone."""
    rig.trial_ms = 300
    ahead, behind = 420.0, -420.0
    rig.host_clocks_s = {"lab1": ahead, "lab2": behind, "early": ahead, "late": behind}
    rig.serve()
    rig.agent("lab1")
    rig.client("early", 4, lease_s=2.0)
    stopped_in_a_trial(rig, "lab1")
    rig.agent("lab2")
    assert rig.wait_finished().trials == {"finished": 8}
    rig.signal("lab1", signal.SIGCONT)
    wait_for(
        lambda: any("lab1 was refused and ends block" in one for one in rig.events()) or None,
        "the refusal",
        rig,
    )
    check_campaign(rig)
    for clock in ("+420", "-420"):
        assert any(f"its clock is {clock} s off the store's" in one for one in rig.events())
    first = printed_run(rig, "early")
    rig.client("late", 2, lease_s=2.0)
    assert rig.exit_code("late") == 0
    runs = StoreSource(read_store_address(rig.store)).names()
    assert runs == [first, printed_run(rig, "late")]


def printed_run(rig: PoolRig, client: str) -> str:
    """Return the run that a client submitted."""
    return next(one for one in rig.output(client).splitlines() if one.startswith("simulated-"))


@pytest.mark.slow
def test_record_files_wait_for_their_store(rig: PoolRig) -> None:
    ready(rig, "lab1", blocks=10)
    rig.wait_trials(2)
    away = rig.objects.rename(rig.folder / "away")
    wait_for(
        lambda: any("waiting for the store" in one for one in rig.events()) or None,
        "a word of it",
        rig,
    )
    away.rename(rig.objects)
    assert rig.wait_finished().trials == {"finished": 20}
    check_campaign(rig)


@pytest.mark.slow
def test_unfit_testbed_does_not_stop_the_campaign(rig: PoolRig) -> None:
    (rig.state_of("lab2") / "unfit").write_text("the baseline is half of its rate")
    ready(rig, "lab1", "lab2", blocks=6)
    assert rig.wait_finished().trials == {"finished": 12}
    assert sum("lab2 is taken out: the baseline" in one for one in rig.events()) == 1
    check_campaign(rig)


@pytest.mark.slow
def test_a_second_agent_of_a_testbed_is_refused(rig: PoolRig) -> None:
    ready(rig, "lab1", blocks=30)
    rig.wait_trials(2)
    rig.agent("lab1", place="elsewhere", name="second")
    assert rig.exit_code("second") == 3
    assert "testbed lab1 is served by another agent" in rig.output("second")
    assert rig.wait_finished().trials == {"finished": 60}
    check_campaign(rig)


@contextmanager
def on_a_small_disk() -> Iterator[Cluster]:
    """A PostgreSQL with a hundred megabytes of disk."""
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
def test_agent_waits_for_a_database_without_room() -> None:
    with pool_rig(100, on_a_small_disk) as rig:
        ready(rig, "lab1", blocks=30)
        rig.wait_trials(4)
        filler = rig.postgres.folder / "filler"
        with filler.open("wb") as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        message = "No space left on device"
        wait_for(lambda: message in rig.output("lab1") or None, "its message", rig)
        filler.unlink()
        if not (rig.postgres.folder / "data/postmaster.pid").exists():
            rig.postgres.start()
        assert rig.wait_finished().trials == {"finished": 60}
        check_campaign(rig)


@pytest.mark.slow
def test_client_may_be_away_for_long() -> None:
    """The client is stopped and loses its connections for thirty times a lease, or
    SWITCHMARK_ABSENCE_S (90 s), while the campaign ends."""
    absence_s = float(os.environ.get("SWITCHMARK_ABSENCE_S", "90"))
    blocks = 50
    with pool_rig(trial_ms=0.6 * 1e3 * absence_s / blocks) as rig:
        for name in ("lab1", "lab2"):
            rig.agent(name)
        rig.serve()
        rig.client("client", blocks, lease_s=max(3.0, absence_s / 30))
        rig.wait_trials(2)
        rig.signal("client", signal.SIGSTOP)
        back = time.monotonic() + absence_s
        database = rig.database()
        with database.transaction() as db:
            cut = db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'client'"
            ).fetchall()
        database.close()
        assert cut == [(True,)]
        over = rig.wait_finished()
        assert over.trials == {"finished": 2 * blocks}
        time.sleep(max(0.0, back - time.monotonic()))
        rig.signal("client", signal.SIGCONT)
        assert rig.exit_code("client") == 0
        assert over.run_name in rig.output("client")
        check_campaign(rig)


@pytest.mark.slow
def test_campaign_that_proves_ends_when_all_have_decided(rig: PoolRig) -> None:
    """Agents are killed meanwhile; each testbed answers, with one correction for all."""
    rig.serve()
    beds = ["lab1", "lab2", "lab3"]
    for name in beds:
        rig.agent(name)
        served(rig, name)
    rig.client("client", 0, contenders=3)
    rig.wait_trials(12)
    rig.kill("lab2")
    rig.agent("lab2")
    over = rig.wait_finished()
    assert over.testbeds == tuple(beds)
    assert over.trials["finished"] >= 3 * 3 * FIRST_ANALYSIS
    assert rig.exit_code("client") == 0
    check_campaign(rig)
    found = StoreSource(read_store_address(rig.store)).find(over.run_name)
    answers = answer_run(open_run(found.directory), {}, usual_overhead_s)
    assert [answer.testbed for answer in answers] == beds
    for answer in answers:
        assert answer.blocks >= FIRST_ANALYSIS
        assert {lead.verdict for lead in answer.leads} == {LeadVerdict.AHEAD}
    verdicts = rig.folder / "verdicts.xml"
    database = PoolDatabase(read_store_address(rig.store))
    assert (
        _show(database, over.run_name, verdicts, None) is False
    )  # the campaign has no expectations
    assert verdicts.read_text().count("<testcase") == 3


def served(rig: PoolRig, testbed: str) -> None:
    """Wait until the testbed's agent has reported."""
    wait_for(lambda: f"{testbed} is with the pool" in rig.output(testbed) or None, testbed, rig)
