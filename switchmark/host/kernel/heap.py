"""Heap settings of the C library for a process that runs for days."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # malloc.h
LARGE_BYTES = 128 << 10  # the initial threshold of glibc


def return_free_memory() -> None:
    """Let the C library return free memory to the kernel. Call it before there are threads.

    glibc has two habits that keep free memory in a process. Each thread has its own heap, so a
    process that starts a thread for each trial has free memory in many heaps. Threads blocked on
    Python's global lock do not contend for a heap, so one heap is enough. A large block has its own
    pages only until a larger block was freed; from then on it is taken from the heap, which can
    seldom shrink. A fixed threshold prevents this. Other C libraries have neither habit."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, 1)
        library.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
