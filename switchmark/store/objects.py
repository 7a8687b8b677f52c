"""The place of record files: objects of an S3 bucket, or files of a shared folder.

A file is written once, and read only if its size is that of the index. The index contains the place
(`switchmark store init --objects`), so that all users of a store use the same. It never contains
credentials: each user has them in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

from switchmark.errors import UsageError

MAX_OBJECT_BYTES = 256 << 20  # a record with the samples of a day has about 10 MB
_KNOWN = ("endpoint", "region")


class Objects(Protocol):
    """A place for files that are written once."""

    def put(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all.

        Writing the same content again is allowed. Raises `StoreConflictError` if the file has
        another content, `StoreAwayError` if nothing can be written."""

    def get(self, name: str, size_bytes: int) -> bytes:
        """Return the content. Raises `CorruptStoreError` if it is missing or has another size,
        `StoreAwayError` if nothing can be read."""

    def names(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Return the names below this directory, each with its size in bytes."""

    def check(self) -> None:
        """Raise `StoreAwayError` or `UsageError` if files cannot be written and read."""


def check_objects_address(text: str) -> str:
    """Return the canonical form: `s3://bucket/prefix?endpoint=URL&region=NAME`, or a directory.

    Raises `UsageError` for another form, and for credentials in it."""
    if "://" not in text:
        folder = Path(text).absolute()
        if not os.path.isdir(folder):  # noqa: PTH112 Path.is_dir raises for a name that is too long
            raise UsageError(
                f"--objects {text}: there is no such directory here", remedy="create or mount it"
            )
        return str(folder)
    try:
        parts = urlsplit(text)
        query = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        raise UsageError("--objects: cannot be read", remedy="write s3://bucket/prefix") from None
    if parts.username or parts.password or "key" in parts.query.lower():
        raise UsageError(
            "--objects: an address must not contain credentials",
            remedy="put them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    unknown = [name for name in query if name not in _KNOWN]
    if parts.scheme != "s3" or not parts.netloc or unknown or parts.fragment:
        raise UsageError(
            f"--objects {text}: is not a place for record files",
            remedy="write s3://bucket/prefix (with ?endpoint=https://... if needed) or the path "
            "of a shared directory",
        )
    if not query.get("endpoint", "https://").startswith(("https://", "http://")):
        raise UsageError(f"--objects {text}: the endpoint is not an http:// or https:// address")
    return text


def open_objects(address: str) -> Objects:
    """Open the place at this address. Raises `UsageError`, `UnavailableError`."""
    if "://" in address:
        from switchmark.store.s3_objects import S3Objects

        return S3Objects(check_objects_address(address))
    from switchmark.store.folder_objects import FolderObjects

    return FolderObjects(Path(address))
