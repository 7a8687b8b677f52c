"""Waiting for what a test has set going.

By polling, and with one long deadline: what comes on a quiet machine in a millisecond may take
many seconds on a starved one, and only what never comes is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

DEADLINE_S = 60.0
POLL_S = 0.01
TAUGHT_FRAMES = 350  # fewer are sent to teach a switch and to verify


def until(condition: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
    """Poll until `condition` holds; fails with `what` at the deadline."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(POLL_S)


def frames_sent(pid: int) -> int:
    """Frames that have left by the device of a process's network that sent most; 0 where it is
    gone."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    except OSError:
        return 0
    named = (line.partition(":") for line in lines)
    return max((int(counts.split()[9]) for name, _, counts in named if name.strip() != "lo"),
               default=0)  # fmt: skip
