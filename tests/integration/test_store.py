"""The store against a real PostgreSQL: versions, writing once, refusals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.store import migrate
from switchmark.store.address import StoreAddress, read_store_address
from switchmark.store.errors import StoreAwayError, StoreConflictError
from switchmark.store.migrate import Migration, migrations
from switchmark.store.store import init_store, open_store
from tests.postgres import Cluster, cluster
from tests.unit.records import quick_records, synthetic_failure, synthetic_record, write_run

pytestmark = pytest.mark.integration
_NUMBERS = count()


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster() as postgres:
        yield postgres


@pytest.fixture
def empty(server: Cluster) -> StoreAddress:
    return read_store_address(server.new_database(f"d{next(_NUMBERS)}"))


@pytest.fixture
def address(empty: StoreAddress, tmp_path: Path) -> StoreAddress:
    (tmp_path / "objects").mkdir()
    init_store(empty, str(tmp_path / "objects"))
    return empty


def test_concurrent_setups_make_one_store(empty: StoreAddress, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="store init"), open_store(empty):
        pass
    with pytest.raises(UsageError, match="--objects"):
        init_store(empty, None)
    done: list[int] = []

    def init() -> None:
        done.append(len(init_store(empty, str(tmp_path))[0]))

    threads = [threading.Thread(target=init) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 0, 0, len(migrations())]
    with pytest.raises(UsageError, match="are in"):
        init_store(empty, str(tmp_path.parent))


def test_newer_older_and_changed_databases_are_reported(
    address: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrations()
    more = [*known, Migration(len(known) + 1, "later", "CREATE TABLE later (x integer)")]
    monkeypatch.setattr(migrate, "migrations", lambda: more)
    with pytest.raises(UsageError, match="earlier switchmark"), open_store(address):
        pass
    assert [one.name for one in init_store(address, None)[0]] == ["later"]
    monkeypatch.setattr(migrate, "migrations", lambda: known)
    for refused in (lambda: open_store(address).__enter__(), lambda: init_store(address, None)):
        with pytest.raises(UsageError, match="newer switchmark"):
            refused()
    changed = [*known[:-1], Migration(len(known), known[-1].name, "SELECT 1"), more[-1]]
    monkeypatch.setattr(migrate, "migrations", lambda: changed)
    with pytest.raises(UsageError, match="another form"), open_store(address):
        pass


def test_a_migration_that_fails_leaves_the_old_version(
    address: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrations()
    bad = Migration(len(known) + 1, "bad", "CREATE TABLE half (x integer); SELECT 1 / 0")
    monkeypatch.setattr(migrate, "migrations", lambda: [*known, bad])
    with pytest.raises(SwitchmarkError, match="division"):
        init_store(address, None)
    monkeypatch.setattr(migrate, "migrations", lambda: known)
    with open_store(address) as store:
        row = store.connection.execute("SELECT to_regclass('switchmark.half')").fetchone()
        assert row == (None,)


def test_attempt_is_stored_once_and_trial_finishes_once(
    address: StoreAddress, tmp_path: Path
) -> None:
    run = write_run(tmp_path, quick_records(1))
    record = synthetic_record().model_dump_json().encode()
    failed = synthetic_failure().model_dump_json().encode()
    with open_store(address) as store:
        files = {one: (run / one).read_bytes() for one in ("run.json", "campaign.yaml")}
        for _ in range(2):
            assert store.add_run(run.name, files) == store.run_number(run.name)
        with pytest.raises(StoreConflictError, match=r"campaign\.yaml"):
            store.add_run(run.name, files | {"campaign.yaml": b"another"})
        store.add_record(run.name, failed, 1)
        store.add_record(run.name, record, 2)
        store.add_record(run.name, record, 2)  # sent again since the answer was lost
        with pytest.raises(StoreConflictError, match="attempt 1"):
            store.add_record(run.name, record, 1)
        with pytest.raises(StoreConflictError, match="finished"):
            store.add_record(run.name, record, 3)
        rows = store.connection.execute("SELECT attempt, status FROM attempts ORDER BY attempt")
        assert rows.fetchall() == [(1, "failed"), (2, "finished")]


def test_record_that_the_guard_refuses_is_not_stored(address: StoreAddress, tmp_path: Path) -> None:
    run = write_run(tmp_path, [])
    record = synthetic_record().model_dump_json().encode()

    def refuse(_: object) -> None:
        raise SwitchmarkError("the lease is another's")

    with open_store(address) as store:
        store.add_run(run.name, {"run.json": (run / "run.json").read_bytes()})
        with pytest.raises(SwitchmarkError, match="another's"):
            store.add_record(run.name, record, 1, guard=refuse)
        row = store.connection.execute("SELECT count(*) FROM attempts").fetchone()
        assert row == (0,)


def test_unreachable_database_is_one_line(server: Cluster, address: StoreAddress) -> None:
    server.stop()
    try:
        with pytest.raises(StoreAwayError) as error, open_store(address):
            pass
    finally:
        server.start()
    assert "\n" not in str(error.value)
    with open_store(address):
        pass
