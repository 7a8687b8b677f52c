"""Mount points: what is mounted where, and taking it away."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from pathlib import Path

MNT_DETACH = 2
UMOUNT_NOFOLLOW = 8
MS_BIND = 4096
MS_REC = 16384
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


def filesystem_of(path: str | Path, mountinfo: str | None = None) -> str:
    """The type of the file system that a path lies on, as the kernel names it."""
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    where, deepest, found = os.path.realpath(path), "", ""
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        target = left.split()[4].encode().decode("unicode_escape").rstrip("/")
        # (Of two on the same point the later one covers the other.)
        if f"{where}/".startswith(f"{target}/") and len(target) >= len(deepest):
            deepest, found = target, right.split()[0]
    return found


def bind(source: str | Path, target: str | Path) -> None:
    """Bind-mount a file or directory."""
    result = libc().mount(os.fsencode(source), os.fsencode(target), b"none", MS_BIND, None)
    if result != 0:
        raise_errno(f"mount {source} on {target}")


def make_shared(folder: Path) -> None:
    """Make a folder a mount point of its own that shares what is mounted in it, as `ip netns`
    does with its folder before the first namespace. Had we mounted in it before that, `ip` would
    cover our mounts by copies, and the names below could not be removed any more."""
    if libc().mount(b"", os.fsencode(folder), b"none", MS_SHARED | MS_REC, None) == 0:
        return
    if ctypes.get_errno() != errno.EINVAL:
        raise_errno(f"sharing of {folder}")
    path = os.fsencode(folder)
    if libc().mount(path, path, b"none", MS_BIND | MS_REC, None) != 0:
        raise_errno(f"mount {folder} on itself")
    if libc().mount(b"", path, b"none", MS_SHARED | MS_REC, None) != 0:
        raise_errno(f"sharing of {folder}")


def unmount(target: Path) -> None:
    """Detach what is mounted there; nothing mounted, or no such path, is fine."""
    result = libc().umount2(os.fsencode(target), MNT_DETACH | UMOUNT_NOFOLLOW)
    if result != 0 and ctypes.get_errno() not in (errno.EINVAL, errno.ENOENT):
        raise_errno(f"umount {target}")
