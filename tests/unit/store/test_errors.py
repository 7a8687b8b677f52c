"""Errors of PostgreSQL that a later attempt may not meet again."""

from __future__ import annotations

import pytest

pytest.importorskip("psycopg")
import psycopg

from switchmark.errors import SwitchmarkError
from switchmark.pool.database import retry
from switchmark.store.address import read_store_address
from switchmark.store.errors import StoreAwayError, store_errors

ADDRESS = read_store_address("postgresql://db.lab/bench")


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.AdminShutdown(),
        psycopg.errors.QueryCanceled(),
        psycopg.errors.IdleInTransactionSessionTimeout(),
        psycopg.InterfaceError("the connection is closed"),
    ],
)
def test_lost_connection_may_be_retried(error: Exception) -> None:
    with pytest.raises(StoreAwayError), store_errors(ADDRESS):
        raise error


def test_wrong_statement_is_not_retried() -> None:
    with pytest.raises(SwitchmarkError) as caught, store_errors(ADDRESS):
        raise psycopg.errors.UndefinedColumn()
    assert not isinstance(caught.value, StoreAwayError)


def test_retry_ends_at_its_limit() -> None:
    messages: list[str] = []
    attempts = []

    def fail() -> None:
        attempts.append(1)
        raise StoreAwayError("db.lab: no route")

    with pytest.raises(StoreAwayError):
        retry(fail, messages.append, limit_s=0.05)
    assert len(attempts) == 2
    assert messages == ["waiting for the store: db.lab: no route"]
