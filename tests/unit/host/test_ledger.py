"""The ledger: its content, when it is stale, and undoing only the session's objects."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import SwitchmarkError
from switchmark.host.kernel import procfs
from switchmark.host.kernel.procfs import ProcessIdentity
from switchmark.host.session import open_session
from switchmark.host.undo import entries
from switchmark.host.undo import ledger as ledgers
from switchmark.host.undo.clean import clean_stale
from switchmark.host.undo.entries import (
    Directory,
    File,
    FilesNamed,
    Hugepages,
    KernelSetting,
    LentDevice,
    MarkedProcesses,
    NetworkDevice,
    NetworkNamespace,
    Process,
    UndoEntry,
)
from switchmark.host.undo.ledger import Ledger

ID = f"{os.getpid():06x}"  # unique, as processes are found and killed by it


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    directory = Path(f"/tmp/smtb{os.getpid()}")
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", str(directory))
    yield directory
    for path in directory.glob("*"):
        path.unlink()
    if directory.exists():
        directory.rmdir()


def kill_owner(path: Path, **changes: object) -> None:
    """Make a ledger look as if its process had ended."""
    first, *rest = path.read_text().splitlines()
    header = {**json.loads(first), "start_ticks": 1, **changes}
    path.write_text("\n".join([json.dumps(header), *rest]) + "\n")


def dead_ledger(state: Path, *made: UndoEntry, **changes: object) -> Path:
    ledger = Ledger.create(state, ID)
    for entry in made:
        ledger.record(entry)
    os.close(ledger._fd)
    kill_owner(ledger.path, **changes)
    return ledger.path


def test_entry_is_on_disk_before_the_thing_is_made(state: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(state, ID)
    entry = ledger.record(File(str(tmp_path / "f")))
    assert ledgers.read(ledger.path).entries == {entry: File(str(tmp_path / "f"))}
    ledger.strike(entry)
    assert ledgers.read(ledger.path).entries == {}
    ledger.close()
    assert not ledger.path.exists(), "a ledger without entries is removed"


def test_undo_is_idempotent_and_in_reverse_order(state: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(state, ID)
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    first = ledger.record(Directory(str(outer)))
    ledger.record(File(str(inner)))
    ledger.record(File(str(tmp_path / "never-made")))
    outer.mkdir()
    inner.touch()
    order: list[str] = []
    assert ledger.undo_all(lambda entry: order.append(str(entry))) == []
    assert [text.rpartition("/")[2] for text in order] == ["never-made", "inner", "outer"]
    assert not outer.exists()
    ledger.undo(first)
    assert ledger.undo_all() == []
    ledger.close()


def test_namespace_stays_until_its_lent_device_is_back(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The return of the device was interrupted, and the kernel destroys a virtual device."""
    order: list[str] = []
    is_stuck = True

    def fetch(device: LentDevice) -> None:
        if is_stuck:
            raise OSError("network device cable0: cannot be fetched back")
        order.append(device.name)

    monkeypatch.setattr(LentDevice, "undo", fetch)
    monkeypatch.setattr(NetworkNamespace, "undo", lambda one: order.append(one.name))
    ledger = Ledger.create(state, ID)
    namespaces = [NetworkNamespace(f"sm{ID}sw"), NetworkNamespace(f"sm{ID}tx0")]
    lent = LentDevice("cable0", f"sm{ID}sw")
    number = ledger.record(namespaces[0])
    for entry in (lent, namespaces[0], namespaces[1]):
        ledger.record(entry)
    with pytest.raises(OSError, match="cable0: cannot be fetched back"):
        ledger.undo(number)
    assert len(ledger.undo_all()) == 3
    assert order == [f"sm{ID}tx0"]
    assert [one.entry for one in ledger.outstanding()] == [namespaces[0], lent, namespaces[0]]
    is_stuck = False
    ledger.undo(number)
    assert order == [f"sm{ID}tx0", "cable0", f"sm{ID}sw"]
    assert ledger.undo_all() == []
    ledger.close()


def test_every_kind_is_converted_to_json_and_back() -> None:
    samples: list[UndoEntry] = [
        Process(1, 2, "x"),
        MarkedProcesses(ID),
        NetworkNamespace("n"),
        NetworkDevice("l"),
        Directory("/d"),
        File("/f"),
        FilesNamed("/d", "p"),
        entries.LockFile("/run/a.lock"),
        entries.LentDevice("eth1", "sm1a2b3csw"),
        entries.Cgroup("/c"),
        KernelSetting("/s", "0", "1"),
        Hugepages("/h", 1, 2),
        entries.Container("c", "/l"),
        entries.LxcPivot(),
        entries.ValeAttachment("n", "vale0:p"),
        entries.CniAttachment("c", "n", "eth0", "h", "/f", "{}", "/opt/cni/bin", ""),
        entries.Entered("n", 4026531840, "docker:web"),
        entries.BridgePort("p", "br0"),
        entries.OvsPort("p", "br-int", "unix:/run/openvswitch/db.sock"),
        entries.CgroupsNamed("c"),
        entries.CgroupController("/c", "cpu"),
        entries.MountsBelow("/m"),
        entries.DockerObject("container", "c", ""),
    ]
    assert {type(sample) for sample in samples} == set(entries.KINDS.values())
    for sample in samples:
        assert entries.from_json(json.loads(json.dumps(entries.to_json(sample)))) == sample


def test_foreign_names_are_refused(state: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(state, ID)
    (tmp_path / "theirs").touch()
    for entry, text in (
        (NetworkDevice("eth0"), f"begin with sm{ID}"),
        (NetworkNamespace("blue"), "begin with"),
        (FilesNamed("/dev/hugepages", "rte"), "begin with"),
        (entries.Container("web", "/var/lib/lxc"), "begin with"),
        (NetworkDevice(f"sm{ID}12345678"), "15 characters"),
        (File(str(tmp_path / "theirs")), "exists already"),
        (Directory(str(tmp_path)), "exists already"),
    ):
        with pytest.raises(SwitchmarkError, match=text):
            ledger.record(entry)
    assert ledger.outstanding() == []
    ledger.close()


def test_nothing_can_be_recorded_after_the_end(state: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(state, ID)
    ledger.close()
    with pytest.raises(SwitchmarkError, match="session has ended"):
        ledger.record(File(str(tmp_path / "late")))


def test_clean_ignores_the_ledger_of_a_running_owner(state: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(state, ID)
    file = tmp_path / "f"
    ledger.record(File(str(file)))
    file.touch()
    assert clean_stale() == [] and clean_stale(dry_run=True) == []
    assert file.exists()
    ledger.undo_all()
    ledger.close()


def test_clean_ignores_a_locked_ledger(state: Path, tmp_path: Path) -> None:
    """A lock proves that the owner runs, whatever the header contains."""
    ledger = Ledger.create(state, ID)
    ledger.record(File(str(tmp_path / "f")))
    kill_owner(ledger.path)
    assert clean_stale() == []
    ledger.undo_all()
    ledger.close()


def test_clean_after_a_dead_owner(state: Path, tmp_path: Path) -> None:
    recorded, foreign = tmp_path / "ours", tmp_path / "theirs"
    path = dead_ledger(state, Directory(str(recorded)))
    recorded.mkdir()
    (recorded / "socket").touch()
    foreign.mkdir()
    dry = clean_stale(dry_run=True)
    assert [one.removed for one in dry] == [[f"directory {recorded}"]]
    assert recorded.exists() and path.exists()
    done = clean_stale()
    assert [one.removed for one in done] == [[f"directory {recorded}"]] and done[0].session == ID
    assert not recorded.exists() and foreign.exists() and not path.exists()
    assert clean_stale() == []


def test_ledger_of_an_earlier_boot_kills_no_process(state: Path, tmp_path: Path) -> None:
    file = tmp_path / "f"
    child = subprocess.Popen(["sleep", "60"], env={procfs.SESSION_VARIABLE: ID})
    try:
        identity = ProcessIdentity.of(child.pid)
        assert identity is not None
        dead_ledger(
            state,
            File(str(file)),
            MarkedProcesses(ID),
            Process(child.pid, identity.start_ticks),
            boot_id="of-another-boot",
        )
        file.touch()
        assert len(clean_stale()) == 1
        assert not file.exists(), "files survive a boot, so they are removed"
        assert child.poll() is None, "another process has the pid now"
    finally:
        child.kill()
        child.wait()


def test_recycled_pid_is_not_killed(state: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        identity = ProcessIdentity.of(child.pid)
        assert identity is not None
        dead_ledger(state, Process(child.pid, identity.start_ticks - 1, "ours"))
        assert len(clean_stale()) == 1
        time.sleep(0.05)
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_processes_are_found_by_pid_and_by_mark(state: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", procfs.SESSION_VARIABLE: ID}
    by_pid = subprocess.Popen(["sleep", "60"])
    by_mark = subprocess.Popen(["sleep", "60"], env=environment)
    stubborn = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; echo trapped; while :; do sleep 0.05; done"],
        env=environment, stdout=subprocess.PIPE,
    )  # fmt: skip
    similar = subprocess.Popen(["sleep", "60"], env={procfs.SESSION_VARIABLE: ID + "0"})
    try:
        identity = ProcessIdentity.of(by_pid.pid)
        assert identity is not None
        assert stubborn.stdout is not None and stubborn.stdout.readline() == b"trapped\n"
        dead_ledger(state, MarkedProcesses(ID), Process(identity.pid, identity.start_ticks))
        assert clean_stale()[0].problems == []
        assert (by_pid.wait(60), by_mark.wait(60), stubborn.wait(60)) == (-15, -15, -9)
        assert similar.poll() is None, "it belongs to another session"
    finally:
        for child in (by_pid, by_mark, stubborn, similar):
            child.kill()
            child.communicate()


def test_process_is_found_while_it_executes_a_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its environment is empty for a moment, which is longer on a slow machine."""
    child = subprocess.Popen(["sleep", "60"], env={procfs.SESSION_VARIABLE: ID})
    wholly, looks = Path.read_bytes, iter(range(1000))

    def read_bytes(path: Path) -> bytes:
        if path == Path(f"/proc/{child.pid}/environ") and next(looks) < 3:
            return b""
        text = wholly(path)
        if path == Path(f"/proc/{child.pid}/stat"):
            *fields, _env_end, code = text.split(b" ")
            return b" ".join([*fields, b"0", code])
        return text

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    try:
        assert [one.pid for one in procfs.session_processes(ID)] == [child.pid]
    finally:
        child.kill()
        child.wait()


def test_process_that_is_forked_during_the_search_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    children = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    searches = iter([[ProcessIdentity.of(child.pid)] for child in children])
    monkeypatch.setattr(procfs, "session_processes", lambda _session: next(searches, []))
    try:
        MarkedProcesses(ID).undo()
        assert [child.wait(60) for child in children] == [-15, -15]
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_target_of_a_link_in_a_directory_stays(state: Path, tmp_path: Path) -> None:
    recorded, foreign = tmp_path / "ours", tmp_path / "theirs"
    dead_ledger(state, Directory(str(recorded)))
    foreign.mkdir()
    (foreign / "precious").touch()
    recorded.mkdir()
    (recorded / "link").symlink_to(foreign)
    clean_stale()
    assert not recorded.exists() and (foreign / "precious").exists()


def test_directory_that_was_replaced_by_a_link_is_reported(state: Path, tmp_path: Path) -> None:
    recorded, foreign = tmp_path / "ours", tmp_path / "theirs"
    path = dead_ledger(state, Directory(str(recorded)))
    foreign.mkdir()
    recorded.symlink_to(foreign)
    done = clean_stale()
    assert "symbolic link" in done[0].problems[0] and foreign.exists()
    assert path.exists(), "a failed entry stays in the ledger"
    recorded.unlink()
    assert clean_stale()[0].problems == [] and not path.exists()


def test_files_named_after_the_session_only(state: Path, tmp_path: Path) -> None:
    (tmp_path / f"sm{ID}map_0").touch()
    (tmp_path / "rtemap_0").touch()
    dead_ledger(state, FilesNamed(str(tmp_path), f"sm{ID}"))
    clean_stale()
    assert [path.name for path in tmp_path.iterdir()] == ["rtemap_0"]


def test_settings_are_restored_unless_changed_by_others(state: Path, tmp_path: Path) -> None:
    restored, changed = tmp_path / "ours", tmp_path / "changed"
    restored.write_text("1\n")
    changed.write_text("7\n")
    dead_ledger(
        state, KernelSetting(str(restored), "0", "1"), KernelSetting(str(changed), "0", "1")
    )
    clean_stale()
    assert restored.read_text() == "0\n" and changed.read_text() == "7\n"


@pytest.mark.parametrize(("now", "after"), [(100, 10), (60, 10), (10, 10), (5, 5), (200, 200)])
def test_hugepages_are_returned_only_if_unchanged_by_others(
    tmp_path: Path, now: int, after: int
) -> None:
    file = tmp_path / "nr_hugepages"
    file.write_text(f"{now}\n")
    Hugepages(str(file), 10, 100).undo()
    assert int(file.read_text()) == after
    file.write_text(f"{now}\n")
    Hugepages(str(file), 100, 10).undo()
    assert int(file.read_text()) == (100 if 10 <= now <= 100 else now), "lowered and returned"


def test_truncated_line_is_ignored(state: Path, tmp_path: Path) -> None:
    file = tmp_path / "kept"
    path = dead_ledger(state, File(str(file)))
    with path.open("a") as ledger:
        ledger.write('{"made": 2, "kind": "fi')
    assert [str(entry) for entry in ledgers.read(path).entries.values()] == [f"file {file}"]
    assert clean_stale()[0].problems == []


def test_unknown_kind_is_reported_and_kept(state: Path) -> None:
    path = dead_ledger(state)
    with path.open("a") as ledger:
        ledger.write('{"made": 1, "kind": "wormhole", "end": "far"}\n')
    assert "another version" in clean_stale()[0].problems[0]
    assert path.exists()


def test_empty_ledger_is_removed(state: Path) -> None:
    state.mkdir()
    (state / "ffffff.ledger").touch()
    assert clean_stale() == [] and list(state.glob("*.ledger")) == []


def test_ledger_of_many_trials_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "COMPACT_BYTES", 2000)
    ledger = ledgers.Ledger.create(tmp_path, "abc123")
    outstanding = [ledger.record(File(str(tmp_path / f"kept{number}"))) for number in range(3)]
    for number in range(500):
        ledger.undo(ledger.record(File(str(tmp_path / f"{number}"))))
    assert ledger.path.stat().st_size < 10_000
    assert sorted(ledgers.read(ledger.path).entries) == outstanding
    assert ledgers.Ledger.adopt(ledger.path) is None, "this process still has the lock"
    assert ledger.record(File(str(tmp_path / "next"))) == 504
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    ledger.undo_all()
    ledger.close()
    assert list(tmp_path.iterdir()) == []


def test_ledger_that_cannot_be_compacted_is_still_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "COMPACT_BYTES", 500)
    (tmp_path / "abc123.compacted").mkdir()
    ledger = ledgers.Ledger.create(tmp_path, "abc123")
    numbers = [ledger.record(File(str(tmp_path / f"{number}"))) for number in range(20)]
    assert sorted(ledgers.read(ledger.path).entries) == numbers
    (tmp_path / "abc123.compacted").rmdir()
    ledger.undo_all()
    ledger.close()
    assert list(tmp_path.iterdir()) == []


def test_entry_during_compaction_is_in_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bench that is killed in this moment must not leave the object behind."""
    monkeypatch.setattr(ledgers, "COMPACT_BYTES", 500)
    ledger = ledgers.Ledger.create(tmp_path, "abc123")
    files = [ledger.path.stat().st_ino]
    for number in range(200):
        number_of_entry = ledger.record(File(str(tmp_path / f"{number}")))
        assert number_of_entry in ledgers.read(ledger.path).entries
        files.append(ledger.path.stat().st_ino)
    assert len(set(files)) > 1, "it was compacted meanwhile"
    ledger.undo_all()
    ledger.close()


def test_entry_that_could_not_be_written_is_not_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ledgers.Ledger.create(tmp_path, "abc123")
    with monkeypatch.context() as full:
        full.setattr(ledgers.os, "write", lambda _fd, _text: 0)
        with pytest.raises(SwitchmarkError, match=r"cannot be written .*make room there"):
            ledger.record(File(str(tmp_path / "f")))
    assert ledger.outstanding() == []
    assert ledgers.read(ledger.path).entries == {}
    ledger.close()


def test_ledger_removed_before_its_lock_is_made_anew(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    locks: list[Any] = []

    def cleaned_before(fd: int, how: int) -> None:
        if not locks:
            locks.append(fd)
            clean_stale()
        flock(fd, how)

    monkeypatch.setattr(ledgers.fcntl, "flock", cleaned_before)
    with open_session(measuring=False) as session:
        noted = ledgers.read(session.ledger.path).entries.values()
        assert MarkedProcesses(session.id) in noted
    assert locks and list(state.glob("*.ledger")) == []


def test_object_that_failed_half_way_can_be_made_again(tmp_path: Path) -> None:
    ledger = ledgers.Ledger.create(tmp_path / "state", "abc123")
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    objects = (Directory(str(outer)), File(str(inner)))
    with pytest.raises(OSError, match="half-way"), ledger.making(*objects):
        outer.mkdir()
        inner.touch()
        raise OSError("half-way")
    assert not outer.exists() and ledger.outstanding() == []
    with ledger.making(*objects) as numbers:
        outer.mkdir()
        inner.touch()
    assert [one.number for one in ledger.outstanding()] == numbers
    assert inner.exists()
    assert ledger.undo_all() == []
    ledger.close()


def test_failed_undo_is_repeated_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ledgers.Ledger.create(tmp_path / "state", "abc123")

    def stuck(entry: Directory) -> None:
        raise OSError("busy")

    with (
        monkeypatch.context() as busy,
        pytest.raises(ValueError, match="the cause"),
        ledger.making(Directory(str(tmp_path / "made"))),
    ):
        busy.setattr(Directory, "undo", stuck)
        raise ValueError("the cause")
    assert len(ledger.outstanding()) == 1
    assert ledger.undo_all() == []
    ledger.close()
