"""DuckDB over the documents of records: one for the process, since to open one takes as long as to
read a run."""

from __future__ import annotations

import atexit
from contextlib import suppress
from functools import cache

import duckdb

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
