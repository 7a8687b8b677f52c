"""Waiting for programs that report their counters when they are polled."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from switchmark.instrument.support.program import ProgramEnd

DRAIN_LOOKS = 3  # that find the same count: nothing comes any more


class Polled(Protocol):
    """Who has polled a program, and reads what it says."""

    waits: bool  # for an answer

    def take(self, timeout_s: float = 0.0) -> None:
        """Read what it says in this time."""
        ...


def wait_answer(end: Polled, program: ProgramEnd, timeout_s: float, look_s: float) -> None:
    """Wait until the program has answered, for `look_s` at a time. Raises TrialFailed."""
    deadline = time.monotonic() + timeout_s
    while end.waits:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise program.failed(f"did not answer within {timeout_s:.0f} s")
        end.take(min(left_s, look_s))


def final_count(
    poll: Callable[[], int], program: ProgramEnd, deadline: float, look_s: float, after: str
) -> int:
    """The count of frames once it no longer grows, reading after reading, `look_s` apart; `after`
    says what should have stopped it. Raises TrialFailed when it grows at the deadline."""
    seen: list[int] = []
    while len(seen) < DRAIN_LOOKS or len(set(seen[-DRAIN_LOOKS:])) > 1:
        if time.monotonic() > deadline:
            raise program.failed(f"still counts frames, long after {after}")
        seen.append(poll())
        time.sleep(look_s)
    return seen[-1]
