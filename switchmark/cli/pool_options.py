"""Options of all commands of a pool: its address, and the certificates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from switchmark.cli.grouped_help import POOL
from switchmark.cli.options import store_option
from switchmark.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from distributed.security import Security

    from switchmark.pool.database import PoolDatabase

EXTRA_MISSING = "a pool needs Dask and PostgreSQL's client"
EXTRA_REMEDY = "run: pip install 'switchmark[pool]'"


def check_extra() -> None:
    """Raise `UnavailableError` if the libraries for a pool are not installed."""
    from importlib.util import find_spec

    if find_spec("distributed") is None or find_spec("psycopg") is None:
        raise UnavailableError(EXTRA_MISSING, remedy=EXTRA_REMEDY)


@dataclass(frozen=True, slots=True)
class CredentialFiles:
    """The files with the certificates of a pool: all three, or none.

    Without them, all programs of one user on one machine share a certificate."""

    authority: Annotated[
        Path | None,
        typer.Option(
            "--authority",
            metavar="FILE",
            help="The CA certificate of the pool (PEM).",
            rich_help_panel=POOL,
        ),
    ] = None
    certificate: Annotated[
        Path | None,
        typer.Option(
            "--certificate",
            metavar="FILE",
            help="The certificate of this program (PEM), signed by the CA.",
            rich_help_panel=POOL,
        ),
    ] = None
    key: Annotated[
        Path | None,
        typer.Option(
            "--key",
            metavar="FILE",
            help="The private key of the certificate (PEM).",
            rich_help_panel=POOL,
        ),
    ] = None

    def contact(self, address: str) -> tuple[str, Security]:
        """Return a pool's address in Dask's form, and the credentials. Raises `UsageError`."""
        from switchmark.pool.security import contact, credentials_of

        return contact(address, credentials_of(self.authority, self.certificate, self.key))


@dataclass(frozen=True, slots=True)
class PoolContact(CredentialFiles):
    """The pool, and its database: given by its address, or asked from the pool."""

    pool: Annotated[
        str | None,
        typer.Option("--pool", metavar="HOST:PORT", envvar="SWITCHMARK_POOL", help="The pool."),
    ] = None
    store: Annotated[
        str | None,
        store_option("Its store, instead of asking the pool"),
    ] = None

    def database(self) -> PoolDatabase:
        """Return the pool's database. Raises `UsageError`, `SwitchmarkError`."""
        check_extra()
        from switchmark.pool.database import PoolDatabase
        from switchmark.pool.scheduler import store_of
        from switchmark.store.address import read_store_address

        store = self.store
        if store is None:
            if self.pool is None:
                raise UsageError(
                    "--pool HOST:PORT is missing",
                    remedy="give it, or SWITCHMARK_POOL, or --store postgresql://host/database",
                )
            store = store_of(*self.contact(self.pool))
        return PoolDatabase(read_store_address(store))
