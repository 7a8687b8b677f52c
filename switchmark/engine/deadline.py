"""When an engine's answer no longer counts, however late the bench comes to look.

What lies in the pipe came in time: a bench that was kept from running finds the time over and the
answer there, behind all that was printed before it. So the lines that lie there are read on, but
not for ever: an end that prints faster than its lines are read would hold the bench.
"""

from __future__ import annotations

import time

READ_ON_S = 60.0  # half an hour of the shortest samples takes no longer to read


class Deadline:
    """A time for an answer, and some more to read what lies before it."""

    def __init__(self, timeout_s: float) -> None:
        self._ends = time.monotonic() + timeout_s
        self._read_until: float | None = None  # since a look found the time over

    @property
    def left_s(self) -> float:
        """The time that is left to wait for a line; 0 when it is over."""
        return max(0.0, self._ends - time.monotonic())

    def is_exhausted(self) -> bool:
        """Return True if it is over, and lines have been read for long enough since."""
        now = time.monotonic()
        if now < self._ends:
            return False
        if self._read_until is None:
            self._read_until = now + READ_ON_S
        return now >= self._read_until
