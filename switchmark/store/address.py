"""Names of a store and of a run in it: `postgresql://host/database`, and `.../database/RUN`.

The address is libpq's own URL, so what libpq takes from the environment, from ~/.pgpass and from
service files counts here, too. A password in it is refused: it would stand in process lists, shell
histories and messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from switchmark.errors import UsageError

SCHEMES = ("postgresql", "postgres")
SCHEMA = "switchmark"  # of PostgreSQL: a store shares its database with whatever else is there
_SECRETS = ("password", "sslpassword", "passfile_content")
_RUN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}")
REMEDY = "put it into PGPASSWORD or ~/.pgpass"


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The address of an index and, if one is meant, of a run in it."""

    url: str  # for libpq, without a password
    run: str | None = None  # a run's name, or a campaign's

    def __str__(self) -> str:
        return self.url


def is_store_address(text: str) -> bool:
    """Whether the text means a store, not a folder or a campaign; so does one with a slip in its
    scheme, which is refused when it is read."""
    scheme, found, _ = text.partition("://")
    return bool(found) and scheme.startswith("postgres")


def read_store_address(text: str) -> StoreAddress:
    """Read an address. Raises UsageError that never repeats a password."""
    try:
        parts = urlsplit(text)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise UsageError("--store: cannot be read; write postgresql://host/database") from None
    user, at, _ = text.partition("?")[0].rpartition("@")
    has_password = at and ":" in user.rpartition("://")[2]
    if has_password or any(name in _SECRETS for name, _ in query) or parts.fragment:
        raise UsageError(f"--store: an address holds no password; {REMEDY}")
    if parts.scheme not in SCHEMES:
        raise UsageError(f"--store {text}: write postgresql://host/database")
    database, *rest = parts.path.removeprefix("/").split("/")
    run = unquote("/".join(rest)) or None
    if run is not None and not is_run_name(run):
        raise UsageError(f"--store {text}: {run!r} is no name of a run or a campaign")
    return StoreAddress(_url(parts.netloc, f"/{database}" if database else "", parts.query), run)


def with_run(address: StoreAddress, run: str) -> str:
    """The address of one run, as users write it."""
    parts = urlsplit(address.url)
    return _url(parts.netloc, f"{parts.path or '/'}/{quote(run)}", parts.query)


def _url(netloc: str, path: str, query: str) -> str:
    """The URL of the parts. (urllib leaves out the slashes where no host is named.)"""
    return f"postgresql://{netloc}{path}{'?' + query if query else ''}"


def is_run_name(text: str) -> bool:
    """Whether a run's folder may have this name: one plain name, on this machine and in objects."""
    return _RUN_NAME.fullmatch(text) is not None
