"""A folder that is built under a temporary name and then renamed, so that it is complete or absent.

The builder holds a lock on the temporary folder. A folder without a lock is left over from a killed
bench, and is removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = ".building-"
HELD_WITHIN_S = 60.0  # longer than from making a folder to holding it


@contextmanager
def building(final: Path) -> Iterator[Path]:
    """A private folder beside `final`. It is renamed to `final` when the context ends, unless
    another bench has created that folder meanwhile. Raises OSError."""
    _remove_abandoned(final.parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=final.parent))
    lock_fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
        yield folder
        try:
            folder.rename(final)
        except OSError:
            if not final.is_dir():
                raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock_fd)


def _remove_abandoned(parent: Path) -> None:
    """Remove folders without a lock: their builders were killed."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # the folder is locked, or another bench also removes it
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(fd).st_mtime > HELD_WITHIN_S:
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)
