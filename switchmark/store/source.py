"""The source of runs: a folder of results, or a store; both give a run's folder.

For a store that is a copy under the cache folder, brought up to date and checked file by file, so
that tables, reports and comparisons read both alike, and a second look fetches nothing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.host.state import cache_dir
from switchmark.locks import open_lock
from switchmark.results import DEFAULT_ROOT
from switchmark.results.find import find_run, list_runs
from switchmark.store.address import StoreAddress, is_store_address, read_store_address
from switchmark.store.find import find_stored, list_stored
from switchmark.store.pull import keep_copy
from switchmark.store.store import open_store

_KEPT_S = 30 * 86400  # a copy that nobody looked at for so long is taken away


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run's folder, and which files of it could not be fetched."""

    directory: Path
    problems: tuple[str, ...] = ()  # a line for each file that is not what was stored
    is_copy: bool = False  # of what a store holds: nothing of the user's belongs there


@dataclass(frozen=True, slots=True)
class StoreSource:
    """A store, whose runs are found as copies."""

    address: StoreAddress

    def find(self, name: str | None) -> FoundRun:
        """Find a run by its name, the newest of a campaign, or the newest of all. Raises
        UsageError."""
        with open_store(self.address) as store:
            run = find_stored(store, name)
            folder = copies_folder() / _folder_of(self.address) / run
            with _alone(folder):
                _take_old_away(folder.parent.parent)
                problems = keep_copy(store, run, folder)
                os.utime(folder)
        return FoundRun(folder, tuple(problems), is_copy=True)

    def names(self) -> list[str]:
        """The names of its runs, the oldest first."""
        with open_store(self.address) as store:
            return [one.name for one in list_stored(store, last=10_000)]


def find_anywhere(
    name: str | None, results: Path = DEFAULT_ROOT, store: str | None = None
) -> FoundRun:
    """Find the run that a user named: `postgresql://.../RUN`, or RUN in the store or folder named
    beside it. Raises UsageError."""
    if name is not None and is_store_address(name):
        address = read_store_address(name)
        return StoreSource(address).find(address.run)
    if store is None:
        return FoundRun(find_run(name, results))
    address = read_store_address(store)
    if address.run is not None:
        raise UsageError(f"--store {store}: names a run; leave it out, or give the whole as RUN")
    return StoreSource(address).find(name)


def every_run(results: Path, store: str | None, say: Callable[[str], None]) -> list[Path]:
    """The runs of the store, or of the folder where none is named, the oldest first; `say` is told
    of what could not be read.

    For a store these are copies, brought up to date one by one. Raises UsageError."""
    if store is None:
        return list_runs(results, on_corrupt=say)
    source = StoreSource(read_store_address(store))
    folders = []
    for name in source.names():
        found = source.find(name)
        folders.append(found.directory)
        for line in found.problems:  # (before the next, which may not be had)
            say(line)
    return folders


def copies_folder() -> Path:
    """The folder of copies of stored runs; they can be removed at any time."""
    return cache_dir() / "stores"


def _folder_of(address: StoreAddress) -> str:
    return sha256(address.url.encode()).hexdigest()[:16]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a lock, so that one program at a time brings a copy up to date."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = open_lock(folder.parent / f".{folder.name}.lock")
    except OSError as error:
        raise SwitchmarkError(
            f"{folder}: no copy can be kept there ({error.strerror}); name another folder with "
            "SWITCHMARK_CACHE_DIR"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _take_old_away(copies: Path) -> None:
    due = time.time() - _KEPT_S
    for one in copies.glob("*/*/"):
        if one.stat().st_mtime < due:
            shutil.rmtree(one, ignore_errors=True)
