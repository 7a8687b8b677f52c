"""Runs that are pushed into a store and pulled again: unchanged, once, and without forged parts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import obstore
import pytest

from switchmark.cli.main import run
from switchmark.errors import SwitchmarkError, UsageError
from switchmark.experiment.store_upload import StoreUpload
from switchmark.results.run_directory import Run
from switchmark.results.summary import summary
from switchmark.store.address import StoreAddress, read_store_address, with_run
from switchmark.store.check import check_store
from switchmark.store.errors import CorruptStoreError, StoreAwayError
from switchmark.store.find import list_stored
from switchmark.store.objects import open_objects
from switchmark.store.pull import pull
from switchmark.store.push import push_folder
from switchmark.store.source import StoreSource
from switchmark.store.store import init_store, open_store
from tests.postgres import Cluster, cluster
from tests.s3_server import CREDENTIALS, s3_server
from tests.unit.records import (
    quick_records,
    synthetic_failure,
    synthetic_record,
    synthetic_trial,
    write_run,
)

pytestmark = pytest.mark.integration
_NUMBERS = count()


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster() as postgres:
        yield postgres


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def address(server: Cluster, tmp_path: Path) -> StoreAddress:
    (tmp_path / "objects").mkdir()
    return _new_store(server, str(tmp_path / "objects"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with a failure that was measured again, another failure, and a resumption."""
    failed = synthetic_failure(synthetic_trial(packet_size_bytes=128))
    folder = write_run(tmp_path / "results", [synthetic_failure(), *quick_records(2), failed])
    with Run.resume(folder, campaign_text="name: other\n", settings={}, host={}):
        pass
    (folder / "report.html").write_text("made from the records")
    return folder


def _new_store(server: Cluster, objects: str) -> StoreAddress:
    address = read_store_address(server.new_database(f"r{next(_NUMBERS)}"))
    init_store(address, objects)
    return address


def _content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("lock", "report.html")
    }


def _there_and_back(address: StoreAddress, folder: Path, to: Path) -> None:
    with open_store(address) as store:
        pushed = push_folder(store, folder)
        assert (pushed.known, pushed.left_out) == (0, ("report.html",))
        assert push_folder(store, folder).new == 0
        back = pull(store, folder.name, to)
        assert _content(back) == _content(folder)
        assert any(".failed-1." in name for name in _content(back))
        with pytest.raises(UsageError, match="already"):
            pull(store, folder.name, to)
        found = check_store(store, on_run=str)
        assert (found.problems, found.unknown, found.older_rows) == ((), (), 0)
        assert found.files == len(_content(folder))
    copy = StoreSource(address).find("synthetic")
    assert (copy.problems, _content(copy.directory)) == ((), _content(folder))
    assert summary(copy.directory) == summary(folder)


def test_pushed_folder_is_pulled_unchanged(
    address: StoreAddress, folder: Path, tmp_path: Path
) -> None:
    _there_and_back(address, folder, tmp_path / "back")


def test_record_files_may_be_objects_of_s3(
    server: Cluster, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_server(tmp_path / "s3") as place:
        address = _new_store(server, place)
        _there_and_back(address, folder, tmp_path / "back")
        with open_store(address) as store:
            store.objects.put("x/y", b"one")
            store.objects.put("x/y", b"one")
            with pytest.raises(SwitchmarkError, match=r"another|bytes"):
                store.objects.put("x/y", b"two")
            assert store.objects.get("x/y", 3) == b"one"
            with pytest.raises(CorruptStoreError, match="missing"):
                store.objects.get("x/z", 3)
        assert "secret" not in str(store.objects) + place


def test_server_that_replaces_objects_is_refused(
    server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ignores the condition behaves like this one, which never receives it."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    real = obstore.put

    def put(store: Any, name: str, content: bytes, **how: Any) -> Any:
        return real(store, name, content, **(how | {"mode": "overwrite"}))

    with s3_server(tmp_path / "s3") as place:
        monkeypatch.setattr(obstore, "put", put)
        with pytest.raises(UsageError, match="replaces existing objects"):
            _new_store(server, place)
        assert list(open_objects(place).names("")) == []


def test_repeated_trial_is_a_new_attempt(address: StoreAddress, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "results", [synthetic_failure()])
    with open_store(address) as store:
        assert push_folder(store, folder).new == 1
        with Run.resume(folder, campaign_text="name: synthetic\n", settings={}, host={}) as again:
            again.write(synthetic_record())
        assert push_folder(store, folder).new == 1
        assert _content(pull(store, folder.name, tmp_path)) == _content(folder)
    copy = StoreSource(address).find(None).directory
    assert _content(copy) == _content(folder)


def test_records_that_do_not_count_stay_in_the_store(
    server: Cluster, address: StoreAddress, tmp_path: Path
) -> None:
    """Records of a block that was measured anew on another testbed, with one trial less."""
    folder = write_run(tmp_path / "results", [])
    again = synthetic_record()
    first = [synthetic_failure(), synthetic_record(synthetic_trial(packet_size_bytes=128))]
    with open_store(address) as store:
        push_folder(store, folder)
        for record in first:
            store.add_record(folder.name, record.model_dump_json().encode(), 1)
        store.connection.execute("UPDATE attempts SET superseded = true")
        store.add_record(folder.name, again.model_dump_json().encode(), 2)
        back = pull(store, folder.name, tmp_path / "back")
        assert [one.name for one in (back / "trials").iterdir()] == [f"{again.trial_id}.json"]
        assert push_folder(store, back).known == 1
        (listed,) = list_stored(store)
        assert (listed.finished, listed.failed) == (1, 0)
        found = check_store(store, on_run=str)
        assert (found.problems, found.unknown) == ((), ())
        assert found.files == len(_content(back)) + len(first)
    assert _content(StoreSource(address).find(folder.name).directory) == _content(back)
    (tmp_path / "others").mkdir()
    with open_store(_new_store(server, str(tmp_path / "others"))) as store:
        assert push_folder(store, back).new == 1
        assert _content(pull(store, folder.name, tmp_path / "again")) == _content(back)


def test_concurrent_pushes_of_a_run_store_it_once(address: StoreAddress, folder: Path) -> None:
    failed: list[Exception] = []

    def push() -> None:
        try:
            with open_store(address) as store:
                push_folder(store, folder)
        except SwitchmarkError as error:
            failed.append(error)

    threads = [threading.Thread(target=push) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with open_store(address) as store:
        assert check_store(store, on_run=str).problems == ()
        rows = store.connection.execute("SELECT count(*) FROM attempts").fetchone()
        assert rows == (len(list((folder / "trials").iterdir())),)


def test_forged_parts_are_named_and_left_out(
    address: StoreAddress, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(address) as store:
        push_folder(store, folder)
    changed, gone, longer, *_ = sorted((tmp_path / "objects" / folder.name / "trials").iterdir())
    changed.write_bytes(changed.read_bytes().replace(b"finished", b"Finished"))
    gone.unlink()
    with longer.open("ab") as file:
        file.write(b" ")
    (longer.parent / "0123456789abcdef-1-00.json").write_bytes(b"cut off")
    with open_store(address) as store:
        for quick, problems in ((False, 3), (True, 2)):
            found = check_store(store, quick=quick, on_run=str)
            assert (len(found.problems), len(found.unknown)) == (problems, 1)
        with pytest.raises(CorruptStoreError):
            pull(store, folder.name, tmp_path / "back")
        assert list((tmp_path / "back").iterdir()) == []
    assert run(["show", with_run(address, "synthetic")]) == 1
    stderr = capsys.readouterr().err
    assert "digest differs" in stderr and "is missing" in stderr and "were stored" in stderr


def test_names_and_figures_of_a_forged_index_are_refused(
    address: StoreAddress, folder: Path, tmp_path: Path
) -> None:
    with open_store(address) as store:
        push_folder(store, folder)
        store.connection.execute(
            'UPDATE attempts SET columns = columns || \'{"switch": "forged"}\' '
            "WHERE status = 'failed' AND attempt = 1"
        )
        found = check_store(store, on_run=str)
        assert found.problems and all("--fix" in line for line in found.problems)
        check_store(store, fix=True, on_run=str)
        assert check_store(store, on_run=str).problems == ()
        store.connection.execute(
            "UPDATE files SET name = '../../evil' WHERE name = 'campaign.yaml'"
        )
        with pytest.raises(CorruptStoreError, match="not a file of a run"):
            pull(store, folder.name, tmp_path / "back")
        store.connection.execute("UPDATE files SET name = 'campaign.yaml' WHERE name ~ 'evil'")
        store.connection.execute("UPDATE attempts SET bytes = 1::bigint << 60")
        with pytest.raises(CorruptStoreError, match="impossible size"):
            pull(store, folder.name, tmp_path / "back")


def test_implausible_folder_is_not_stored(
    address: StoreAddress, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    next((folder / "trials").iterdir()).write_text("{}")
    assert run(["store", "push", str(folder), "--store", address.url]) == 1
    assert "cannot be read as a result" in capsys.readouterr().err


def test_lost_store_does_not_affect_the_campaign(
    server: Cluster, address: StoreAddress, tmp_path: Path
) -> None:
    messages: list[str] = []
    upload = StoreUpload(address, messages.append)
    folder = write_run(tmp_path / "results", [])
    upload.opened(folder)
    with Run.resume(folder, campaign_text="name: synthetic\n", settings={}, host={}) as writing:
        for number, record in enumerate(quick_records(1)[:4]):
            if number == 2:
                server.stop("immediate")
            writing.write(record)
            upload.trial_ended(record)
    try:
        assert len(messages) == 1 and "results folder" in messages[0]
        assert not upload.finish()
        assert f"store push {folder}" in messages[-1]
    finally:
        server.start()
    assert upload.finish()
    with open_store(address) as store:
        assert _content(pull(store, folder.name, tmp_path)) == _content(folder)


def test_command_line_pushes_lists_pulls_and_checks(
    address: StoreAddress, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--store", address.url]
    assert run(["store", "push", str(folder.parent), *at]) == 0
    assert run(["store", "list", "--json", *at]) == 0
    assert run(["store", "check", *at]) == 0
    assert run(["store", "pull", "latest", "--to", str(tmp_path / "back"), *at]) == 0
    assert run(["show", "nothing", *at]) == 2
    shown = capsys.readouterr()
    assert folder.name in shown.out and "0 problems" in shown.out
    assert "is neither a run nor a campaign (campaigns: synthetic)" in shown.err


def test_check_with_json_prints_one_document(
    address: StoreAddress, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(address) as store:
        push_folder(store, folder)
    assert run(["store", "check", "--json", "--store", address.url]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["files"] == len(_content(folder))
    assert shown.err == f"{folder.name}\n"


def test_read_only_user_reads_and_stores_nothing(
    server: Cluster, address: StoreAddress, folder: Path
) -> None:
    with open_store(address) as store:
        push_folder(store, folder)
        store.connection.execute(
            "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA switchmark TO reader; "
            "GRANT SELECT ON ALL TABLES IN SCHEMA switchmark TO reader"
        )
    reader = read_store_address(address.url.replace(f"{server.user}@", "reader@"))
    assert _content(StoreSource(reader).find("synthetic").directory) == _content(folder)
    other = write_run(folder.parent, [synthetic_record()], "other")
    with pytest.raises(SwitchmarkError, match="permission denied"), open_store(reader) as store:
        push_folder(store, other)


def test_unreachable_objects_leave_nothing_in_the_index(
    address: StoreAddress, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "objects").rename(tmp_path / "unmounted")
    with open_store(address) as store:
        with pytest.raises(StoreAwayError, match="mount"):
            push_folder(store, folder)
        assert store.connection.execute("SELECT count(*) FROM runs").fetchone() == (0,)
        (tmp_path / "unmounted").rename(tmp_path / "objects")
        push_folder(store, folder)
        assert check_store(store, on_run=str).problems == ()
