"""Addresses of a store and of a run in it: `postgresql://host/database`, `.../database/RUN`.

An address is a URL of libpq, which also reads the environment, ~/.pgpass and service files. An
address with a password is refused: process lists, shell histories and messages would show it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from switchmark.errors import UsageError

SCHEMES = ("postgresql", "postgres")
SCHEMA = "switchmark"  # in PostgreSQL: a store can share its database with other programs
_SECRETS = ("password", "sslpassword", "passfile_content")
_RUN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}")
REMEDY = "put it into PGPASSWORD or ~/.pgpass"


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The address of an index, and of a run in it if the user gave one."""

    url: str  # for libpq, without a password
    run: str | None = None  # a run's name, or a campaign's

    def __str__(self) -> str:
        return self.url


def is_store_address(text: str) -> bool:
    """Return True if the text means a store, not a directory or a campaign.

    An address with a mistyped scheme is an address also; reading it gives the error."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme.startswith("postgres")


def read_store_address(text: str) -> StoreAddress:
    """Read an address. Raises `UsageError`, which never contains the password."""
    try:
        parts = urlsplit(text)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise UsageError(
            "--store: cannot be read", remedy="write postgresql://host/database"
        ) from None
    user, at, _ = text.partition("?")[0].rpartition("@")
    has_password = at and ":" in user.rpartition("://")[2]
    if has_password or any(name in _SECRETS for name, _ in query) or parts.fragment:
        raise UsageError("--store: an address must not contain a password", remedy=REMEDY)
    if parts.scheme not in SCHEMES:
        raise UsageError(
            f"--store {text}: has another scheme", remedy="write postgresql://host/database"
        )
    database, *rest = parts.path.removeprefix("/").split("/")
    run = unquote("/".join(rest)) or None
    if run is not None and not is_run_name(run):
        raise UsageError(f"--store {text}: {run!r} is not a name of a run or a campaign")
    return StoreAddress(_url(parts.netloc, f"/{database}" if database else "", parts.query), run)


def with_run(address: StoreAddress, run: str) -> str:
    """Return the address of a run, as users write it."""
    parts = urlsplit(address.url)
    return _url(parts.netloc, f"{parts.path or '/'}/{quote(run)}", parts.query)


def _url(netloc: str, path: str, query: str) -> str:
    """Join the parts to a URL. Unlike urllib, keep the slashes if there is no host."""
    return f"postgresql://{netloc}{path}{'?' + query if query else ''}"


def is_run_name(text: str) -> bool:
    """Return True if a run may have this name, as a directory and in names of objects."""
    return _RUN_NAME.fullmatch(text) is not None
