"""What the commands of a pool share: how it is reached, and who may."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from switchmark.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from distributed.security import Security

    from switchmark.pool.database import PoolDatabase

PoolAddress = Annotated[
    str | None,
    typer.Option("--pool", metavar="HOST:PORT", envvar="SWITCHMARK_POOL", help="The pool."),
]
StoreOfPool = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="Its store, in place of asking the pool."),
]
Authority = Annotated[
    Path | None, typer.Option("--authority", metavar="FILE", help="The pool's own CA (PEM).")
]
Certificate = Annotated[
    Path | None, typer.Option("--certificate", metavar="FILE", help="One that it signed.")
]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Its private key.")]

EXTRA_MISSING = "a pool needs Dask and a store: pip install 'switchmark[pool]'"


def check_extra() -> None:
    """Raises UnavailableError where what a pool needs is not installed."""
    from importlib.util import find_spec

    if find_spec("distributed") is None or find_spec("psycopg") is None:
        raise UnavailableError(EXTRA_MISSING)


def contact_of(
    address: str, authority: Path | None, certificate: Path | None, key: Path | None
) -> tuple[str, Security | None]:
    """The pool's address as Dask has it, and what is shown there. Raises UsageError."""
    from switchmark.pool.security import contact, credentials_of

    known = credentials_of(authority, certificate, key)
    return contact(address, known), known.security() if known else None


def database_of(
    pool: str | None,
    store: str | None,
    authority: Path | None,
    certificate: Path | None,
    key: Path | None,
) -> PoolDatabase:
    """The pool's database, named or asked for. Raises UsageError, SwitchmarkError."""
    check_extra()
    from switchmark.pool.database import PoolDatabase
    from switchmark.pool.dispatch import store_of
    from switchmark.store.address import read_store_address

    if store is None:
        if pool is None:
            raise UsageError(
                "which pool? name it with --pool HOST:PORT or in SWITCHMARK_POOL, or its store "
                "with --store postgresql://host/database"
            )
        store = store_of(*contact_of(pool, authority, certificate, key))
    return PoolDatabase(read_store_address(store))
