"""Files that are replaced whole: who reads one meanwhile has the old one or the new one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_LIVE = (Path("/dev"), Path("/proc"))  # /dev/stdout may be a file that a shell writes, too


def write_atomically(path: Path, content: str | bytes, mode: int | None = None) -> None:
    """Write a file of this content: see `atomic_writer`."""
    with atomic_writer(path, mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_writer(path: Path, mode: int | None = None) -> Iterator[IO[bytes]]:
    """A file to write to, which is at its path with all that was written once the context ends, or
    not at all. It has this mode, or what the umask leaves of 0666; a link stays a link.

    What is no regular file (a device, a pipe) is written to and stays what it is: a rename would
    put a file in the place of /dev/null. Raises OSError, which names the path."""
    if not is_replaced(path):
        with path.open("wb") as live:
            yield live
        return
    target = path.resolve()
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")  # (names may be of full length)
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
    """Whether another file takes the place of this one, which its folder must allow."""
    live = any(path.is_relative_to(one) for one in _LIVE)
    return not live and (path.is_file() or not path.exists())
