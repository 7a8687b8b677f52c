"""Mount points: reads them, and mounts and unmounts."""

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
    """Return the C library, for the system calls that Python 3.11 does not offer."""
    return ctypes.CDLL(None, use_errno=True)


def check_result(result: int, action: str, *, accepted: Collection[int] = ()) -> None:
    """Raise the OSError of a libc call with this result, unless it succeeded or failed with an
    errno in `accepted`."""
    if result != 0 and (number := ctypes.get_errno()) not in accepted:
        raise OSError(number, f"{action}: {os.strerror(number)}")


@dataclass(frozen=True, slots=True)
class MountPoint:
    """One line of /proc/self/mountinfo (proc(5))."""

    point: str  # bytes without an encoding are surrogates, as in Python's names of files
    kind: str  # type of the file system
    options: tuple[str, ...]  # options of the super block
    root: str = "/"  # the directory of the file system that is mounted there


def read_mounts(mountinfo: bytes | None = None) -> list[MountPoint]:
    """Return all mounts in their order, or those in the given content of mountinfo."""
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


def is_root_mounted(mountinfo: bytes | None = None) -> bool:
    """Return False if / is not a mount point, as in a chroot into a plain folder. There the kernel
    refuses to change the propagation of mounts, which `ip netns exec` also does."""
    points = [mount.point for mount in read_mounts(mountinfo)]
    return not points or "/" in points  # a sandbox may show an empty list


def mounts_below(path: str | Path) -> list[str]:
    """Return the mount points at or below a path, deepest first."""
    top = os.path.realpath(path)
    points = [mount.point for mount in read_mounts() if f"{mount.point}/".startswith(f"{top}/")]
    return sorted(points, key=len, reverse=True)


def filesystem_of(path: str | Path, mountinfo: bytes | None = None) -> str:
    """Return the type of the file system of a path, as the kernel names it."""
    real, deepest, kind = os.path.realpath(path), "", ""
    for mount in read_mounts(mountinfo):
        target = mount.point.rstrip("/")
        # Of two mounts on the same point, the later mount covers the other.
        if f"{real}/".startswith(f"{target}/") and len(target) >= len(deepest):
            deepest, kind = target, mount.kind
    return kind


def bind(source: str | Path, target: str | Path) -> None:
    """Bind-mount a file or directory."""
    result = libc().mount(os.fsencode(source), os.fsencode(target), b"none", MS_BIND, None)
    check_result(result, f"mount {source} on {target}")


def make_shared(folder: Path) -> None:
    """Make a folder a shared mount point, as `ip netns` does before the first namespace.

    If the bench mounted into the folder before that, `ip` would cover those mounts by copies, and
    the names below could no longer be removed."""
    path, sharing = os.fsencode(folder), f"sharing of {folder}"
    if (result := libc().mount(b"", path, b"none", MS_SHARED | MS_REC, None)) != 0:
        check_result(result, sharing, accepted=(errno.EINVAL,))
        check_result(
            libc().mount(path, path, b"none", MS_BIND | MS_REC, None), f"mount {folder} on itself"
        )
        check_result(libc().mount(b"", path, b"none", MS_SHARED | MS_REC, None), sharing)


def unmount(target: Path) -> None:
    """Detach the mount at a path; a path without a mount, or a missing path, is not an error."""
    result = libc().umount2(os.fsencode(target), MNT_DETACH | UMOUNT_NOFOLLOW)
    check_result(result, f"umount {target}", accepted=(errno.EINVAL, errno.ENOENT))
