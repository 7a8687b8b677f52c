"""The deadline of an engine's answer, tolerant of a bench that was kept from running.

If the bench did not run for a while, the time can be over although the answer is already in the
pipe, behind earlier lines. So the bench goes on reading the lines in the pipe, for a limited time,
since an engine could print faster than the bench reads.
"""

from __future__ import annotations

import time

READ_ON_S = 60.0  # half an hour of the shortest samples takes no longer to read


class Deadline:
    """A time for an answer, and some more to read the lines before it."""

    def __init__(self, timeout_s: float) -> None:
        self._ends = time.monotonic() + timeout_s
        self._read_until: float | None = None  # set when the time is over

    @property
    def left_s(self) -> float:
        """The remaining time to wait for a line; 0 when it is over."""
        return max(0.0, self._ends - time.monotonic())

    def is_exhausted(self) -> bool:
        """Return True if the time to read lines after the deadline is also over."""
        now = time.monotonic()
        if now < self._ends:
            return False
        if self._read_until is None:
            self._read_until = now + READ_ON_S
        return now >= self._read_until
