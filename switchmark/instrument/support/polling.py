"""An end whose program reports its counters when it is polled."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

from switchmark.instrument.support.program import ProgramEnd, close_all, running
from switchmark.instrument.support.reading import CountedInterval

_POLL_S = 0.2


class Polled(ABC):
    """One end. Calls that wait raise TrialFailed if its program fails or does not answer."""

    version = ""  # the reported version; empty without a report
    waits = False  # True while an answer is due
    sends = True  # as it reports, or until it is stopped
    last_ns = 0  # last time at which the stream was observed to run or to be idle (CLOCK_MONOTONIC)

    def __init__(self, program: ProgramEnd, client: ProgramEnd | None = None) -> None:
        """`program` has the port; it answers itself, or through a `client`."""
        self.program, self.client = program, client or program

    @abstractmethod
    def wait_ready(self, timeout_s: float) -> None:
        """Wait until it has the port, and counts arriving frames."""

    @abstractmethod
    def reset(self, timeout_s: float) -> None:
        """Count from now on."""

    @abstractmethod
    def start(self, duration_s: float, timeout_s: float) -> None:
        """Start its stream for this duration; below 0: until `stop`."""

    @abstractmethod
    def stop(self, timeout_s: float) -> None:
        """Stop its stream."""

    @abstractmethod
    def read(self) -> None:
        """Request its counters; the answer comes later."""

    @abstractmethod
    def take(self, timeout_s: float = 0.0) -> None:
        """Read its output for this time."""

    @property
    @abstractmethod
    def frames(self) -> int:
        """Frames of the run, by its last answer."""

    @abstractmethod
    def counts(self, begun_ns: int, lasted_ns: int) -> tuple[CountedInterval, ...]:
        """Return the frames between answers in the time of the run, with times since its begin."""

    @abstractmethod
    def report(self) -> dict[str, Any]:
        """Return the report of this end for the record."""

    def wait_answer(self, timeout_s: float) -> None:
        """Wait until it has answered with its counters."""
        deadline = time.monotonic() + timeout_s
        while self.waits:
            left_s = deadline - time.monotonic()  # existing output is read, also after the deadline
            self.take(max(0.0, min(left_s, _POLL_S)))
            if self.waits and left_s <= 0:
                raise self.program.failed(f"did not answer within {timeout_s:.0f} s")

    def process_ids(self) -> list[int]:
        """Return its programs while they run."""
        return running(*dict.fromkeys((self.program, self.client)))

    def close(self) -> None:
        """End them. Idempotent."""
        close_all(self.client, self.program)
