"""Files that are replaced whole: who reads one meanwhile has the old one or the new one."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

_LIVE = (Path("/dev"), Path("/proc"))  # /dev/stdout may be a file that a shell writes, too


def write_whole(path: Path, content: str | bytes, mode: int | None = None) -> None:
    """Write a file so that it is there with all of its content, or not at all. It has this mode, or
    what the umask leaves of 0666; a link stays a link.

    What is no regular file (a device, a pipe) is written to and stays what it is: a rename would
    put a file in the place of /dev/null. Raises OSError, which names the path."""
    data = content.encode() if isinstance(content, str) else content
    live = any(path.is_relative_to(one) for one in _LIVE)
    if live or (path.exists() and not path.is_file()):
        path.write_bytes(data)
        return
    target = path.resolve()
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")  # (names may be of full length)
    try:
        with temporary.open("xb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
        temporary.replace(target)
    except OSError as error:  # it names the temporary file, which nobody asked for
        error.filename = str(path)
        error.filename2 = None
        raise
    finally:
        with suppress(OSError):
            temporary.unlink()
