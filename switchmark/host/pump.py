"""One thread that empties the pipes of all our child processes.

A child must never block on a full pipe because the bench is busy elsewhere, and no line of
the protocol may be lost; so everything is taken at once, and kept in memory up to a bound
and in an unnamed file beyond it.
"""

from __future__ import annotations

import os
import selectors
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

SPILL_FOLDER = "/var/tmp"  # on disk
CHUNK_BYTES = 1 << 16
SETTLES_S = 30.0
LINE_BYTES = 64  # that a line takes beside its own
Sink = Callable[[bytes], None]  # takes each chunk; b"" once at end of file


class Pump:
    """Reads file descriptors as they fill, each into its sink. Owns the descriptors."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._arrivals: deque[tuple[int, Sink]] = deque()
        self._askers: deque[threading.Event] = deque()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="switchmark-pump", daemon=True)
        self._thread.start()

    def add(self, fd: int, sink: Sink) -> None:
        """Start reading a descriptor; the pump closes it at its end of file."""
        os.set_blocking(fd, False)
        self._arrivals.append((fd, sink))
        os.write(self._wake_write, b"+")

    def settle(self) -> None:
        """Wait until what lies in the pipes now is in their sinks, however late the thread gets to
        run; a pipe of the usual size holds one chunk."""
        if not self._closing:
            self._askers.append(done := threading.Event())
            os.write(self._wake_write, b"?")
            done.wait(SETTLES_S)

    def close(self) -> None:
        """Stop reading, whatever is still open."""
        self._closing = True
        os.write(self._wake_write, b"-")
        self._thread.join()
        for fd in (self._wake_write, self._wake_read):  # after join(), since the thread uses them
            os.close(fd)

    def _run(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select():
                if key.data is None:
                    os.read(self._wake_read, CHUNK_BYTES)
                    self._admit()
                else:
                    self._read(key.fd, key.data)
            if self._askers:
                self._answer([self._askers.popleft() for _ in range(len(self._askers))])
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                self._finish(key.fd, key.data)
        self._selector.close()

    def _answer(self, askers: Sequence[threading.Event]) -> None:
        self._admit()
        for key, _ in self._selector.select(0):
            if key.data is not None:
                self._read(key.fd, key.data)
        for done in askers:
            done.set()

    def _admit(self) -> None:
        while self._arrivals:
            fd, sink = self._arrivals.popleft()
            self._selector.register(fd, selectors.EVENT_READ, sink)

    def _read(self, fd: int, sink: Sink) -> None:
        with suppress(BlockingIOError):
            data = os.read(fd, CHUNK_BYTES)
            if data:
                sink(data)
            else:
                self._finish(fd, sink)

    def _finish(self, fd: int, sink: Sink) -> None:
        self._selector.unregister(fd)
        os.close(fd)
        sink(b"")


class Room:
    """The size that several queues share, in memory and in their files. It is thread-safe."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self._lock = threading.Lock()

    @property
    def is_overfull(self) -> bool:
        """True if the queues hold more than the limit."""
        return self._left < 0

    def take(self, size_bytes: int) -> None:
        """Count what is held from now on; less than 0: no more."""
        with self._lock:
            self._left -= size_bytes


def _spill_file() -> IO[bytes]:
    """A file without a name; on disk, unless a container whose root file system is read-only has
    no such folder."""
    try:
        return tempfile.TemporaryFile(dir=SPILL_FOLDER)
    except OSError:
        return tempfile.TemporaryFile()


class LineQueue:
    """Lines in the order in which they came: in memory up to a bound, beyond it in an unnamed
    file."""

    def __init__(self, memory_bytes: int = 8 << 20, room: Room | None = None) -> None:
        """`room`: the size shared with other queues; its owner checks whether it is exceeded."""
        self._changed = threading.Condition()
        self._memory: deque[bytes] = deque()
        self._memory_bytes = 0
        self._bound = memory_bytes
        self._room = room
        self._held_bytes = 0  # in the room
        self._spill: IO[bytes] | None = None
        self._spill_read_at = 0
        self._spilled = 0  # lines in the file not yet read
        self._partial = b""
        self._ended = False

    def take(self, data: bytes) -> None:
        """Take a chunk of the stream; b"" is its end."""
        with self._changed:
            *lines, self._partial = (self._partial + data).split(b"\n")
            if not data:
                self._ended = True
                if self._partial:
                    lines.append(self._partial)  # a last line without its newline is a line
                    self._partial = b""
            for line in lines:
                self._put(line)
            self._changed.notify_all()

    def get(self, timeout_s: float) -> str | None:
        """The next line, without its newline; None at end of file. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not self._memory and not self._spilled:
                if self._ended:
                    return None
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0:
                    raise TimeoutError(f"no line within {timeout_s:g} s")
                self._changed.wait(remaining_s)
            line = self._next()
            self._count(-len(line) - LINE_BYTES)
            return line.decode(errors="replace")

    def leave_room(self) -> None:
        """Be counted no more, once no line can come."""
        with self._changed:
            self._count(-self._held_bytes)
            self._room = None

    def _count(self, size_bytes: int) -> None:
        if self._room is not None:
            self._room.take(size_bytes)
            self._held_bytes += size_bytes

    def _put(self, line: bytes) -> None:
        self._count(len(line) + LINE_BYTES)
        if self._spilled == 0 and self._memory_bytes + len(line) <= self._bound:
            self._memory.append(line)
            self._memory_bytes += len(line)
            return
        if self._spill is None:
            self._spill = _spill_file()
        self._spill.seek(0, os.SEEK_END)
        self._spill.write(line + b"\n")
        self._spilled += 1

    def _next(self) -> bytes:
        if self._memory:  # lines in memory are older than spilled lines
            line = self._memory.popleft()
            self._memory_bytes -= len(line)
            return line
        assert self._spill is not None
        self._spill.seek(self._spill_read_at)
        line = self._spill.readline()
        self._spill_read_at = self._spill.tell()
        self._spilled -= 1
        if self._spilled == 0:
            self._spill.close()
            self._spill, self._spill_read_at = None, 0
        return line.rstrip(b"\n")


class Tail:
    """The last bytes of a stream."""

    def __init__(self, bound_bytes: int = 1 << 16) -> None:
        self._data = b""
        self._bound = bound_bytes
        self._ended = threading.Event()

    def take(self, data: bytes) -> None:
        """Take a chunk of the stream; b"" is its end."""
        self._data = (self._data + data)[-self._bound :]
        if not data:
            self._ended.set()

    def wait_end(self, timeout_s: float) -> bool:
        """Wait for the end of the stream; whether it has come."""
        return self._ended.wait(timeout_s)

    def text(self) -> str:
        """The kept bytes as text."""
        return self._data.decode(errors="replace")
