"""Files that are complete or absent after a crash, and a lock that ends with its process."""

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

# A week's trial (the longest) of two applications at five samples a second is 3.2 GB.
MOST_BYTES = 4 << 30


def file_content(path: Path) -> bytes:
    """The content of a regular file. Raises OSError for a pipe, which would never end, for a
    device, and for a file that is larger than any of ours."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"{status.st_size >> 30} GiB, as no result is", str(path))
        return file.read(status.st_size)  # (memory for so many bytes is taken at once)


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
    """A whole, synced file under a temporary name beside `path`, which is removed at the end of the
    block. Raises OSError."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")  # (names may be of full length)
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
    """An exclusive lock that dies with the process. Raises UsageError naming the holder."""
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
