"""When frames stopped and when they flowed again, from counted samples alone.

RFC 6201 (which replaces RFC 2544 section 26.6) has two ways: by *frames*, the frames that are
missing over the rate at which they were due (exact, and blind to when); and by *time*, the longest
stretch of samples in which nothing arrived (as fine as the samples are long).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np


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
    lengths_ns = [one.duration_ns for one in samples]
    runs = groupby(range(len(samples)), lambda index: samples[index].frames <= 0)
    silences = [list(run) for is_silent, run in runs if is_silent]
    if not silences:
        return Span(0.0, 0.0, max(lengths_ns, default=0) / 1e9)
    run = max(silences, key=lambda one: sum(lengths_ns[index] for index in one))
    low_s = sum(lengths_ns[run[0] : run[-1] + 1]) / 1e9
    return Span(low_s, low_s, sum(lengths_ns[max(0, run[0] - 1) : run[-1] + 2]) / 1e9)


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
    times_ns = [begun_ns, *(one.t_ns for one in sent)]
    counts = np.cumsum([0, *(one.frames for one in sent)])
    inside = [one for one in arrived if one.t_ns - one.duration_ns >= begun_ns]
    ends_ns = [one.t_ns for one in inside]
    came = np.cumsum([one.frames for one in inside])
    missing = np.interp(ends_ns, times_ns, counts) - (unique + came - came[-1:])
    return list(zip(ends_ns, missing.tolist(), strict=True))


def _reached_at(behind: Sequence[tuple[int, float]], lost: float) -> int:
    """The first moment from which on at least `lost` frames are always missing."""
    reached_ns = behind[-1][0]
    for t_ns, missing in reversed(behind):
        if missing < lost:
            break
        reached_ns = t_ns
    return reached_ns
