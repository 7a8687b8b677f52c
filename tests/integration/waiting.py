"""Waiting for events that a test has started.

It polls with one long deadline: an event that takes a millisecond on an idle machine may take many
seconds on a busy one, and only an event that never comes is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

DEADLINE_S = 60.0
POLL_S = 0.01
TAUGHT_FRAMES = 350  # more than are sent for learning and verification


def until(condition: Callable[[], bool], event: str, timeout_s: float = DEADLINE_S) -> None:
    """Poll until `condition` holds; fail with `event` at the deadline."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {event}"
        time.sleep(POLL_S)


def frames_sent(pid: int) -> int:
    """Return the frames sent by the busiest device of a process's network; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    except OSError:
        return 0
    named = (line.partition(":") for line in lines)
    return max((int(counts.split()[9]) for name, _, counts in named if name.strip() != "lo"),
               default=0)  # fmt: skip
