"""Patience with a store that is away: work is not thrown away because of a restart."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from switchmark.store.errors import StoreAwayError

T = TypeVar("T")
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 5.0


def patiently(
    action: Callable[[], T],
    say: Callable[[str], None],
    meanwhile: Callable[[], None] = lambda: None,
) -> T:
    """Repeat the action until the store answers. Says once that the store is lost, and once that it
    is back. `meanwhile` is called before each new attempt, and may raise to end it."""
    wait_s, told = FIRST_WAIT_S, False
    while True:
        try:
            done = action()
        except StoreAwayError as error:
            if not told:
                say(f"waiting for the store: {error}")
                told = True
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
            meanwhile()
        else:
            if told:
                say("the store is there again")
            return done
