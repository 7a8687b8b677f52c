"""The page's source of runs: a folder of results, or a store.

A run's line is read at once; the run itself is fetched when somebody opens it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from switchmark.results.find import list_runs
from switchmark.results.machine_id import MachineId
from switchmark.results.run_directory import open_run
from switchmark.store.address import StoreAddress, is_run_name
from switchmark.store.find import StoredRun, list_stored
from switchmark.store.source import StoreSource
from switchmark.store.store import open_store

NEWEST = 500  # runs of a store that a page lists, and that histories are made of


@dataclass(frozen=True, slots=True)
class ShelvedRun:
    """A run in run line."""

    name: str
    campaign: str
    started_at: str  # UTC
    machine: str
    trials: int
    switchmark: str  # the version
    state: tuple[int, ...]  # changes when the run's files change


class Shelf(Protocol):
    """A source of runs. Nothing is written there."""

    @property
    def name(self) -> str:
        """Its name for people."""

    def runs(self) -> tuple[list[ShelvedRun], list[str]]:
        """The runs, the newest first, and a line for each that cannot be read."""

    def run(self, name: str) -> ShelvedRun | None:
        """The run of exactly this name."""

    def folder(self, run: ShelvedRun) -> tuple[Path, Sequence[str]]:
        """The run's folder, and a line for every file that is not what was stored."""


@dataclass(frozen=True, slots=True)
class FolderShelf:
    """A folder of results. Names are looked up among those that it holds, and are never paths."""

    root: Path

    @property
    def name(self) -> str:
        """See `Shelf.name`."""
        return self.root.name or "results"

    def runs(self) -> tuple[list[ShelvedRun], list[str]]:
        """See `Shelf.runs`."""
        problems: list[str] = []
        found = list_runs(self.root, on_corrupt=problems.append)
        return [_of_folder(folder) for folder in reversed(found)], problems

    def run(self, name: str) -> ShelvedRun | None:
        """See `Shelf.run`."""
        found = list_runs(self.root, on_corrupt=lambda _: None)
        return next((_of_folder(folder) for folder in found if folder.name == name), None)

    def folder(self, run: ShelvedRun) -> tuple[Path, Sequence[str]]:
        """See `Shelf.folder`."""
        return self.root / run.name, ()


@dataclass(frozen=True, slots=True)
class StoreShelf:
    """A store: copies are shown, brought up to date when they are opened."""

    address: StoreAddress

    @property
    def name(self) -> str:
        """See `Shelf.name`."""
        return str(self.address)

    def runs(self) -> tuple[list[ShelvedRun], list[str]]:
        """See `Shelf.runs`; the newest ones of the store."""
        with open_store(self.address) as store:
            return [_stored(run) for run in reversed(list_stored(store, last=NEWEST))], []

    def run(self, name: str) -> ShelvedRun | None:
        """See `Shelf.run`."""
        if not is_run_name(name):
            return None
        with open_store(self.address) as store:
            return next(map(_stored, list_stored(store, name=name)), None)

    def folder(self, run: ShelvedRun) -> tuple[Path, Sequence[str]]:
        """See `Shelf.folder`."""
        found = StoreSource(self.address).find(run.name)
        return found.directory, found.problems


def _of_folder(folder: Path) -> ShelvedRun:
    """The run's line, read anew when the folder's time changes: records are written under other
    names and renamed, which changes it."""
    run = open_run(folder)
    info = run.info
    times = [run.stat().st_mtime_ns if run.exists() else 0 for run in (folder, folder / "trials")]
    return ShelvedRun(
        name=folder.name,
        campaign=info.campaign,
        started_at=info.started_at[:16].replace("T", " "),
        machine=MachineId.of({}, info.host).name,
        trials=len(run.file_names()),
        switchmark=info.switchmark_version,
        state=tuple(times),
    )


def _stored(run: StoredRun) -> ShelvedRun:
    return ShelvedRun(
        name=run.name,
        campaign=run.campaign,
        started_at=f"{run.started_at:%Y-%m-%d %H:%M}",
        machine=", ".join(run.testbeds) or run.hostname or "a host without a name",
        trials=run.finished + run.failed,
        switchmark=run.switchmark,
        state=(run.finished, run.failed, run.size_bytes),
    )
