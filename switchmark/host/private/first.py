"""The first process of the private namespaces: makes them, collects orphans, ends with the bench
and with the supervisor."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
from collections.abc import Collection
from contextlib import suppress
from typing import NoReturn

from switchmark.host.kernel.device_settings import set_up
from switchmark.host.private.calls import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUTS,
    die_with_parent,
    unshare,
)
from switchmark.host.private.folders import Layout, make_mounts

# The first byte of a message to the supervisor, and what follows it.
STARTED, FAILED, ENDED = b"S", b"F", b"E"  # a pidfd of the bench; a text; the bench's wait status
STATUS = struct.Struct("=i")


def become_first(
    link: socket.socket, layout: Layout, mask: Collection[signal.Signals | int]
) -> None:
    """Make the namespaces and start the bench. Returns in the bench, with this mask of signals;
    the calling process stays the first process until it ends.

    The supervisor holds the other end of `link`, and nobody else does. All signals that the
    supervisor passes on must be blocked: they are for the bench."""
    die_with_parent()
    if _is_closed(link):  # the supervisor ended before die_with_parent()
        os._exit(1)
    os.setsid()  # signals of the terminal reach the bench through the supervisor only, once
    try:
        unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS, "namespaces")
        make_mounts(layout)
        set_up("lo")
    except OSError as error:
        _send(link, FAILED + str(error).encode())
        os._exit(1)
    bench = os.fork()
    if bench == 0:
        link.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return
    fd = os.pidfd_open(bench)
    with suppress(OSError):
        socket.send_fds(link, [STARTED], [fd])
    os.close(fd)
    _serve(link, bench)


def _serve(link: socket.socket, bench: int) -> NoReturn:
    """Collect processes that end until the bench ends, or the supervisor."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    poller = select.poll()
    poller.register(link, select.POLLIN)
    poller.register(woken, select.POLLIN)
    while (status := _collect(bench)) is None:
        if any(fd == link.fileno() for fd, _ in poller.poll()):
            os._exit(1)
        os.set_blocking(woken, False)
        with suppress(BlockingIOError):
            os.read(woken, 4096)
    _send(link, ENDED + STATUS.pack(status))
    os._exit(0)


def _collect(bench: int) -> int | None:
    """Collect all children that have ended; the bench's wait status if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == bench:
            found = status


def _is_closed(link: socket.socket) -> bool:
    poller = select.poll()
    poller.register(link, select.POLLIN)
    return bool(poller.poll(0))


def _send(link: socket.socket, message: bytes) -> None:
    with suppress(OSError):  # the supervisor has ended
        link.send(message)
