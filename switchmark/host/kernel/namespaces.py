"""Network namespaces: making them, and acting inside them.

An action inside a namespace runs in a thread that enters it; the namespace of a thread is its own
and changes nothing for the rest of the program.
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
    """Make a named network namespace with only `lo` (up), IPv6 off."""

    def unshare_and_name() -> None:
        mounts.check_result(mounts.libc().unshare(CLONE_NEWNET), f"network namespace {name}")
        name_namespace(name, threading.get_native_id())
        disable_ipv6("all")
        disable_ipv6("default")
        set_up("lo")

    inside(None, unshare_and_name)


def name_namespace(name: str, pid: int) -> None:
    """Give the network namespace of a process or thread a name, as `ip netns` knows it. Raises
    OSError."""
    NETNS_DIR.mkdir(mode=0o755, exist_ok=True)
    mounts.make_shared(NETNS_DIR)
    path = NETNS_DIR / name
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o444))
    mounts.bind(f"/proc/{pid}/ns/net", path)


def inside(netns: str | None, action: Callable[[], Result]) -> Result:
    """Run an action in a named namespace (None: this one), in a thread of its own. Raises what
    the action raises."""
    results: list[Result] = []
    errors: list[BaseException] = []
    # No Event: a signal that raises just as Python takes or leaves its lock would leave it taken.
    done = threading.Lock()
    done.acquire()
    to_begin = [True]  # who takes it decides: the thread acts, or the caller gives up

    def run() -> None:
        if not _taken(to_begin):
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
        done.acquire()  # (a `join` that was interrupted calls the thread ended)
    except BaseException:
        if _taken(to_begin):
            raise
        while not results and not errors:  # what is being made must be there to be undone
            time.sleep(POLL_S)
        raise
    if errors:
        raise errors[0]
    return results[0]


def _taken(token: list[bool]) -> bool:
    """Take the only token; False where another thread has taken it."""
    with suppress(IndexError):
        return token.pop()
    return False


@contextmanager
def opened(netns: str | None) -> Iterator[int]:
    """A descriptor of a named namespace (None: the calling thread's)."""
    path = NETNS_DIR / netns if netns else f"/proc/{threading.get_native_id()}/ns/net"
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
