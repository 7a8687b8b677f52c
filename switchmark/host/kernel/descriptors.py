"""Checks that file descriptors are free before an operation that needs several of them."""

from __future__ import annotations

import os

EVENT_LOOP = 3  # descriptors: one for polling, and a socket pair that wakes the loop


def require_free(count: int) -> None:
    """Raise OSError unless `count` file descriptors are free at this moment.

    If an event loop gets only some of its descriptors, Python prints a traceback when it discards
    the loop (asyncio, 3.11 to 3.13).
    """
    descriptors: list[int] = []
    try:
        for _ in range(count):
            descriptors.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
