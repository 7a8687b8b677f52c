"""Keeps the bench itself off the switch's cores while traffic flows.

The bench wakes up at every sample, and a polling switch that loses its core for that moment falls
behind by thousands of frames.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from switchmark.host.kernel.procfs import threads_of


@contextmanager
def kept_to(cores: Collection[int]) -> Iterator[None]:
    """Keep every thread of this process on these cores for a time; then each has its own again.
    Cores that the process may not use change nothing."""
    before: dict[int, set[int]] = {}
    for thread in threads_of([os.getpid()]):
        with suppress(OSError):  # it has ended, or may not run there
            had = os.sched_getaffinity(thread)
            os.sched_setaffinity(thread, cores)
            before[thread] = had
    usual = before.get(os.getpid())
    try:
        yield
    finally:
        for thread in threads_of([os.getpid()]):
            wanted = before.get(thread, usual)  # (a new one took on ours)
            if wanted is not None:
                with suppress(OSError):
                    os.sched_setaffinity(thread, wanted)
