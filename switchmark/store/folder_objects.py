"""Record files in a directory that all machines of a store share, for example by NFS.

A file is written under a temporary name, synced, and linked to its final name. A link never
replaces a file, so the second of two writers gets an error.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from switchmark.errors import UsageError
from switchmark.results.durable import sync_folder, synced_beside
from switchmark.store.errors import CorruptStoreError, StoreAwayError, StoreConflictError


class FolderObjects:
    """Files below a directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    def put(self, name: str, content: bytes) -> None:
        """See `Objects.put`."""
        path = self._folder / name
        try:
            self._check_mounted()
            path.parent.mkdir(parents=True, exist_ok=True)
            with synced_beside(path, content) as temporary:
                os.link(temporary, path)
            sync_folder(path.parent)
        except FileExistsError:
            if self.get(name, len(content)) != content:
                raise StoreConflictError(f"{path}: exists with another content") from None
        except OSError as error:
            raise StoreAwayError(f"{path}: cannot be written ({error.strerror})") from error

    def get(self, name: str, size_bytes: int) -> bytes:
        """See `Objects.get`."""
        path = self._folder / name
        try:
            self._check_mounted()
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            with os.fdopen(fd, "rb") as file:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode) or status.st_size != size_bytes:
                    raise CorruptStoreError(
                        f"{path}: {status.st_size} bytes, but {size_bytes} were stored"
                    )
                return file.read(size_bytes + 1)
        except FileNotFoundError as error:
            raise CorruptStoreError(f"{path}: is missing") from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise CorruptStoreError(f"{path}: is a symbolic link, not a record file") from error
            raise StoreAwayError(f"{path}: cannot be read ({error.strerror})") from error

    def names(self, prefix: str) -> Iterator[tuple[str, int]]:
        """See `Objects.names`."""
        for folder, _, files in os.walk(self._folder / prefix):
            for file in files:
                path = Path(folder, file)
                with suppress(FileNotFoundError):  # a temporary file that was removed meanwhile
                    yield str(path.relative_to(self._folder)), path.lstat().st_size

    def check(self) -> None:
        """See `Objects.check`."""
        if not os.access(self._folder, os.R_OK | os.W_OK | os.X_OK):
            raise UsageError(f"{self._folder}: cannot be written", remedy="grant permission")
        self._check_mounted()

    def _check_mounted(self) -> None:
        """Raise `StoreAwayError` if the share is not mounted: files would be written locally."""
        if not self._folder.is_dir():
            raise StoreAwayError(
                f"{self._folder}: the directory of the store does not exist", remedy="mount it"
            )
