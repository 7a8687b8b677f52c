"""Finds runs in a results directory or in a store; both give a run directory.

For a store, this is a copy in the cache directory, which is brought up to date and checked. So
tables, reports and comparisons read both in the same way, and reading again fetches nothing.
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

_KEPT_S = 30 * 86400  # a copy that was not used for longer is removed


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run directory, and the files that could not be fetched."""

    directory: Path
    problems: tuple[str, ...] = ()  # one line for each damaged file
    is_copy: bool = False  # in the cache: users must not write there


@dataclass(frozen=True, slots=True)
class StoreSource:
    """A store, whose runs are read as copies."""

    address: StoreAddress

    def find(self, name: str | None) -> FoundRun:
        """Find the run of this name, the newest of a campaign, or the newest of all.

        Raises `UsageError`."""
        with open_store(self.address) as store:
            run = find_stored(store, name)
            folder = copies_folder() / _folder_of(self.address) / run
            with _locked(folder):
                _remove_old(folder.parent.parent)
                problems = keep_copy(store, run, folder)
                os.utime(folder)
        return FoundRun(folder, tuple(problems), is_copy=True)

    def names(self) -> list[str]:
        """Return the names of its runs, the oldest first."""
        with open_store(self.address) as store:
            return [run.name for run in list_stored(store, last=10_000)]


def find_anywhere(
    name: str | None, results: Path = DEFAULT_ROOT, store: str | None = None
) -> FoundRun:
    """Find a run by `postgresql://.../RUN`, or by its name in the given store or directory.

    Raises `UsageError`."""
    if name is not None and is_store_address(name):
        address = read_store_address(name)
        return StoreSource(address).find(address.run)
    if store is None:
        return FoundRun(find_run(name, results))
    address = read_store_address(store)
    if address.run is not None:
        raise UsageError(
            f"--store {store}: contains a run", remedy="remove it, or give the whole as RUN"
        )
    return StoreSource(address).find(name)


def every_run(results: Path, store: str | None, say: Callable[[str], None]) -> list[Path]:
    """Return the runs of the store, or of the directory without a store, the oldest first.

    `say` is called with each problem. For a store these are copies, which are brought up to date
    one after the other. Raises `UsageError`."""
    if store is None:
        return list_runs(results, on_corrupt=say)
    source = StoreSource(read_store_address(store))
    folders = []
    for name in source.names():
        found = source.find(name)
        folders.append(found.directory)
        for line in found.problems:  # before the next run, which may raise an error
            say(line)
    return folders


def copies_folder() -> Path:
    """Return the directory with copies of stored runs; they may be removed at any time."""
    return cache_dir() / "stores"


def _folder_of(address: StoreAddress) -> str:
    return sha256(address.url.encode()).hexdigest()[:16]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock, so that one program at a time updates a copy."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = open_lock(folder.parent / f".{folder.name}.lock")
    except OSError as error:
        raise SwitchmarkError(
            f"{folder}: a copy cannot be written there ({error.strerror})",
            remedy="set another directory in SWITCHMARK_CACHE_DIR",
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _remove_old(copies: Path) -> None:
    oldest_s = time.time() - _KEPT_S
    for copy in copies.glob("*/*/"):
        if copy.stat().st_mtime < oldest_s:
            shutil.rmtree(copy, ignore_errors=True)
