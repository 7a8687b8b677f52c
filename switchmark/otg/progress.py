"""The counters of a flow's two engines, at matching times.

Each engine prints its counters once per interval, and the intervals of the two engines end at
different times. Unless frames were copied, the receiver's sum at a time is never above the sender's
sum at that time or later. So the metrics of a running flow combine the receiver's last interval
that ended before the sender's last one, and the first interval of the sender that ended after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from switchmark.engine.events import IntervalEvent

MOST_MOMENTS = 100  # per engine; a receiver lags by fewer intervals behind its sender


@dataclass(frozen=True, slots=True)
class Moment:
    """The sums of one engine's counters at a time."""

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
    outer_bytes: int = 0  # outer headers of each frame, which the engine does not count
    taken: int = 0  # the number of intervals in the sums
    moments: deque[Moment] = field(default_factory=lambda: deque([Moment()], MOST_MOMENTS))

    @property
    def last(self) -> Moment:
        """The latest moment."""
        return self.moments[-1]

    def take(self, intervals: list[IntervalEvent]) -> None:
        """Add the intervals that were not there at the last call."""
        for interval in intervals[self.taken :]:
            frames = getattr(interval, self.frames_counter)
            size = getattr(interval, self.bytes_counter) + self.outer_bytes * frames
            duration_s = (interval.duration_ns or 1) / 1e9
            before = self.last
            self.moments.append(
                Moment(
                    interval.t_ns,
                    before.frames + frames,
                    before.size_bytes + size,
                    frames / duration_s,
                    size / duration_s,
                )
            )
        self.taken = len(intervals)


def in_step(sent: Iterable[Moment], received: Iterable[Moment]) -> tuple[Moment, Moment]:
    """Return the matching moments of sender and receiver. Both series are in order of time."""
    sent = list(sent)
    latest = sent[-1].t_ns
    earlier = [moment for moment in received if moment.t_ns <= latest]
    arrived = earlier[-1] if earlier else Moment()
    return next(moment for moment in sent if moment.t_ns >= arrived.t_ns), arrived
