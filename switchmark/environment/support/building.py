"""A folder that is built under a temporary name and renamed, so that it is there whole or not at
all. Who builds one holds a lock on it, by which what a killed bench was building is told from what
another one builds now, and removed.
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
    """A folder beside `final`, closed to everybody else, which takes its name once the context
    ends, unless there is one by then: another bench was faster. Raises OSError."""
    _remove_abandoned(final.parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=final.parent))
    held = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield folder
        try:
            folder.rename(final)
        except OSError:
            if not final.is_dir():
                raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _remove_abandoned(parent: Path) -> None:
    """Remove what benches were building when they were killed: nobody holds it."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # held, or another bench removes it, too
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(fd).st_mtime > HELD_WITHIN_S:
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)
