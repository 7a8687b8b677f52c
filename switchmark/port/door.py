"""A door: where an application in a container gets a netmap port that it cannot open itself.

A VALE switch belongs to a network namespace, and netmap looks a port's name up in that of who opens
it: a container would need the right to enter the switch's (SYS_ADMIN), and /dev/netmap. Instead the
port is opened here and handed out, as a descriptor, over a Unix socket in the node's folder; the
engine's `netmap:NAME,door=SOCKET` takes it. (A persistent port, which is a device that could be put
into the container, is no way: netmap forgets its name at the switch once it has been opened, and
nobody can take it off the switch any more.)
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

from switchmark.host.kernel import namespaces, netmap

BACKLOG = 4


class Door:
    """A Unix socket; who connects gets the port, opened for them in the switch's namespace."""

    def __init__(self, place: Path, port: str, netns: str) -> None:
        self._port = port
        self._netns = netns
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._listening.bind(str(place))
            place.chmod(0o600)
            self._listening.listen(BACKLOG)
        except OSError:
            self._listening.close()
            raise
        self._thread = threading.Thread(target=self._serve, name="switchmark-door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hand nothing out any more. Idempotent."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # who waits in `accept` is woken
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                asking, _ = self._listening.accept()
            except OSError:
                return
            with asking, suppress(OSError):  # who asked may have gone
                self._answer(asking)

    def _answer(self, asking: socket.socket) -> None:
        try:
            fd, account = namespaces.inside(self._netns, partial(netmap.open_port, self._port))
        except OSError as error:
            asking.send(f"netmap does not open '{self._port}': {error.strerror}".encode())
            return
        try:
            socket.send_fds(asking, [account], [fd])
        finally:
            os.close(fd)
