"""Connections to a store's index in PostgreSQL.

A connection is checked: the database must have been set up by this version of the program or by an
earlier one that knew the same tables (migrate.py). Statements commit one by one; what belongs
together stands in `with connection.transaction()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from switchmark.store.address import SCHEMA, StoreAddress
from switchmark.store.errors import telling
from switchmark.store.migrate import check_version

if TYPE_CHECKING:
    from psycopg import Connection

_CONNECT_S = 15


@contextmanager
def connected(address: StoreAddress, *, checked: bool = True) -> Iterator[Connection]:
    """A connection for the time of the block, whose errors become one line. `checked=False` is for
    setting the database up. Raises what `telling` raises."""
    with telling(address), open_connection(address) as connection:
        if checked:
            check_version(connection, address)
        yield connection


def open_connection(address: StoreAddress) -> Connection:
    """A connection that the caller closes. Raises psycopg.Error."""
    import psycopg

    connection = psycopg.connect(
        address.url,
        autocommit=True,
        connect_timeout=_CONNECT_S,
        fallback_application_name="switchmark",
        # Who vanishes with a transaction open (a cable, a lid) must not keep its locks for hours.
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
