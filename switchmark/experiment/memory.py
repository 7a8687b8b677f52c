"""The memory of a campaign: what a trial leaves is collected before the next one begins.

Python's collector looks through all that a bench has loaded, some 50 ms of a core's time, whenever
it finds it due: in a measured window that would be measured. Until it does, what many trials have
left lies between what is kept, and memory grows.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def settled() -> Iterator[None]:
    """In this context the collector leaves out all that is there by now, so that it is quick; in
    one within it nothing changes."""
    if gc.get_freeze_count():
        yield
        return
    gc.collect()  # what is left already would stay for as long
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def tidy(is_first: bool) -> None:
    """Collect what a trial has left, now and not while the next one measures. What the first one
    has loaded is left out from then on."""
    gc.collect()
    if is_first:
        gc.freeze()
