"""Options of all commands of a pool: how it is reached, and with which credentials."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from switchmark.cli.options import store_option
from switchmark.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from distributed.security import Security

    from switchmark.pool.database import PoolDatabase

EXTRA_MISSING = "a pool needs Dask and a store: pip install 'switchmark[pool]'"


def check_extra() -> None:
    """Raise UnavailableError where the libraries for a pool are not installed."""
    from importlib.util import find_spec

    if find_spec("distributed") is None or find_spec("psycopg") is None:
        raise UnavailableError(EXTRA_MISSING)


@dataclass(frozen=True, slots=True)
class CredentialFiles:
    """The files for showing and checking certificates; all three, or none on one machine, where
    all programs of the user share a certificate by themselves."""

    authority: Annotated[
        Path | None, typer.Option("--authority", metavar="FILE", help="The pool's own CA (PEM).")
    ] = None
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", help="One that it signed.")
    ] = None
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Its private key.")] = (
        None
    )

    def contact(self, address: str) -> tuple[str, Security]:
        """A pool's address in Dask's form, and the credentials. Raises UsageError."""
        from switchmark.pool.security import contact, credentials_of

        return contact(address, credentials_of(self.authority, self.certificate, self.key))


@dataclass(frozen=True, slots=True)
class PoolContact(CredentialFiles):
    """The pool, and its database: given by its name, or asked from the pool."""

    pool: Annotated[
        str | None,
        typer.Option("--pool", metavar="HOST:PORT", envvar="SWITCHMARK_POOL", help="The pool."),
    ] = None
    store: Annotated[
        str | None,
        store_option("Its store, in place of asking the pool"),
    ] = None

    def database(self) -> PoolDatabase:
        """The pool's database. Raises UsageError, SwitchmarkError."""
        check_extra()
        from switchmark.pool.database import PoolDatabase
        from switchmark.pool.dispatch import store_of
        from switchmark.store.address import read_store_address

        store = self.store
        if store is None:
            if self.pool is None:
                raise UsageError(
                    "which pool? name it with --pool HOST:PORT or in SWITCHMARK_POOL, or its store "
                    "with --store postgresql://host/database"
                )
            store = store_of(*self.contact(self.pool))
        return PoolDatabase(read_store_address(store))
