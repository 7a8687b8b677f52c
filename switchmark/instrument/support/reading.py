"""The counts of a foreign instrument in one run, as plain values; None is what it does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from switchmark.errors import ContradictoryCounts
from switchmark.language.values import NS_PER_S
from switchmark.statistics.histogram import Histogram


@dataclass(frozen=True, slots=True)
class CountedInterval:
    """Frames in one interval, by the instrument's clock; 0 is when its run began."""

    t_ns: int  # its end
    duration_ns: int
    frames: int


class Interval(Protocol):
    """An interval of a traffic application."""

    @property
    def t_ns(self) -> int:
        """Its end."""

    @property
    def duration_ns(self) -> int:
        """Its length."""


IntervalT = TypeVar("IntervalT", bound=Interval)


def counts_since(
    begun_ns: int, intervals: Iterable[IntervalT], amount: Callable[[IntervalT], int]
) -> tuple[CountedInterval, ...]:
    """Return the amount of each interval that lies wholly after `begun_ns`."""
    return tuple(
        CountedInterval(interval.t_ns - begun_ns, interval.duration_ns, amount(interval))
        for interval in intervals
        if interval.duration_ns > 0 and interval.t_ns - interval.duration_ns >= begun_ns
    )


def count_by_interval(
    times_ns: Iterable[int], begin_ns: int, run_s: float, sample_s: float
) -> tuple[CountedInterval, ...]:
    """Return the number of events in each whole interval since `begin_ns`."""
    length_ns = round(sample_s * NS_PER_S)
    counts = [0] * int(run_s * NS_PER_S // length_ns)
    for time_ns in times_ns:
        place = (time_ns - begin_ns) // length_ns
        if 0 <= place < len(counts):
            counts[place] += 1
    return tuple(
        CountedInterval((place + 1) * length_ns, length_ns, count)
        for place, count in enumerate(counts)
    )


@dataclass(frozen=True, slots=True)
class EndReading:
    """One end: its command line, and its output."""

    command: tuple[str, ...]
    version: str
    frames: int  # sent by a source, received by a target, in the whole run
    counts: tuple[CountedInterval, ...] = ()
    report: dict[str, Any] = field(default_factory=dict)  # its own output, for the record


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """All answered requests, timed by the source from the moment when each really left."""

    histogram: Histogram
    min_ns: int
    mean_ns: float
    stdev_ns: float
    max_ns: int


def merged_round_trips(parts: Sequence[RoundTrips]) -> RoundTrips | None:
    """Merge the round trips of several sources; None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    counts = [part.histogram.count for part in parts]
    mean = sum(n * part.mean_ns for n, part in zip(counts, parts, strict=True)) / sum(counts)
    square = sum(
        n * (part.stdev_ns**2 + (part.mean_ns - mean) ** 2)
        for n, part in zip(counts, parts, strict=True)
    )
    return RoundTrips(
        Histogram.merged([part.histogram for part in parts]),
        min(part.min_ns for part in parts),
        mean,
        (square / max(1, sum(counts) - 1)) ** 0.5,
        max(part.max_ns for part in parts),
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """The readings of both ends of one run."""

    source: EndReading
    target: EndReading
    duration_ns: int  # for so long the source sent
    round_trips: RoundTrips | None = None
    answered: int | None = None  # requests that came back
    duplicates: int | None = None
    reordered: int | None = None


def check_counts(name: str, sent: int, received: int) -> None:
    """Raise ContradictoryCounts where an instrument received more frames than it sent."""
    if received > sent:
        raise ContradictoryCounts(
            f"counts of {name} contradict each other: {received} frames received, {sent} sent"
        )
