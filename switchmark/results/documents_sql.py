"""DuckDB over the documents of records: one for the process, since to open one takes as long as to
read a run."""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from functools import cache

import duckdb

from switchmark.errors import SwitchmarkError


def as_utf8(path: str) -> str:
    """Return a path as DuckDB and polars take it: as text whose UTF-8 is the file's name. Python
    reads the same name by the locale, so that its text differs where that is not UTF-8. Raises
    SwitchmarkError for a name that is not UTF-8."""
    if path.isascii():
        return path
    try:
        return os.fsencode(path).decode("utf-8")
    except UnicodeDecodeError:
        raise SwitchmarkError(
            f"{path!a}: the name is not UTF-8; move the results to a folder whose name is"
        ) from None


def from_utf8(text: str) -> str:
    """Return a path that `as_utf8` has made, as Python's own functions take it."""
    return text if text.isascii() else os.fsdecode(text.encode("utf-8"))


_MEMORY_LIMIT = "400MB"


def connect() -> duckdb.DuckDBPyConnection:
    """A connection of the caller's own, whose context closes it; threads share the database.

    It has no progress bar, which after two seconds would print on standard output, between our
    tables and JSON."""
    connection = _database().cursor()
    with suppress(duckdb.InvalidInputException):  # in a notebook there is none
        connection.execute("SET enable_progress_bar = false")
    return connection


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """The database, which holds nothing. It is closed before the interpreter ends: afterwards
    DuckDB would print what it calls leaks."""
    atexit.register(_database.cache_clear)
    return duckdb.connect(
        config={"memory_limit": _MEMORY_LIMIT, "threads": 2, "preserve_insertion_order": False}
    )
