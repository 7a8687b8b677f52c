"""The ledger: what is written, when it counts as stale, and that undoing spares all else."""

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

ID = f"{os.getpid():06x}"  # of this process alone: processes are found, and killed, by it


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
    """Make a ledger look as if the process that wrote it had gone."""
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
    assert not ledger.path.exists(), "a ledger with nothing outstanding goes"


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


def test_a_namespace_that_holds_a_device_of_the_host_is_not_removed_before_it_is_back(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever interrupted who would have fetched it back: the kernel destroys a virtual one."""
    order: list[str] = []
    is_stuck = True

    def fetch(device: LentDevice) -> None:
        if is_stuck:
            raise OSError("network device cable0: cannot be fetched back")
        order.append(device.name)

    monkeypatch.setattr(LentDevice, "undo", fetch)
    monkeypatch.setattr(NetworkNamespace, "undo", lambda one: order.append(one.name))
    ledger = Ledger.create(state, ID)
    ours = [NetworkNamespace(f"sm{ID}sw"), NetworkNamespace(f"sm{ID}tx0")]
    held = LentDevice("cable0", f"sm{ID}sw")
    number = ledger.record(ours[0])
    for entry in (held, ours[0], ours[1]):
        ledger.record(entry)
    with pytest.raises(OSError, match="cable0: cannot be fetched back"):
        ledger.undo(number)
    assert len(ledger.undo_all()) == 3
    assert order == [f"sm{ID}tx0"]
    assert [one.entry for one in ledger.outstanding()] == [ours[0], held, ours[0]]
    is_stuck = False
    ledger.undo(number)
    assert order == [f"sm{ID}tx0", "cable0", f"sm{ID}sw"]
    assert ledger.undo_all() == []
    ledger.close()


def test_every_kind_goes_to_json_and_back() -> None:
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


def test_names_of_others_are_refused(state: Path, tmp_path: Path) -> None:
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


def test_clean_leaves_a_living_owner_alone(state: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(state, ID)
    file = tmp_path / "f"
    ledger.record(File(str(file)))
    file.touch()
    assert clean_stale() == [] and clean_stale(dry_run=True) == []
    assert file.exists()
    ledger.undo_all()
    ledger.close()


def test_clean_leaves_a_locked_ledger_alone(state: Path, tmp_path: Path) -> None:
    """Whatever the header says: a lock that is held is proof of life."""
    ledger = Ledger.create(state, ID)
    ledger.record(File(str(tmp_path / "f")))
    kill_owner(ledger.path)
    assert clean_stale() == []
    ledger.undo_all()
    ledger.close()


def test_clean_after_a_dead_owner(state: Path, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    path = dead_ledger(state, Directory(str(ours)))
    ours.mkdir()
    (ours / "socket").touch()
    theirs.mkdir()
    dry = clean_stale(dry_run=True)
    assert [one.removed for one in dry] == [[f"directory {ours}"]]
    assert ours.exists() and path.exists()
    done = clean_stale()
    assert [one.removed for one in done] == [[f"directory {ours}"]] and done[0].session == ID
    assert not ours.exists() and theirs.exists() and not path.exists()
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
        assert not file.exists(), "files outlive a boot, so they are removed"
        assert child.poll() is None, "the pid means another process now"
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
        assert similar.poll() is None, "another session's process"
    finally:
        for child in (by_pid, by_mark, stubborn, similar):
            child.kill()
            child.communicate()


def test_a_process_that_is_just_becoming_another_program_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its environment is empty for a moment; on a slow machine for a longer one."""
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


def test_a_process_that_is_forked_while_they_are_looked_for_is_ended_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    children = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    seen = iter([[ProcessIdentity.of(child.pid)] for child in children])
    monkeypatch.setattr(procfs, "session_processes", lambda _session: next(seen, []))
    try:
        MarkedProcesses(ID).undo()
        assert [child.wait(60) for child in children] == [-15, -15]
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_directory_with_a_symbolic_link_spares_its_target(state: Path, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    dead_ledger(state, Directory(str(ours)))
    theirs.mkdir()
    (theirs / "precious").touch()
    ours.mkdir()
    (ours / "link").symlink_to(theirs)
    clean_stale()
    assert not ours.exists() and (theirs / "precious").exists()


def test_directory_that_was_replaced_by_a_link_is_reported(state: Path, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    path = dead_ledger(state, Directory(str(ours)))
    theirs.mkdir()
    ours.symlink_to(theirs)
    done = clean_stale()
    assert "symbolic link" in done[0].problems[0] and theirs.exists()
    assert path.exists(), "what could not be undone stays in the ledger"
    ours.unlink()
    assert clean_stale()[0].problems == [] and not path.exists()


def test_files_named_after_the_session_only(state: Path, tmp_path: Path) -> None:
    (tmp_path / f"sm{ID}map_0").touch()
    (tmp_path / "rtemap_0").touch()
    dead_ledger(state, FilesNamed(str(tmp_path), f"sm{ID}"))
    clean_stale()
    assert [path.name for path in tmp_path.iterdir()] == ["rtemap_0"]


def test_settings_are_put_back_unless_another_changed_them(state: Path, tmp_path: Path) -> None:
    ours, changed = tmp_path / "ours", tmp_path / "changed"
    ours.write_text("1\n")
    changed.write_text("7\n")
    dead_ledger(state, KernelSetting(str(ours), "0", "1"), KernelSetting(str(changed), "0", "1"))
    clean_stale()
    assert ours.read_text() == "0\n" and changed.read_text() == "7\n"


@pytest.mark.parametrize(("now", "after"), [(100, 10), (60, 10), (10, 10), (5, 5), (200, 200)])
def test_hugepages_are_given_back_only_while_they_are_ours(
    tmp_path: Path, now: int, after: int
) -> None:
    file = tmp_path / "nr_hugepages"
    file.write_text(f"{now}\n")
    Hugepages(str(file), 10, 100).undo()
    assert int(file.read_text()) == after
    file.write_text(f"{now}\n")
    Hugepages(str(file), 100, 10).undo()
    assert int(file.read_text()) == (100 if 10 <= now <= 100 else now), "lowered, and given back"


def test_line_that_was_cut_short_is_passed_over(state: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    path = dead_ledger(state, File(str(kept)))
    with path.open("a") as ledger:
        ledger.write('{"made": 2, "kind": "fi')
    assert [str(entry) for entry in ledgers.read(path).entries.values()] == [f"file {kept}"]
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


def test_a_ledger_of_many_trials_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "COMPACT_BYTES", 2000)
    ledger = ledgers.Ledger.create(tmp_path, "abc123")
    kept = [ledger.record(File(str(tmp_path / f"kept{number}"))) for number in range(3)]
    for number in range(500):
        ledger.undo(ledger.record(File(str(tmp_path / f"{number}"))))
    assert ledger.path.stat().st_size < 10_000
    assert sorted(ledgers.read(ledger.path).entries) == kept
    assert ledgers.Ledger.adopt(ledger.path) is None, "it is still ours"
    assert ledger.record(File(str(tmp_path / "next"))) == 504
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    ledger.undo_all()
    ledger.close()
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_that_cannot_be_compacted_goes_on(
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


def test_what_is_noted_as_the_ledger_is_written_anew_is_in_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bench that is killed just then must not leave it behind."""
    monkeypatch.setattr(ledgers, "COMPACT_BYTES", 500)
    ledger = ledgers.Ledger.create(tmp_path, "abc123")
    files = [ledger.path.stat().st_ino]
    for number in range(200):
        made = ledger.record(File(str(tmp_path / f"{number}")))
        assert made in ledgers.read(ledger.path).entries
        files.append(ledger.path.stat().st_ino)
    assert len(set(files)) > 1, "it was written anew meanwhile"
    ledger.undo_all()
    ledger.close()


def test_what_could_not_be_noted_is_not_there_to_be_undone(
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


def test_a_ledger_that_a_cleaner_removes_before_it_is_held_is_begun_anew(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    held: list[Any] = []

    def cleaned_before(fd: int, how: int) -> None:
        if not held:
            held.append(fd)
            clean_stale()
        flock(fd, how)

    monkeypatch.setattr(ledgers.fcntl, "flock", cleaned_before)
    with open_session(measuring=False) as session:
        noted = ledgers.read(session.ledger.path).entries.values()
        assert MarkedProcesses(session.id) in noted
    assert held and list(state.glob("*.ledger")) == []


def test_what_fails_while_it_is_made_can_be_made_again(tmp_path: Path) -> None:
    ledger = ledgers.Ledger.create(tmp_path / "state", "abc123")
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    made = (Directory(str(outer)), File(str(inner)))
    with pytest.raises(OSError, match="half-way"), ledger.making(*made):
        outer.mkdir()
        inner.touch()
        raise OSError("half-way")
    assert not outer.exists() and ledger.outstanding() == []
    with ledger.making(*made) as numbers:
        outer.mkdir()
        inner.touch()
    assert [one.number for one in ledger.outstanding()] == numbers
    assert inner.exists()
    assert ledger.undo_all() == []
    ledger.close()


def test_what_cannot_be_undone_at_once_is_undone_at_the_end(
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
