"""Stores a results folder: the same files, none read twice by the store, none left out.

The folder is not changed. Files that are stored already are skipped by their digests, so a push
that was cut off goes on where it stopped, and a push after every trial costs little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from switchmark.errors import UsageError
from switchmark.results.documents import read_record
from switchmark.results.durable import file_content
from switchmark.results.run_directory import open_run
from switchmark.store.index import IndexedAttempt, add_attempts, stored_attempts
from switchmark.store.names import RUN_FILE, digest, record_object
from switchmark.store.store import Store

_RECORD = re.compile(r"([0-9a-f]{16})(?:\.failed-([1-9][0-9]{0,5}))?\.json")
_BATCH = 100  # attempts in one transaction
_AT_ONCE = 8  # objects under way
_OWN = ("lock", "trials")  # not moved, not told


@dataclass(frozen=True, slots=True)
class Pushed:
    """The result of pushing a folder."""

    run: str
    new: int  # records that the store did not have
    known: int  # records that it had
    left_out: tuple[str, ...]  # files that are made from the records, or are none of ours


@dataclass(frozen=True, slots=True)
class _PushedFile:
    path: Path
    trial_id: str
    attempt: int


def push_folder(store: Store, folder: Path) -> Pushed:
    """Store a run's folder. Raises CorruptResultError for a file that cannot be trusted, before
    anything is stored, and what `Store` raises."""
    folder = folder.resolve()
    open_run(folder)
    files = {
        path.name: file_content(path)
        for path in sorted(folder.iterdir())
        if RUN_FILE.fullmatch(path.name)
    }
    found = list(attempts_in(folder))
    run = store.add_run(folder.name, files)
    new = 0
    waiting = iter(found)
    while batch := list(islice(waiting, _BATCH)):
        new += _push(store, folder.name, run, batch)
    ours = {*files, *_OWN}
    others = sorted(one.name for one in folder.iterdir() if one.name not in ours)
    return Pushed(folder.name, new, len(found) - new, tuple(others))


def push_record(store: Store, folder: Path, trial_id: str) -> None:
    """Store the records of one trial of a run that was stored before."""
    run = store.run_number(folder.name)
    _push(store, folder.name, run, list(attempts_in(folder, trial_id)))


def attempts_in(folder: Path, trial_id: str = "") -> Iterator[_PushedFile]:
    """The record files of a folder (of one trial), as attempts: failures that were measured again
    have their numbers, the current record has the next one."""
    failed: dict[str, int] = {}
    current: dict[str, Path] = {}
    for path in sorted((folder / "trials").glob(f"{trial_id}*.json")):
        match = _RECORD.fullmatch(path.name)
        if match is None:
            continue
        if match[2] is None:
            current[match[1]] = path
        else:
            number = int(match[2])
            failed[match[1]] = max(number, failed.get(match[1], 0))
            yield _PushedFile(path, match[1], number)
    for one, path in current.items():
        last = failed.get(one, 0)
        # A crash came between the failure's second name and the new record: there is none yet.
        if last and path.samefile(path.with_name(f"{one}.failed-{last}.json")):
            continue
        yield _PushedFile(path, one, last + 1)


def _push(store: Store, run_name: str, run: int, files: Sequence[_PushedFile]) -> int:
    """Store these attempts; returns how many were new."""
    held = stored_attempts(store.connection, run, [one.trial_id for one in files])
    known = {(trial_id, sha256) for (trial_id, _), sha256 in held.items()}
    rows: list[IndexedAttempt] = []
    contents: list[tuple[str, bytes]] = []
    for file in files:
        content = file_content(file.path)
        if (file.trial_id, digest(content)) in known:
            continue
        record = read_record(file.path)
        row = IndexedAttempt.of(record, content, file.attempt)
        rows.append(row)
        name = record_object(run_name, row.trial_id, row.attempt, row.sha256)
        contents.append((name, content))
    if not rows:
        return 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda one: store.objects.put(*one), contents))
    add_attempts(store.connection, run, rows)
    return len(rows)


def folders_of(names: Sequence[Path]) -> list[Path]:
    """The results folders among these paths and right below them. Raises UsageError where a path is
    none and holds none."""
    found = []
    for name in names:
        inside = sorted(path.parent for path in name.glob("*/run.json"))
        if not (name / "run.json").is_file() and not inside:
            raise UsageError(f"{name}: neither a results folder nor one that holds some")
        found += [name] if (name / "run.json").is_file() else inside
    return found
