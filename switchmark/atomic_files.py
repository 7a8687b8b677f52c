"""Atomic replacement of files: a concurrent reader sees the old or the new content."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_LIVE = (Path("/dev"), Path("/proc"))  # /dev/stdout may be a file that a shell also writes


def write_atomically(path: Path, content: str | bytes, mode: int | None = None) -> None:
    """Write a file of this content: see `atomic_writer`."""
    with atomic_writer(path, mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_writer(path: Path, mode: int | None = None) -> Iterator[IO[bytes]]:
    """Open a file for writing. When the context ends it is at its path with all its content; after
    an exception it is not there. It has this mode, or 0666 less the umask; a link stays a link.

    A device or a pipe is written directly, since a rename would replace /dev/null by a file. Raises
    OSError, which names the path."""
    if not is_replaced(path):
        with path.open("wb") as live:
            yield live
        return
    target = path.resolve()
    # Without the target's name, which may have the largest length of a name already.
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield file
        temporary.replace(target)
    except OSError as error:  # it names the temporary file, which nobody asked for
        if error.filename in (None, str(temporary)):
            error.filename = str(path)
            error.filename2 = None
        raise
    finally:
        with suppress(OSError):
            temporary.unlink()


def is_replaced(path: Path) -> bool:
    """Return True if a new file replaces this one, which needs write access to its folder."""
    live = any(path.is_relative_to(one) for one in _LIVE)
    return not live and (path.is_file() or not path.exists())
