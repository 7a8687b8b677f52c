"""The agent's side of the conversation with the bench: JSON lines, and a watch over the
connection."""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
import time
from contextlib import suppress
from typing import Any

SILENCE_S = 30.0  # the bench sends something every few seconds; after this time it is lost
_POLL_S = 1.0


class Channel:
    """Reads requests and writes answers; ends the agent when the bench falls silent."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._write_lock = threading.Lock()
        self._last_input_s = time.monotonic()
        self._buffer = b""
        self._turn = threading.Lock()
        self._is_busy = True  # the main thread works on a request, or has not taken one yet
        self._is_over = False
        for work in (self._read, self._watch):
            threading.Thread(target=work, daemon=True).start()

    def following(self) -> dict[str, Any] | None:
        """Wait for the next request; None at the end. After None nothing interrupts the main
        thread, which undoes everything."""
        with self._turn:
            self._is_busy = False
        request = self._requests.get()
        with self._turn:
            if request is None or request["do"] == "exit" or self._is_over:
                return None
            self._is_busy = True
        return request

    def send(self, message: dict[str, Any]) -> None:
        """Write one line; it is dropped if the bench has gone."""
        data = json.dumps(message).encode() + b"\n"
        with self._write_lock, suppress(OSError):
            while data:
                data = data[os.write(1, data) :]

    def take(self, count: int) -> bytes:
        """Read the `count` bytes that follow a request. Only the reading thread calls it."""
        while len(self._buffer) < count and self._fill(1 << 20):
            pass
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def _read(self) -> None:
        with suppress(OSError, ValueError):
            while (line := self._line()) is not None:
                received_ns = time.monotonic_ns()
                request = json.loads(line)
                if request["do"] == "clock":  # at once, even while the main thread is busy
                    times = {"received_ns": received_ns, "sent_ns": time.monotonic_ns()}
                    self.send({"id": request["id"], "ok": times})
                    continue
                if "bytes" in request:
                    request["data"] = self.take(request.pop("bytes"))
                self._requests.put(request)
        self._leave()

    def _line(self) -> bytes | None:
        while b"\n" not in self._buffer:
            if not self._fill(1 << 16):
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _fill(self, most_bytes: int) -> bool:
        data = os.read(0, most_bytes)
        self._last_input_s = time.monotonic()
        self._buffer += data
        return bool(data)

    def _watch(self) -> None:
        while time.monotonic() < self._last_input_s + SILENCE_S:
            time.sleep(_POLL_S)
        self._leave()

    def _leave(self) -> None:
        """Interrupt the main thread once, unless it is already ending: it then undoes everything,
        and a second interrupt would stop that."""
        with self._turn:
            self._is_over = True
            self._requests.put(None)
            if self._is_busy:
                os.kill(os.getpid(), signal.SIGTERM)
            self._is_busy = False
