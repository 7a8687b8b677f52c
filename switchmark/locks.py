"""The files of locks: closed to all who could use a lock for nothing but keeping others waiting."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


def open_lock(path: Path) -> int:
    """Open the file of a lock, made now if need be, for those who may write in its folder and for
    nobody else: who can read it can hold the lock, and keep everybody waiting. Raises OSError."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    writers = path.parent.stat().st_mode & 0o022
    with suppress(OSError):  # of a colleague, who has done this
        os.fchmod(fd, 0o600 | writers | writers << 1)  # (whatever the umask, and an older one's)
    return fd


def take_removable_lock(path: Path) -> int:
    """Take the lock of a file that its last user removes. Return the descriptor; closing it gives
    the lock up. Raises BlockingIOError if another program has it, and OSError."""
    while True:
        fd = open_lock(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(fd).st_nlink:
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # removed between opening and locking
