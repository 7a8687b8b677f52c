"""Durable files: complete or absent after a crash. Also the lock of a run."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.locks import open_lock

# A trial of a week, the longest, with two applications and five samples a second has 3.2 GB.
MOST_BYTES = 4 << 30


def file_content(path: Path) -> bytes:
    """Return the content of a regular file. Raises OSError for a pipe, which would never end, for a
    device, and for a file that is larger than any result."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_size > MOST_BYTES:
            raise OSError(
                errno.EFBIG, f"{status.st_size >> 30} GiB, too large for a result", str(path)
            )
        return file.read(status.st_size)


def write_durably(path: Path, content: bytes) -> None:
    """Write so that a crash leaves either the whole file under its name or nothing."""
    try:
        with synced_beside(path, content) as temporary:
            temporary.replace(path)
    except OSError as error:
        raise SwitchmarkError(
            f"{path}: cannot be written ({error.strerror}); earlier files are complete; make room "
            "or permit writing, then --resume goes on"
        ) from error
    sync_folder(path.parent)


@contextmanager
def synced_beside(path: Path, content: bytes) -> Iterator[Path]:
    """Write a synced file under a temporary name beside `path`, and remove it at the end of the
    block. Raises OSError."""
    # The name does not extend that of `path`, which may have the full length.
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a crash. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def take_lock(directory: Path) -> int:
    """Take an exclusive lock that ends with the process. Raises UsageError naming the holder."""
    lock = open_lock(directory / "lock")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise UsageError(
            f"{directory}: another run writes here (process {holder}); wait for it or stop it"
        ) from error
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    return lock
