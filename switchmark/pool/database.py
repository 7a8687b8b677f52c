"""The pool's connection to the store's index: one is kept, and opened anew when it broke."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from switchmark.store.address import StoreAddress
from switchmark.store.database import open_connection
from switchmark.store.errors import telling
from switchmark.store.migrate import check_version
from switchmark.store.store import Store, store_of

_LONGEST_STATEMENT = "60s"  # a database that hangs is one that is away


class PoolDatabase:
    """Short transactions, one at a time. Not to be shared between threads."""

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self._connection: psycopg.Connection[Any] | None = None
        self._store: Store | None = None

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """An open transaction, committed at the end of the block.

        Raises `StoreAwayError` where it may succeed later; then nothing was changed, or nobody can
        tell: everything done in it must bear being done again."""
        with self._kept() as connection, connection.transaction():
            yield connection

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The store itself, whose methods make transactions of their own. Raises as above."""
        with self._kept() as connection:
            if self._store is None or self._store.connection is not connection:
                self._store = store_of(self.address, connection)
            yield self._store

    @contextmanager
    def _kept(self) -> Iterator[psycopg.Connection[Any]]:
        with telling(self.address):
            try:
                yield self._opened()
            except psycopg.Error:
                self.close()  # an error may have ended the connection: the next call opens another
                raise

    def _opened(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            connection = open_connection(self.address)
            try:
                check_version(connection, self.address)
                connection.execute(f"SET statement_timeout TO '{_LONGEST_STATEMENT}'")
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None
