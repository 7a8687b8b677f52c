"""Locks of the bench: other users of the machine cannot hold them and block all measurements."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from switchmark.host.session import open_session
from switchmark.host.undo.entries import LockFile
from switchmark.locks import open_lock, take_removable_lock
from switchmark.results.durable import take_lock
from tests.places import needs_another_user

NOBODY = 65534
as_another = needs_another_user


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can read."""
    with tempfile.TemporaryDirectory(prefix="smlock", dir="/tmp") as path:
        Path(path).chmod(0o755)
        yield Path(path)


def can_hold(lock: Path) -> bool:
    """Return True if another user can hold the lock."""
    command = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    done = subprocess.run(
        [*command, "flock", "-n", lock, "true"], capture_output=True, check=False, cwd="/"
    )
    return done.returncode == 0


@contextmanager
def umask(mask: int) -> Iterator[None]:
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


@as_another
@pytest.mark.parametrize("kind", ["measuring", "agent", "run"])
def test_another_user_cannot_hold_a_lock(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a lock that is made under any umask, nor a lock of an earlier version."""
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", str(folder))
    lock = folder / {"measuring": "measuring.lock", "agent": "agent.lock", "run": "lock"}[kind]
    for _ in range(2):
        with umask(0):
            if kind == "measuring":
                with open_session(measuring=True):
                    pass
            elif kind == "agent":
                pytest.importorskip("psycopg")
                from switchmark.pool.agent import _only_agent_here

                with _only_agent_here("lab1"):
                    pass
            else:
                os.close(take_lock(folder))
        assert not can_hold(lock)
        lock.chmod(0o644)
        assert can_hold(lock)


@pytest.mark.parametrize(
    ("of_folder", "of_lock"), [(0o755, 0o600), (0o2775, 0o660), (0o1777, 0o666), (0o700, 0o600)]
)
def test_user_with_write_access_to_a_folder_may_hold_its_lock(
    folder: Path, of_folder: int, of_lock: int
) -> None:
    """A team with shared results resumes the runs of each other."""
    folder.chmod(of_folder)
    with umask(0o077):
        os.close(open_lock(folder / "lock"))
    assert stat.S_IMODE((folder / "lock").stat().st_mode) == of_lock


@pytest.mark.parametrize("take", [open_lock, lambda lock: take_lock(lock.parent)])
def test_a_lock_is_not_opened_through_a_link(folder: Path, take: Callable[[Path], int]) -> None:
    """It would be truncated and get another mode, whoever owns the file."""
    precious, lock = folder / "precious", folder / "lock"
    precious.write_text("of another user")
    precious.chmod(0o644)
    lock.symlink_to(precious)
    with pytest.raises(OSError, match="symbolic link"):
        take(lock)
    assert precious.read_text() == "of another user"
    assert stat.S_IMODE(precious.stat().st_mode) == 0o644
    lock.unlink()
    os.close(take(lock))


def test_lock_file_is_removed_unless_another_bench_has_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "network.lock"
    entry = LockFile(str(path))
    first = take_removable_lock(path)
    entry.undo()
    assert path.exists(), "the lock is in use"
    with pytest.raises(BlockingIOError):
        take_removable_lock(path)
    os.close(first)
    entry.undo()
    assert not path.exists()
    entry.undo()


def test_lock_of_a_file_that_was_removed_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lock = tmp_path / "network.lock", fcntl.flock

    def remove_and_lock(fd: int, operation: int) -> None:
        """The last user removes the file between the opening and the locking."""
        monkeypatch.setattr(fcntl, "flock", lock)
        path.unlink()
        lock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", remove_and_lock)
    taken = take_removable_lock(path)
    assert os.fstat(taken).st_ino == path.stat().st_ino
    os.close(taken)
