"""Opens netmap ports for applications in containers, which cannot open them.

A VALE switch belongs to a network namespace, and netmap searches the name of a port in the
namespace of the caller. A container would need /dev/netmap, and SYS_ADMIN to enter the namespace of
the switch. Instead, the bench opens the port and passes the descriptor over a Unix socket in the
node's folder; the engine's `netmap:NAME,door=SOCKET` receives it. A persistent port, which is a
device that could be moved into the container, cannot replace this: once it has been opened, netmap
loses its name at the switch, and nothing can detach it from the switch.
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
    """A Unix socket server that passes an open netmap port to each client."""

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
        """Stop the server. Idempotent."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in `accept`
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with client, suppress(OSError):  # the client may have closed the connection
                self._pass_port(client)

    def _pass_port(self, client: socket.socket) -> None:
        try:
            fd, account = namespaces.inside(self._netns, partial(netmap.open_port, self._port))
        except OSError as error:
            client.send(f"netmap does not open '{self._port}': {error.strerror}".encode())
            return
        try:
            socket.send_fds(client, [account], [fd])
        finally:
            os.close(fd)
