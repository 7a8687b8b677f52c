"""Starts the bench again in private namespaces."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import time
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from switchmark.host.private.calls import CLONE_NEWPID, enter_user_namespace
from switchmark.host.private.first import become_first
from switchmark.host.private.folders import Layout, plan_layout
from switchmark.host.private.supervisor import PASSED_ON, supervise

# Variables that name folders outside, which the bench must leave as they are.
_OUTSIDE = ("SWITCHMARK_STATE_DIR", "XDG_RUNTIME_DIR", "RUNTIME_DIRECTORY", "TMP", "TEMP")
THREADS_S = 1.0


class Reason(StrEnum):
    """The reason why a bench runs in private namespaces."""

    NEED = "need"  # only there it can create network namespaces
    CHOICE = "choice"  # the user asked for it


_reason: Reason | None = None


def is_inside() -> Reason | None:
    """Return the reason why this process runs in private namespaces; None if `start_again` did not
    start it."""
    return _reason


def start_again(needed: Iterable[str | Path], reason: Reason) -> None:
    """Continue in a new process, as root of private namespaces. It returns in that process only;
    the calling process waits for it and ends with its status. The `needed` paths stay usable.

    Call it before the process has threads. Raises OSError if the place refuses a user namespace."""
    global _reason  # noqa: PLW0603  (it is a fact of the process)
    home, folder = _home(), Path.cwd()
    layout = plan_layout([*needed, home, folder])
    _wait_for_threads()
    outer, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON | {signal.SIGCHLD})
    try:
        enter_user_namespace(CLONE_NEWPID)
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise
    first = os.fork()
    if first != 0:
        inner.close()
        supervise(first, outer)
    outer.close()
    become_first(inner, layout, mask)
    os.chdir(folder)  # by its path: the folder's old mount may be hidden
    _reason = reason
    _set_environment(layout, home)


def _wait_for_threads() -> None:
    """Wait until joined threads are also gone in the kernel, which refuses a user namespace to a
    process with threads."""
    deadline = time.monotonic() + THREADS_S
    while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < deadline:  # noqa: PTH208
        time.sleep(0.001)


def _home() -> Path:
    """The user's home, which must be known before the user id is another."""
    if named := os.environ.get("HOME"):
        return Path(named)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path("/")


def _set_environment(layout: Layout, home: Path) -> None:
    for name in _OUTSIDE:
        os.environ.pop(name, None)
    os.environ |= {"HOME": str(home), "TMPDIR": str(layout.temporary)}
