"""Waiting for what a test has set going.

By polling, and with one long deadline: what comes on a quiet machine in a millisecond may take
many seconds on a starved one, and only what never comes is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE_S = 60.0
POLL_S = 0.01


def until(condition: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
    """Poll until `condition` holds; fails with `what` at the deadline."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(POLL_S)
