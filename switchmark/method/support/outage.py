"""The time without frames, computed from samples of counters.

RFC 6201 (which replaces RFC 2544 section 26.6) defines two ways. *Frames*: the missing frames
divided by the rate at which they were due; this is exact, but does not show when. *Time*: the
longest series of samples in which nothing arrived; its resolution is the length of a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np


@dataclass(frozen=True, slots=True)
class Sample:
    """Frames counted during the `duration_ns` before `t_ns`. All samples have the same clock."""

    t_ns: int
    duration_ns: int
    frames: int


@dataclass(frozen=True, slots=True)
class Span:
    """A duration in seconds that lies between two bounds."""

    seconds: float
    low_s: float
    high_s: float


def longest_silence(samples: Sequence[Sample]) -> Span:
    """Return the longest series of samples in which no frame arrived.

    The silence may extend into the samples on both sides. Its lower bound is the series, its upper
    bound the series with both neighbours; without an empty sample, the longest sample."""
    lengths_ns = [sample.duration_ns for sample in samples]
    runs = groupby(range(len(samples)), lambda index: samples[index].frames <= 0)
    silences = [list(run) for is_silent, run in runs if is_silent]
    if not silences:
        return Span(0.0, 0.0, max(lengths_ns, default=0) / 1e9)
    run = max(silences, key=lambda silence: sum(lengths_ns[index] for index in silence))
    low_s = sum(lengths_ns[run[0] : run[-1] + 1]) / 1e9
    return Span(low_s, low_s, sum(lengths_ns[max(0, run[0] - 1) : run[-1] + 2]) / 1e9)


def last_loss(
    sent: Sequence[Sample], arrived: Sequence[Sample], unique: int, resolution: int
) -> Span | None:
    """Return the time from the begin of the first `sent` sample to the last loss; None if no frame
    was lost.

    `arrived` may begin earlier and contain other frames there. It is therefore counted backwards
    from its end, at which `unique` of the sent frames have arrived. A frame that is missing at a
    moment is lost or on its way. From the moment at which the number of missing frames has reached
    its final value, no more are lost. `resolution` frames (a burst or two) may be sent or arrive
    between the samples of the two sides."""
    begun_ns = sent[0].t_ns - sent[0].duration_ns
    lost = sum(sample.frames for sample in sent) - unique
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
    """Return (time, frames sent and not arrived) at the end of each sample of arrivals."""
    times_ns = [begun_ns, *(sample.t_ns for sample in sent)]
    counts = np.cumsum([0, *(sample.frames for sample in sent)])
    inside = [sample for sample in arrived if sample.t_ns - sample.duration_ns >= begun_ns]
    ends_ns = [sample.t_ns for sample in inside]
    arrivals = np.cumsum([sample.frames for sample in inside])
    missing = np.interp(ends_ns, times_ns, counts) - (unique + arrivals - arrivals[-1:])
    return list(zip(ends_ns, missing.tolist(), strict=True))


def _reached_at(behind: Sequence[tuple[int, float]], lost: float) -> int:
    """Return the moment from which on at least `lost` frames are always missing."""
    reached_ns = behind[-1][0]
    for t_ns, missing in reversed(behind):
        if missing < lost:
            break
        reached_ns = t_ns
    return reached_ns
