"""The pool's connection to PostgreSQL, and retries while it cannot be reached."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg

from switchmark.store.address import StoreAddress
from switchmark.store.database import open_connection
from switchmark.store.errors import StoreAwayError, store_errors
from switchmark.store.migrate import check_version
from switchmark.store.store import Store, store_of

T = TypeVar("T")
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 5.0
_LONGEST_STATEMENT = "60s"  # a statement that takes longer counts as a lost connection


class PoolDatabase:
    """Runs short transactions on one connection, which is opened again after an error.

    An object must not be shared between threads."""

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self._connection: psycopg.Connection[Any] | None = None
        self._store: Store | None = None

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Open a transaction and commit it at the end of the block.

        Raises `StoreAwayError` if a later attempt may succeed. The transaction may have been
        committed even then, so that it must be possible to repeat it."""
        with self._connected() as connection, connection.transaction():
            yield connection

    @contextmanager
    def store(self) -> Iterator[Store]:
        """Give access to the store, whose methods open their own transactions.

        Raises as `transaction` does."""
        with self._connected() as connection:
            if self._store is None or self._store.connection is not connection:
                self._store = store_of(self.address, connection)
            yield self._store

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        with store_errors(self.address):
            try:
                yield self._open()
            except psycopg.Error:
                self.close()  # the error may have ended the connection
                raise

    def _open(self) -> psycopg.Connection[Any]:
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


def retry(
    action: Callable[[], T],
    say: Callable[[str], None],
    before_retry: Callable[[], None] = lambda: None,
    limit_s: float = math.inf,
) -> T:
    """Repeat the action until the store answers, for `limit_s` at most.

    `say` gets one message when the store is lost, and one when it answers again. `before_retry` may
    raise to end the attempts. Raises `StoreAwayError` at the limit."""
    wait_s, is_waiting, end_s = FIRST_WAIT_S, False, time.monotonic() + limit_s
    while True:
        try:
            result = action()
        except StoreAwayError as error:
            if time.monotonic() >= end_s:
                raise
            if not is_waiting:
                say(f"waiting for the store: {error}")
                is_waiting = True
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
            before_retry()
        else:
            if is_waiting:
                say("the store answers again")
            return result
