"""Patience with a store that is away: work is not thrown away because of a restart."""

from __future__ import annotations

import math
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
    limit_s: float = math.inf,
) -> T:
    """Repeat the action until the store answers, for `limit_s` at most.

    `say` gets one message when the store is lost, and one when it answers again. `meanwhile` is
    called before each new attempt, and may raise to end it. Raises `StoreAwayError` at the
    limit."""
    wait_s, is_waiting, end_s = FIRST_WAIT_S, False, time.monotonic() + limit_s
    while True:
        try:
            result = action()
        except StoreAwayError as error:
            if time.monotonic() >= end_s:
                raise
            if not is_waiting:
                say(f"waiting for the store: {error}")
                is_waiting = True
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
            meanwhile()
        else:
            if is_waiting:
                say("the store is there again")
            return result
