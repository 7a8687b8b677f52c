"""When frames stopped and when they flowed again, from counted samples alone.

RFC 6201 (which replaces RFC 2544 section 26.6) has two ways: by *frames*, the frames that are
missing over the rate at which they were due (exact, and blind to when); and by *time*, the longest
stretch of samples in which nothing arrived (as fine as the samples are long).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Sample:
    """Frames counted over the `duration_ns` that end at `t_ns` (one clock for all samples)."""

    t_ns: int
    duration_ns: int
    frames: int


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time in seconds, known to lie between two bounds."""

    seconds: float
    low_s: float
    high_s: float


def longest_silence(samples: Sequence[Sample]) -> Span:
    """The longest run of samples in which no frame arrived.

    The silence may reach into the samples on both sides, so it lasts that run at least, and the run
    with both neighbours at most. Without an empty sample it is shorter than the longest sample."""
    best: tuple[int, int, int] | None = None  # length of the run in ns, its first and last index
    begun: int | None = None
    for index, sample in enumerate(samples):
        if sample.frames > 0:
            begun = None
            continue
        begun = index if begun is None else begun
        length = sum(one.duration_ns for one in samples[begun : index + 1])
        if best is None or length > best[0]:
            best = (length, begun, index)
    if best is None:
        longest = max((one.duration_ns for one in samples), default=0)
        return Span(0.0, 0.0, longest / 1e9)
    length, first, last = best
    around = samples[max(0, first - 1) : first] + list(samples[last + 1 : last + 2])  # type: ignore[operator]
    high = length + sum(one.duration_ns for one in around)
    return Span(length / 1e9, length / 1e9, high / 1e9)


def last_loss(
    sent: Sequence[Sample], arrived: Sequence[Sample], unique: int, resolution: int
) -> Span | None:
    """How long after the first `sent` sample began the last frame was lost, in seconds; None: none
    was.

    `arrived` may begin earlier and hold other frames there: it is counted from its end, where
    `unique` different frames have arrived of all that were sent. Frames that are missing at a
    moment are lost or still on their way; once all that will ever be missing are missing, no more
    are lost. `resolution` frames (a burst or two) may be sent or arrive between the two clocks'
    samples."""
    begun_ns = sent[0].t_ns - sent[0].duration_ns
    lost = sum(one.frames for one in sent) - unique
    if lost <= 0:
        return None
    behind = _missing(sent, arrived, unique, begun_ns)
    if not behind:
        return Span(0.0, 0.0, (sent[-1].t_ns - begun_ns) / 1e9)
    surely = _reached_at(behind, lost - min(resolution, lost // 2))
    at_most = _reached_at(behind, lost)
    before = max((t for t, _ in behind if t < surely), default=begun_ns)
    low, middle, high = ((t - begun_ns) / 1e9 for t in (before, surely, max(surely, at_most)))
    return Span(middle, low, high)


def _missing(
    sent: Sequence[Sample], arrived: Sequence[Sample], unique: int, begun_ns: int
) -> list[tuple[int, float]]:
    """(time, frames sent and not arrived by then) at the end of every sample of arrivals."""
    counts = [0, *accumulate(one.frames for one in sent)]
    times = [begun_ns, *(one.t_ns for one in sent)]
    found, later = [], 0
    for sample in reversed(arrived):
        if sample.t_ns - sample.duration_ns < begun_ns:
            break
        found.append((sample.t_ns, _at(times, counts, sample.t_ns) - (unique - later)))
        later += sample.frames
    return found[::-1]


def _at(times: Sequence[int], counts: Sequence[int], t_ns: int) -> float:
    """The count at a moment, along a straight line between the samples."""
    after = bisect_right(times, t_ns)
    if after >= len(times):
        return float(counts[-1])
    span = times[after] - times[after - 1]
    share = (t_ns - times[after - 1]) / span if span else 1.0
    return counts[after - 1] + share * (counts[after] - counts[after - 1])


def _reached_at(behind: Sequence[tuple[int, float]], lost: float) -> int:
    """The first moment from which on at least `lost` frames are always missing."""
    reached_ns = behind[-1][0]
    for t_ns, missing in reversed(behind):
        if missing < lost:
            break
        reached_ns = t_ns
    return reached_ns
