"""A TCP proxy before an HTTP server that breaks what passes through it, where a test asks for it.

Each connection carries one request, so that a fault meets the one that it is meant for: the next
PUT of an object.
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
    """What becomes of a PUT."""

    MID_BODY = "half of its body reaches the server, then both connections end"
    ANSWER_LOST = "the server has answered, and the answer is lost"
    HELD = "half of its body reaches the server, and the rest when `release` is called"


class CuttingProxy:
    """A port that leads to a server, as long as it is `open`."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._faults: deque[Cut] = deque()
        self._meant = b""
        self._lock = threading.Lock()
        self._released = threading.Semaphore(0)
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.port = 0
        self.held = threading.Semaphore(0)  # one for each upload that is held
        self.done: list[Cut] = []

    def open(self) -> None:
        """Let connections in, at the same port each time."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Cut what is under way and refuse what comes."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # (wakes who waits in accept)
            listener.close()
        with self._lock:
            there = list(self._open)
        for one in there:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def cut_next(self, *faults: Cut, of: str = "") -> None:
        """The next PUTs of paths with this part, one for each fault."""
        with self._lock:
            self._meant = of.encode()
            self._faults.extend(faults)

    def release(self) -> None:
        """Let one that is held go on."""
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
        told = _LENGTH.search(head)
        length = int(told.group(1)) if told else 0
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
    """The head of a request, and what came with it of its body."""
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
    """One that is open, for the time of the block."""
    proxy = CuttingProxy(server_port)
    proxy.open()
    try:
        yield proxy
    finally:
        proxy.close()
