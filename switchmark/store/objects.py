"""The place of record files: objects of an S3 bucket, or files of a shared folder.

A file is written once under a name that says what it is, and read only in the size that the index
gives. The index keeps the place (`switchmark store init --objects`), so that all who use a store
use the same; it never keeps credentials: each user has them in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

from switchmark.errors import UsageError

MAX_OBJECT_BYTES = 256 << 20  # a record of a day's samples has some ten MB
_KNOWN = ("endpoint", "region")


class Objects(Protocol):
    """A place of files that are written once."""

    def put(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all.

        The same content again is no error. Raises StoreConflictError where another content is
        there, StoreAwayError where nothing can be written."""

    def get(self, name: str, size_bytes: int) -> bytes:
        """The content. Raises CorruptStoreError where it is missing or of another size,
        StoreAwayError where nothing can be read."""

    def names(self, prefix: str) -> Iterator[tuple[str, int]]:
        """The names with this beginning (whole parts of a path), each with its size in bytes."""

    def check(self) -> None:
        """Raise StoreAwayError or UsageError where nothing can be written or read."""


def check_objects_address(text: str) -> str:
    """The place in its canonical form: `s3://bucket/prefix?endpoint=URL&region=NAME`, or a folder's
    path. Raises UsageError for anything else, and for credentials in it."""
    if "://" not in text:
        folder = Path(text).absolute()
        if not os.path.isdir(folder):  # noqa: PTH112 (Path.is_dir raises for a name that is too long)
            raise UsageError(f"--objects {text}: no such folder here; make it, or mount it")
        return str(folder)
    try:
        parts = urlsplit(text)
        query = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        raise UsageError("--objects: cannot be read; write s3://bucket/prefix") from None
    if parts.username or parts.password or "key" in parts.query.lower():
        raise UsageError(
            "--objects: an address holds no credentials; put them into AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY"
        )
    unknown = [name for name in query if name not in _KNOWN]
    if parts.scheme != "s3" or not parts.netloc or unknown or parts.fragment:
        raise UsageError(
            f"--objects {text}: write s3://bucket/prefix (?endpoint=https://... where needed) "
            "or the path of a folder that all share"
        )
    if not query.get("endpoint", "https://").startswith(("https://", "http://")):
        raise UsageError(f"--objects {text}: endpoint is an http:// or https:// address")
    return text


def open_objects(address: str) -> Objects:
    """Open the place of this address. Raises UsageError, or UnavailableError without the
    library."""
    if "://" in address:
        from switchmark.store.s3_objects import S3Objects

        return S3Objects(check_objects_address(address))
    from switchmark.store.folder_objects import FolderObjects

    return FolderObjects(Path(address))
