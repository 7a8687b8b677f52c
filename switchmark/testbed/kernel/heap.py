"""The heap of the C library, in a process that runs for days."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_ARENA_MAX = -8  # malloc.h


def share_one_heap() -> None:
    """Have all threads from now on share one heap. glibc gives threads heaps of their own, so that
    none waits for another; what these leave free is of no use to other threads, and a process that
    begins a thread for each trial grows. (Who waits for Python's lock waits for no heap.) Called
    before there are threads. Other C libraries have one heap."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
