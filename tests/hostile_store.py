"""Readers of a store that others write to: rows of its index, and the objects they name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from switchmark.store.address import StoreAddress
from switchmark.store.check import check_store
from switchmark.store.names import digest
from switchmark.store.pull import keep_copy, pull
from switchmark.store.store import Store
from tests.hostile_inputs import ANY, BAD, SCRATCH, WORDS, Reader, altered, edited
from tests.unit.records import synthetic_record

RECORD = synthetic_record().model_dump(mode="json")
PULLED = SCRATCH / "pulled"


@dataclass
class Rows:
    """A database that answers with these rows."""

    run: str
    content: bytes
    files: list[tuple[str, int]]
    attempts: list[tuple[str, int]]
    status: str
    columns: Any
    query: str = field(default="", init=False)

    def execute(self, query: str, _: object = ()) -> Rows:
        self.query = query
        return self

    def fetchone(self) -> tuple[Any, ...]:
        return (1,)

    def fetchall(self) -> list[tuple[Any, ...]]:
        sha256 = digest(self.content)
        if self.query.startswith("SELECT name FROM runs"):
            return [(self.run,)]
        if "FROM files" in self.query:
            return [(name, sha256, size) for name, size in self.files]
        if "columns" in self.query:
            return [(sha256, 1, one, number, self.status, "x", self.columns)
                    for one, number in self.attempts]  # fmt: skip
        last = max((number for _, number in self.attempts), default=1)
        return [(one, number, sha256, 5, last) for one, number in self.attempts]

    def names(self, prefix: str) -> Iterator[tuple[str, int]]:
        yield f"{prefix}/x", 5

    def get(self, name: str, size_bytes: int) -> bytes:
        assert name.startswith(f"{self.run}/") and ".." not in name.split("/") and size_bytes >= 0
        return self.content


def _read(rows: Rows) -> None:
    """Fetch the run, bring a copy up to date, check it; nothing is made elsewhere."""
    PULLED.mkdir(exist_ok=True)
    store = Store(StoreAddress("postgresql:///x"), rows, rows)  # type: ignore[arg-type]
    before = set(SCRATCH.iterdir())
    errors = []
    for read in (
        lambda: check_store(store, on_run=str),
        lambda: _remove(pull(store, rows.run, PULLED)),
        lambda: keep_copy(store, rows.run, PULLED / "copy"),
    ):
        try:
            read()
        except BAD as error:
            errors.append(str(error))
    assert {one for one in PULLED.rglob("*") if not _is_of_a_run(one)} == set()
    assert set(SCRATCH.iterdir()) == before


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def _is_of_a_run(path: Path) -> bool:
    return path.relative_to(PULLED).parts[0] == "copy"


SIZES = st.one_of(st.just(5), st.integers(-(2**63), 2**63 - 1))
FILES = st.one_of(
    st.sampled_from(["run.json", "campaign.yaml", "resumed-1.json"]), edited(["run.json"]), WORDS
)
TRIALS = st.one_of(st.sampled_from(["0123456789abcdef", RECORD["trial_id"]]), WORDS)
ROWS = st.builds(
    Rows,
    run=st.one_of(st.just("quick-1"), edited(["quick-1"])),
    content=st.one_of(altered(RECORD), ANY).map(json.dumps).map(str.encode),
    files=st.lists(st.tuples(FILES, SIZES), max_size=2).map(lambda all_: [("run.json", 5), *all_]),
    attempts=st.lists(st.tuples(TRIALS, st.integers(-(2**31), 2**31 - 1)), max_size=2),
    status=st.sampled_from(["finished", "failed", ""]),
    columns=ANY,
)
STORE: dict[str, Reader] = {"rows of a store's index": Reader(_read, ROWS)}
