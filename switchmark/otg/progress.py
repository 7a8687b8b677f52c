"""The counters of a flow's two engines, at moments that fit together.

Each engine prints its counters once an interval, at times of its own. A receiver's sum up to a
moment never exceeds the sender's sum up to that moment or a later one, unless frames were copied.
So the metrics of a running flow are of the last interval of the receiver that the sender has
reached, and of the first interval of the sender from then on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from switchmark.engine.events import IntervalEvent

MOST_MOMENTS = 100  # kept of each engine; more than a receiver lags behind its sender


@dataclass(frozen=True, slots=True)
class Moment:
    """What one engine had counted at a time."""

    t_ns: int = 0
    frames: int = 0
    size_bytes: int = 0
    frames_a_second: float = 0.0  # in the interval that ends here
    bytes_a_second: float = 0.0


@dataclass
class CounterSums:
    """The sums of two counters of one engine, interval by interval."""

    frames_counter: str
    bytes_counter: str
    outer_bytes: int = 0  # of each frame, which the engine does not count
    taken: int = 0  # intervals
    moments: deque[Moment] = field(default_factory=lambda: deque([Moment()], MOST_MOMENTS))

    @property
    def last(self) -> Moment:
        """The latest moment."""
        return self.moments[-1]

    def take(self, intervals: list[IntervalEvent]) -> None:
        """Add the intervals that have come since the last call."""
        for one in intervals[self.taken :]:
            frames = getattr(one, self.frames_counter)
            size = getattr(one, self.bytes_counter) + self.outer_bytes * frames
            duration_s = (one.duration_ns or 1) / 1e9
            before = self.last
            self.moments.append(
                Moment(
                    one.t_ns,
                    before.frames + frames,
                    before.size_bytes + size,
                    frames / duration_s,
                    size / duration_s,
                )
            )
        self.taken = len(intervals)


def in_step(sent: Iterable[Moment], received: Iterable[Moment]) -> tuple[Moment, Moment]:
    """The moments of sender and receiver that fit together, of moments in order of time."""
    sent = list(sent)
    latest = sent[-1].t_ns
    behind = [one for one in received if one.t_ns <= latest]
    found = behind[-1] if behind else Moment()
    return next(one for one in sent if one.t_ns >= found.t_ns), found
