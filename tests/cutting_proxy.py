"""A TCP proxy before an HTTP server, which interrupts requests on demand.

Each connection carries one request, so that a fault affects the intended request, the next PUT of
an object.
"""

from __future__ import annotations

import re
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PIECE_BYTES = 65536


class Cut(StrEnum):
    """A fault of a PUT."""

    MID_BODY = "half of its body reaches the server, then both connections end"
    ANSWER_LOST = "the server has answered, and the answer is lost"
    HELD = "half of its body reaches the server, and the rest after a call of `release`"


class CuttingProxy:
    """A port that leads to a server while it is `open`."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._faults: deque[Cut] = deque()
        self._meant = b""
        self._lock = threading.Lock()
        self._released = threading.Semaphore(0)
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.port = 0
        self.held = threading.Semaphore(0)  # released once for each upload that is held
        self.done: list[Cut] = []

    def open(self) -> None:
        """Accept connections, always at the same port."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Cut all connections, and refuse new ones."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # ends the wait in accept
            listener.close()
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def cut_next(self, *faults: Cut, of: str = "") -> None:
        """Inject faults into the next PUTs, one fault for each, whose path contains this text."""
        with self._lock:
            self._meant = of.encode()
            self._faults.extend(faults)

    def release(self) -> None:
        """Continue one upload that is held."""
        self._released.release()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, suppress(OSError), self._to_server() as server:
            with self._lock:
                self._open |= {client, server}
            try:
                self._request(client, server)
            finally:
                with self._lock:
                    self._open -= {client, server}

    def _to_server(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._server_port), timeout=120)

    def _request(self, client: socket.socket, server: socket.socket) -> None:
        head, body = _head(client)
        header = _LENGTH.search(head)
        length = int(header.group(1)) if header else 0
        line, _, rest = head.partition(b"\r\n")
        fault = self._fault_of(line, length)
        server.sendall(line + b"\r\nConnection: close\r\n" + rest + b"\r\n\r\n")
        while len(body) < length:
            body += _piece(client)
        half = len(body) // 2 if fault in (Cut.MID_BODY, Cut.HELD) else len(body)
        server.sendall(body[:half])
        if fault is Cut.HELD:
            self.held.release()
            self._released.acquire()
        if fault is not None:
            with self._lock:
                self.done.append(fault)
        if fault is Cut.MID_BODY:
            return
        server.sendall(body[half:])
        answer = b""
        while piece := server.recv(_PIECE_BYTES):
            answer += piece
        if fault is not Cut.ANSWER_LOST:
            client.sendall(answer)

    def _fault_of(self, line: bytes, length: int) -> Cut | None:
        if not line.startswith(b"PUT ") or not length:
            return None
        with self._lock:
            return self._faults.popleft() if self._faults and self._meant in line else None


def _head(client: socket.socket) -> tuple[bytes, bytes]:
    """Return the head of a request, and the part of its body that arrived with it."""
    read = b""
    while b"\r\n\r\n" not in read:
        read += _piece(client)
    head, _, body = read.partition(b"\r\n\r\n")
    return head, body


def _piece(client: socket.socket) -> bytes:
    piece = client.recv(_PIECE_BYTES)
    if not piece:
        raise ConnectionResetError("ended in the middle of a request")
    return piece


@contextmanager
def cutting_proxy(server_port: int) -> Iterator[CuttingProxy]:
    """Yield an open proxy."""
    proxy = CuttingProxy(server_port)
    proxy.open()
    try:
        yield proxy
    finally:
        proxy.close()
