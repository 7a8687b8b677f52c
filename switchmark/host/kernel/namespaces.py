"""Network namespaces: creates them, and runs actions inside them.

An action inside a namespace runs in a thread that enters it. The rest of the program stays in its
namespace.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from switchmark.host.kernel import mounts
from switchmark.host.kernel.device_settings import disable_ipv6, set_up

NETNS_DIR = Path("/run/netns")
CLONE_NEWNET = 0x40000000
POLL_S = 0.001

Result = TypeVar("Result")


def create_namespace(name: str) -> None:
    """Create a named network namespace with `lo` (up) as its only device; IPv6 is off."""

    def unshare_and_name() -> None:
        mounts.check_result(mounts.libc().unshare(CLONE_NEWNET), f"network namespace {name}")
        name_namespace(name, threading.get_native_id())
        disable_ipv6("all")
        disable_ipv6("default")
        set_up("lo")

    inside(None, unshare_and_name)


def name_namespace(name: str, pid: int) -> None:
    """Give a name to the network namespace of a process or thread, as `ip netns` does.

    Raises OSError."""
    NETNS_DIR.mkdir(mode=0o755, exist_ok=True)
    mounts.make_shared(NETNS_DIR)
    path = NETNS_DIR / name
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o444))
    mounts.bind(f"/proc/{pid}/ns/net", path)


def inside(netns: str | None, action: Callable[[], Result]) -> Result:
    """Run an action in a named namespace (None: this one), in a new thread.

    Raises the exceptions of the action."""
    results: list[Result] = []
    errors: list[BaseException] = []
    # A threading.Event would stay locked if a signal handler raised while Python takes or releases
    # its internal lock.
    done = threading.Lock()
    done.acquire()
    # The thread takes the token and runs the action, or the caller takes it and gives up.
    token = [True]

    def run() -> None:
        if not _take(token):
            return
        try:
            if netns is not None:
                with opened(netns) as fd:
                    entered = mounts.libc().setns(fd, CLONE_NEWNET)
                    mounts.check_result(entered, f"network namespace {netns}")
            results.append(action())
        except BaseException as error:
            errors.append(error)
        finally:
            done.release()

    try:
        threading.Thread(target=run, name="switchmark-netns").start()
        done.acquire()  # An interrupted `join` would report that the thread has ended.
    except BaseException:
        if _take(token):
            raise
        # The action must end before the caller can undo it.
        while not results and not errors:
            time.sleep(POLL_S)
        raise
    if errors:
        raise errors[0]
    return results[0]


def _take(token: list[bool]) -> bool:
    """Take the token; return False if another thread has taken it."""
    with suppress(IndexError):
        return token.pop()
    return False


def inode_of(netns: str | None) -> int:
    """Return the inode of a namespace, which identifies it whatever its name or path."""
    with opened(netns) as fd:
        return os.fstat(fd).st_ino


class NamespaceGone(FileNotFoundError):
    """A namespace has no name any more."""

    def __str__(self) -> str:
        return (
            f"network namespace {self.filename} is gone: another program removed its name (for "
            "example `ip -all netns delete`), or its container ended; run the trial again"
        )


@contextmanager
def opened(netns: str | None) -> Iterator[int]:
    """Open a named namespace (None: that of the calling thread); yield the file descriptor. Raises
    NamespaceGone, OSError."""
    path = NETNS_DIR / netns if netns else f"/proc/{threading.get_native_id()}/ns/net"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise NamespaceGone(error.errno, error.strerror, str(path)) from None
    try:
        yield fd
    finally:
        os.close(fd)
