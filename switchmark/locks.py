"""Lock files that only users with write access to the folder can open."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


def open_lock(path: Path) -> int:
    """Open a lock file, and create it if it is missing. Only users with write access to its folder
    can open it: flock() needs read access only, so any reader could block all others. Raises
    OSError."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    writers = path.parent.stat().st_mode & 0o022
    with suppress(OSError):  # another user owns the file and has set its mode
        os.fchmod(fd, 0o600 | writers | writers << 1)  # independent of the umask
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
