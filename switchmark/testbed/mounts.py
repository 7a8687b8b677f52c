"""Mount points: what is mounted where, and taking it away."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from pathlib import Path

MNT_DETACH = 2
UMOUNT_NOFOLLOW = 8
MS_BIND = 1 << 12
MS_REC = 1 << 14
MS_SHARED = 1 << 20


@cache
def libc() -> ctypes.CDLL:
    """The C library, for the system calls that Python 3.11 does not offer."""
    return ctypes.CDLL(None, use_errno=True)


def raise_errno(what: str) -> None:
    """Raise the OSError of the last libc call."""
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")


def below(path: str | Path) -> list[str]:
    """Mount points at or below a path, deepest first."""
    top = os.path.realpath(path)
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        target = line.split()[4].encode().decode("unicode_escape")
        if target == top or target.startswith(top + "/"):
            found.append(target)
    return sorted(found, key=len, reverse=True)


def share(target: Path) -> bool:
    """Let mounts below a mount point be seen in other mount namespaces; False: it is none."""
    result = libc().mount(b"none", os.fsencode(target), b"none", MS_SHARED | MS_REC, None)
    if result != 0 and ctypes.get_errno() != errno.EINVAL:
        raise_errno(f"share {target}")
    return result == 0


def bind(source: str | Path, target: str | Path, *, recursive: bool = False) -> None:
    """Bind-mount a file or directory; recursive: with what is mounted below it."""
    flags = MS_BIND | (MS_REC if recursive else 0)
    result = libc().mount(os.fsencode(source), os.fsencode(target), b"none", flags, None)
    if result != 0:
        raise_errno(f"mount {source} on {target}")


def unmount(target: Path) -> None:
    """Detach what is mounted there; nothing mounted, or no such path, is fine."""
    result = libc().umount2(os.fsencode(target), MNT_DETACH | UMOUNT_NOFOLLOW)
    if result != 0 and ctypes.get_errno() not in (errno.EINVAL, errno.ENOENT):
        raise_errno(f"umount {target}")
