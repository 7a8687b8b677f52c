"""Copies a run directory into a store.

The directory is not changed. Files that the store has are skipped by their digests, so an
interrupted push can be repeated, and a push after each trial is cheap.
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
_CONCURRENT = 8  # transfers
_NOT_FILES = ("lock", "trials")  # neither copied nor listed as left out


@dataclass(frozen=True, slots=True)
class Pushed:
    """The result of a push."""

    run: str
    new: int  # records that the store did not have
    known: int  # records that it had
    left_out: tuple[str, ...]  # files that are made from the records, or not part of a run


@dataclass(frozen=True, slots=True)
class _PushedFile:
    path: Path
    trial_id: str
    attempt: int


def push_folder(store: Store, folder: Path) -> Pushed:
    """Store a run directory.

    Raises `CorruptResultError` for a damaged file before anything is stored, and the errors of
    `Store`."""
    folder = folder.resolve()
    open_run(folder)
    files = {
        path.name: file_content(path)
        for path in sorted(folder.iterdir())
        if RUN_FILE.fullmatch(path.name)
    }
    attempts = list(attempts_in(folder))
    run = store.add_run(folder.name, files)
    new = 0
    waiting = iter(attempts)
    while batch := list(islice(waiting, _BATCH)):
        new += _push(store, folder.name, run, batch)
    copied = {*files, *_NOT_FILES}
    others = sorted(path.name for path in folder.iterdir() if path.name not in copied)
    return Pushed(folder.name, new, len(attempts) - new, tuple(others))


def push_record(store: Store, folder: Path, trial_id: str) -> None:
    """Store the records of one trial of a run that was stored before."""
    run = store.run_number(folder.name)
    _push(store, folder.name, run, list(attempts_in(folder, trial_id)))


def attempts_in(folder: Path, trial_id: str = "") -> Iterator[_PushedFile]:
    """Yield the record files of a run directory, or of one trial, as attempts.

    Failed attempts that were repeated have numbers; the current record has the next number."""
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
    for trial, path in current.items():
        last = failed.get(trial, 0)
        # After a crash between the second name of a failure and the new record, both are one file.
        if last and path.samefile(path.with_name(f"{trial}.failed-{last}.json")):
            continue
        yield _PushedFile(path, trial, last + 1)


def _push(store: Store, run_name: str, run: int, files: Sequence[_PushedFile]) -> int:
    """Store these attempts; return the number of new attempts."""
    stored = stored_attempts(store.connection, run, [file.trial_id for file in files])
    known = {(trial_id, sha256) for (trial_id, _), sha256 in stored.items()}
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
    with ThreadPoolExecutor(_CONCURRENT) as pool:
        list(pool.map(lambda item: store.objects.put(*item), contents))
    add_attempts(store.connection, run, rows)
    return len(rows)


def folders_of(names: Sequence[Path]) -> list[Path]:
    """Return the run directories among these paths and directly below them.

    Raises `UsageError` for a path that neither is nor contains a run directory."""
    folders = []
    for name in names:
        inside = sorted(path.parent for path in name.glob("*/run.json"))
        if not (name / "run.json").is_file() and not inside:
            raise UsageError(f"{name}: is not a run directory, and contains none")
        folders += [name] if (name / "run.json").is_file() else inside
    return folders
