"""Errors of a store, with one line each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from switchmark.errors import Refusal, SwitchmarkError, UnavailableError

if TYPE_CHECKING:
    from switchmark.store.address import StoreAddress

EXTRA_MISSING = "a store needs two more libraries"
EXTRA_REMEDY = "run: pip install 'switchmark[store]'"


class StoreAwayError(SwitchmarkError):
    """The index or the objects cannot be reached, or have no space: a later try may succeed."""


class StoreConflictError(SwitchmarkError):
    """The store contains something else under this name; nothing was changed."""


class CorruptStoreError(SwitchmarkError):
    """A file or a row of a store is damaged; the message names it."""


def no_store(address: StoreAddress) -> Refusal:
    """Return the reason why a database without a store is refused."""
    return Refusal(
        f"{address}: no store is set up there",
        remedy=f"run: switchmark store init {address} --objects s3://BUCKET/PREFIX",
    )


@contextmanager
def store_errors(address: StoreAddress) -> Iterator[None]:
    """Turn the errors of psycopg in the block into errors of one line.

    Raises `StoreAwayError` if a later try may succeed, otherwise `SwitchmarkError`."""
    try:
        import psycopg
    except ImportError as error:
        raise UnavailableError(EXTRA_MISSING, remedy=EXTRA_REMEDY) from error
    try:
        yield
    except (
        psycopg.OperationalError,  # unreachable, shut down, full, too many connections
        psycopg.InterfaceError,  # the connection was closed during use
        psycopg.errors.IdleInTransactionSessionTimeout,  # this process was stopped for a minute
    ) as error:
        raise StoreAwayError(f"{address}: {_line(error)}") from error
    except psycopg.errors.UndefinedTable as error:
        raise SwitchmarkError(no_store(address)) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise SwitchmarkError(
            f"{address}: {_line(error)}", remedy="ask the owner of the database for permission"
        ) from error
    except psycopg.Error as error:
        raise SwitchmarkError(f"{address}: {_line(error)}") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
