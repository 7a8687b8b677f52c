"""Fetches a run from a store as a run directory, and checks each file.

Other machines write to a store, so its content is not trusted: names are computed here and never
read from it, and a file must have the size and the digest of the index. Files that are not valid
records are reported by the programs that read the directory.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.store.address import is_run_name
from switchmark.store.errors import CorruptStoreError
from switchmark.store.names import RUN_FILE, digest, record_file, record_object, run_file_object
from switchmark.store.objects import MAX_OBJECT_BYTES
from switchmark.store.store import Store

_CONCURRENT = 16  # transfers
_TRIAL_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Expected:
    """A file of a run, as the index describes it."""

    object_name: str
    sha256: bytes
    size_bytes: int


def expected_files(store: Store, run_name: str, *, superseded: bool = False) -> dict[str, Expected]:
    """Return the files of a run directory, by their paths in it.

    `superseded` includes the records of blocks that another testbed measured again. Raises
    `UsageError` if there is no such run, `CorruptStoreError` if the index contradicts itself."""
    run = store.run_number(run_name)
    if not is_run_name(run_name):
        raise CorruptStoreError(f"{store.address}: {run_name!r} is not a name of a run")
    expected: dict[str, Expected] = {}
    rows = store.connection.execute("SELECT name, sha256, bytes FROM files WHERE run = %s", [run])
    for name, sha256, size in rows.fetchall():
        if not RUN_FILE.fullmatch(name):
            raise CorruptStoreError(f"{run_name}/{name}: is not a file of a run")
        expected[name] = _expected(run_file_object(run_name, name, bytes(sha256)), sha256, size)
    if "run.json" not in expected:
        raise CorruptStoreError(f"{run_name}: its run.json is not in the index")
    rows = store.connection.execute(
        "SELECT trial_id, attempt, sha256, bytes, max(attempt) OVER (PARTITION BY trial_id) "
        "FROM attempts WHERE run = %s AND (%s OR NOT superseded)",
        [run, superseded],
    )
    for trial_id, attempt, sha256, size, last in rows.fetchall():
        if not _TRIAL_ID.fullmatch(trial_id):
            raise CorruptStoreError(f"{run_name}: {trial_id!r} is not an id of a trial")
        path = f"trials/{record_file(trial_id, attempt, last)}"
        name = record_object(run_name, trial_id, attempt, bytes(sha256))
        expected[path] = _expected(name, sha256, size)
    return expected


def pull(store: Store, run_name: str, destination: Path) -> Path:
    """Create a run directory in `destination` with all its files or not at all; return its path.

    Raises `UsageError` if it exists, `CorruptStoreError` with the name of a damaged file."""
    files = expected_files(store, run_name)
    folder = destination / run_name
    if folder.exists():
        raise UsageError(f"{folder}: exists already", remedy="give another directory with --to")
    temporary = destination / f".{secrets.token_hex(8)}.tmp"
    try:
        (temporary / "trials").mkdir(parents=True)
        for path, content in fetched(store, files):
            if isinstance(content, CorruptStoreError):
                raise content
            (temporary / path).write_bytes(content)
        temporary.rename(folder)
    except OSError as error:
        raise SwitchmarkError(f"{folder}: cannot be written ({error.strerror})") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def keep_copy(store: Store, run_name: str, folder: Path) -> list[str]:
    """Bring a copy of a run up to date by fetching the files that it lacks.

    Return one line for each damaged file; the copy does not contain those."""
    files = expected_files(store, run_name)
    (folder / "trials").mkdir(parents=True, exist_ok=True)
    for old in [*folder.glob("*"), *folder.glob("trials/*")]:
        name = str(old.relative_to(folder))
        if name != "trials" and name not in files:
            old.unlink()
    lacking = {name: file for name, file in files.items() if not _exists(folder / name, file)}
    problems = []
    for path, content in fetched(store, lacking):
        if isinstance(content, CorruptStoreError):
            problems.append(str(content))
            (folder / path).unlink(missing_ok=True)
            continue
        temporary = folder / f".{secrets.token_hex(8)}.tmp"
        temporary.write_bytes(content)
        temporary.replace(folder / path)
    if not (folder / "run.json").is_file():
        raise CorruptStoreError("; ".join(problems))
    return problems


def fetched(
    store: Store, files: Mapping[str, Expected]
) -> Iterator[tuple[str, bytes | CorruptStoreError]]:
    """Yield the checked content of each file, or its error; a bounded number is in memory."""

    def fetch(item: tuple[str, Expected]) -> tuple[str, bytes | CorruptStoreError]:
        path, expected = item
        try:
            return path, checked_object(store, expected)
        except CorruptStoreError as error:
            return path, error

    waiting = iter(files.items())
    with ThreadPoolExecutor(_CONCURRENT) as pool:
        while batch := list(islice(waiting, 4 * _CONCURRENT)):
            yield from pool.map(fetch, batch)


def checked_object(store: Store, expected: Expected) -> bytes:
    """Return the content of an object. Raises `CorruptStoreError` if it is damaged."""
    content = store.objects.get(expected.object_name, expected.size_bytes)
    if digest(content) != expected.sha256:
        raise CorruptStoreError(
            f"{store.objects}/{expected.object_name}: is damaged (its digest differs)"
        )
    return content


def _expected(object_name: str, sha256: Iterable[int], size_bytes: int) -> Expected:
    if not 0 <= size_bytes <= MAX_OBJECT_BYTES:
        raise CorruptStoreError(
            f"{object_name}: the index gives an impossible size, {size_bytes} bytes"
        )
    return Expected(object_name, bytes(sha256), size_bytes)


def _exists(path: Path, expected: Expected) -> bool:
    try:
        size = path.lstat().st_size
        return size == expected.size_bytes and digest(path.read_bytes()) == expected.sha256
    except FileNotFoundError:
        return False
