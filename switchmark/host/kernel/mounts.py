"""Mount points: what is mounted where, and unmounting."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
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


def checked(result: int, what: str, *, fine: Collection[int] = ()) -> None:
    """Raise the OSError of a libc call with this result, unless it succeeded, or failed in a way
    that is `fine`."""
    if result != 0 and (number := ctypes.get_errno()) not in fine:
        raise OSError(number, f"{what}: {os.strerror(number)}")


@dataclass(frozen=True, slots=True)
class MountPoint:
    """One line of /proc/self/mountinfo (proc(5))."""

    point: str  # as Python names files: bytes of no encoding are surrogates
    kind: str  # of its file system
    options: tuple[str, ...]  # of its super block
    root: str = "/"  # the directory of the file system that is mounted there


def mounted(mountinfo: bytes | None = None) -> list[MountPoint]:
    """All mounts in their order, or those in this text."""
    lines = Path("/proc/self/mountinfo").read_bytes() if mountinfo is None else mountinfo
    return [_mount(line) for line in lines.split(b"\n") if line]


def _mount(line: bytes) -> MountPoint:
    left, _, right = line.partition(b" - ")
    kind, _, options = right.split(b" ")[:3]
    root, point = (
        os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), field))
        for field in left.split(b" ")[3:5]
    )
    return MountPoint(point, os.fsdecode(kind), tuple(os.fsdecode(options).split(",")), root)


def below(path: str | Path) -> list[str]:
    """Mount points at or below a path, deepest first."""
    top = os.path.realpath(path)
    found = [one.point for one in mounted() if one.point == top or one.point.startswith(top + "/")]
    return sorted(found, key=len, reverse=True)


def filesystem_of(path: str | Path, mountinfo: bytes | None = None) -> str:
    """The type of the file system that a path lies on, as the kernel names it."""
    where, deepest, found = os.path.realpath(path), "", ""
    for one in mounted(mountinfo):
        target = one.point.rstrip("/")
        # (Of two on the same point the later one covers the other.)
        if f"{where}/".startswith(f"{target}/") and len(target) >= len(deepest):
            deepest, found = target, one.kind
    return found


def bind(source: str | Path, target: str | Path) -> None:
    """Bind-mount a file or directory."""
    result = libc().mount(os.fsencode(source), os.fsencode(target), b"none", MS_BIND, None)
    checked(result, f"mount {source} on {target}")


def make_shared(folder: Path) -> None:
    """Make a folder a mount point of its own that shares what is mounted in it, as `ip netns` does
    with its folder before the first namespace.

    If the bench mounted in the folder before that, `ip` would cover those mounts by copies, and the
    names below could not be removed any more."""
    path, sharing = os.fsencode(folder), f"sharing of {folder}"
    if (result := libc().mount(b"", path, b"none", MS_SHARED | MS_REC, None)) != 0:
        checked(result, sharing, fine=(errno.EINVAL,))
        checked(
            libc().mount(path, path, b"none", MS_BIND | MS_REC, None), f"mount {folder} on itself"
        )
        checked(libc().mount(b"", path, b"none", MS_SHARED | MS_REC, None), sharing)


def unmount(target: Path) -> None:
    """Detach what is mounted there; nothing mounted, or no such path, is fine."""
    result = libc().umount2(os.fsencode(target), MNT_DETACH | UMOUNT_NOFOLLOW)
    checked(result, f"umount {target}", fine=(errno.EINVAL, errno.ENOENT))
