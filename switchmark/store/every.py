"""All runs of a folder, or of a store, as folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from switchmark.results.find import list_runs
from switchmark.store.address import read_store_address
from switchmark.store.source import StoreSource


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
        for line in found.problems:
            say(line)
    return folders
