"""Compares each file of a store with its digest, size and row in the index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from switchmark.record import Record
from switchmark.results.columns import COLUMNS_DIGEST, columns_of
from switchmark.store.errors import CorruptStoreError
from switchmark.store.index import without_nul
from switchmark.store.pull import expected_files, fetched
from switchmark.store.store import Store


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """The result of a check."""

    runs: int
    files: int
    size_bytes: int
    problems: tuple[str, ...]  # one line each
    unknown: tuple[str, ...]  # objects without a row, left by writers that were interrupted
    older_rows: int  # rows with the columns of an earlier version; `fix` renews them


def check_store(
    store: Store, on_run: Callable[[str], None], *, quick: bool = False, fix: bool = False
) -> StoreCheck:
    """Read all files and compare them with the index.

    `on_run` is called with the name of each run. `quick` compares names and sizes only, `fix`
    rewrites rows that differ from their records."""
    rows = store.connection.execute("SELECT name FROM runs ORDER BY run").fetchall()
    problems: list[str] = []
    unknown: list[str] = []
    files = size = older = 0
    for (name,) in rows:
        on_run(name)
        try:
            expected = expected_files(store, name, superseded=True)
        except CorruptStoreError as error:
            problems.append(str(error))
            continue
        files += len(expected)
        size += sum(file.size_bytes for file in expected.values())
        indexed = {file.object_name: file.size_bytes for file in expected.values()}
        existing = dict(store.objects.names(name))
        unknown += sorted(existing.keys() - indexed.keys())
        if quick:
            problems += [f"{path}: is missing" for path in sorted(indexed.keys() - existing.keys())]
            problems += [
                f"{path}: {existing[path]} bytes, but {indexed[path]} were stored"
                for path in sorted(indexed.keys() & existing.keys())
                if existing[path] != indexed[path]
            ]
            continue
        rows_by_digest = _rows(store, name)
        for path, content in fetched(store, expected):
            if isinstance(content, CorruptStoreError):
                problems.append(str(content))
            elif path.startswith("trials/"):
                row = rows_by_digest[expected[path].sha256]
                older += row.columns_digest != COLUMNS_DIGEST
                problems += _compare(store, name, path, content, row, fix=fix)
    return StoreCheck(len(rows), files, size, tuple(problems), tuple(unknown), older)


@dataclass(frozen=True, slots=True)
class _Row:
    run: int
    trial_id: str
    attempt: int
    status: str
    columns_digest: str
    columns: dict[str, object]


def _rows(store: Store, run_name: str) -> dict[bytes, _Row]:
    """Return the rows of a run, by the digest of their records."""
    rows = store.connection.execute(
        "SELECT sha256, run, trial_id, attempt, status, columns_of, columns FROM attempts "
        "JOIN runs USING (run) WHERE name = %s",
        [run_name],
    )
    return {bytes(sha256): _Row(*others) for sha256, *others in rows.fetchall()}


def _compare(
    store: Store, run_name: str, path: str, content: bytes, row: _Row, *, fix: bool
) -> Iterator[str]:
    from psycopg.types.json import Jsonb

    try:
        record = Record.model_validate_json(content)
    except ValidationError:
        yield f"{run_name}/{path}: is not a record that this version can read"
        return
    if (record.trial_id, record.status) != (row.trial_id, row.status):
        yield f"{run_name}/{path}: the index calls it {row.status} trial {row.trial_id}"
        return
    columns = without_nul(columns_of(record.model_dump(mode="json")))
    if columns == row.columns and row.columns_digest == COLUMNS_DIGEST:
        return
    if fix:
        store.connection.execute(
            "UPDATE attempts SET columns = %s, columns_of = %s "
            "WHERE run = %s AND trial_id = %s AND attempt = %s",
            [Jsonb(columns), COLUMNS_DIGEST, row.run, row.trial_id, row.attempt],
        )
    elif row.columns_digest == COLUMNS_DIGEST:
        yield f"{run_name}/{path}: its row in the index has other figures; --fix rewrites it"
