"""What can go wrong between here and a store, as one line each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from switchmark.errors import SwitchmarkError, UnavailableError

if TYPE_CHECKING:
    from switchmark.store.address import StoreAddress

EXTRA_MISSING = "a store needs two more libraries: pip install 'switchmark[store]'"


class StoreAwayError(SwitchmarkError):
    """The index or the objects did not answer, or have no room: it may succeed later."""


class StoreConflictError(SwitchmarkError):
    """What is stored already contradicts what was to be stored; nothing was changed."""


class CorruptStoreError(SwitchmarkError):
    """Something in a store cannot be trusted; the message names it."""


def not_set_up(address: StoreAddress) -> str:
    """The line about a database that holds no store."""
    return (
        f"{address}: no store is set up there; run: switchmark store init {address} --objects "
        "s3://BUCKET/PREFIX"
    )


@contextmanager
def telling(address: StoreAddress) -> Iterator[None]:
    """Turn psycopg's errors in the block into ours, in one line. Raises StoreAwayError where trying
    again later may help, else SwitchmarkError."""
    try:
        import psycopg
    except ImportError as error:
        raise UnavailableError(EXTRA_MISSING) from error
    try:
        yield
    except (
        psycopg.OperationalError,  # unreachable, shut down, full, too many connections
        psycopg.InterfaceError,  # the connection was closed during use
        psycopg.errors.IdleInTransactionSessionTimeout,  # this process was stopped for a minute
    ) as error:
        raise StoreAwayError(f"{address}: {_line(error)}") from error
    except psycopg.errors.UndefinedTable as error:
        raise SwitchmarkError(not_set_up(address)) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise SwitchmarkError(
            f"{address}: {_line(error)}; ask the owner of the database for permission"
        ) from error
    except psycopg.Error as error:
        raise SwitchmarkError(f"{address}: {_line(error)}") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
