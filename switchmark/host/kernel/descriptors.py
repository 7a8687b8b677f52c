"""File descriptors: whether some are free, asked before something that needs several is begun."""

from __future__ import annotations

import os

EVENT_LOOP = 3  # descriptors: its poll, and the two ends of the pair that wakes it


def require_free(count: int) -> None:
    """Raise OSError unless so many descriptors are free at this moment.

    Python leaves an event loop that got only some of its descriptors half made, and prints a
    traceback of its own when it throws that away (asyncio, 3.11 to 3.13).
    """
    held: list[int] = []
    try:
        for _ in range(count):
            held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    finally:
        for one in held:
            os.close(one)
