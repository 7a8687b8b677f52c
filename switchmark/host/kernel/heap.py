"""The heap of the C library, in a process that runs for days."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # malloc.h
LARGE_BYTES = 128 << 10  # what glibc begins with


def give_back() -> None:
    """From now on have memory that is free given back to the kernel. Called before there are
    threads.

    glibc gives threads heaps of their own, so that none waits for another: a process that begins a
    thread for each trial has free memory in many. (Who waits for Python's lock waits for no heap.)
    And what is large has pages of its own only until something larger was freed: from then on it
    makes the heap grow, which can seldom shrink. Other C libraries do neither."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, 1)
        library.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
