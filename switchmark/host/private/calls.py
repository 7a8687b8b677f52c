"""The system calls about namespaces that Python 3.11 does not offer."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from switchmark.host.kernel.mounts import check_result, libc

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32  # as in statvfs(3)
MS_REC, MS_SLAVE = 16384, 1 << 19
_PR_SET_PDEATHSIG = 1


def unshare(flags: int, label: str) -> None:
    """Move this process, or its next children, to new namespaces. Raises OSError, whose text begins
    with `label`."""
    check_result(libc().unshare(flags), label)


def enter_user_namespace(more: int) -> None:
    """Move this process to a new user namespace, as its root and only user, and to the other
    namespaces of the flags `more`. The process must have no threads. Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | more, "user namespace")
    with suppress(FileNotFoundError):  # Linux before 3.19
        Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system. Raises OSError."""
    result = libc().mount(
        source.encode(), os.fsencode(target), kind.encode(), flags, options.encode() or None
    )
    check_result(result, f"mount {kind or 'options'} on {target}")


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends. Raises OSError."""
    check_result(libc().prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0), "PR_SET_PDEATHSIG")
