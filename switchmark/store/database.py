"""Connections to a store's index in PostgreSQL.

Each connection is checked: the tables of the database must be those of this program (`migrate`).
Each statement is committed at once, except in `with connection.transaction()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from switchmark.store.address import SCHEMA, StoreAddress
from switchmark.store.errors import store_errors
from switchmark.store.migrate import check_version

if TYPE_CHECKING:
    from psycopg import Connection

_CONNECT_S = 15


@contextmanager
def connected(address: StoreAddress, *, checked: bool = True) -> Iterator[Connection]:
    """Open a connection for the block. `checked=False` is for setting the database up.

    Raises the errors of `store_errors`."""
    with store_errors(address), open_connection(address) as connection:
        if checked:
            check_version(connection, address)
        yield connection


def open_connection(address: StoreAddress) -> Connection:
    """Open a connection, which the caller closes. Raises `psycopg.Error`."""
    import psycopg

    connection = psycopg.connect(
        address.url,
        autocommit=True,
        connect_timeout=_CONNECT_S,
        fallback_application_name="switchmark",
        # A client whose network is lost during a transaction must not keep its locks for hours.
        keepalives_idle=30,
        keepalives_interval=10,
        keepalives_count=3,
    )
    try:
        connection.execute(f"SET search_path TO {SCHEMA}")
        connection.execute("SET timezone TO 'UTC'")
        connection.execute("SET idle_in_transaction_session_timeout TO '60s'")
    except BaseException:
        connection.close()
        raise
    return connection
