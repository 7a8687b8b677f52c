"""The judge of a policer: the rate that its token bucket passed, from the times of arrivals.

Above the CIR the bucket is empty, and frames arrive at the CIR. If the switch, a tester or the
machine stalls for less time than the bucket takes to fill, no token is lost: frames are late, and
their number returns to the line that it had left. The judge therefore compares the numbers of
arrived frames at two instants, around which frames arrive at an even rate. A window between two
such instants may lack frames if the number fell so far below the line that the bucket may have
been full, if the senders offered too little, or if frames were lost behind the policer. Such a
window shows too high a CIR only. Most windows must agree; otherwise the attempt is disturbed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

TOLERANCE = 0.025  # relative; a CIR that is 5 % off is beyond it
WINDOW_S = 0.4
WINDOW_FRAMES = 150  # least number at the CIR, so that a whole frame is 0.7 %
MARKS_IN_WINDOW = 8
EVEN_S, EVEN_SHARE, EVEN_FRAMES = 0.04, 0.35, 2  # rate before and after an instant
SETTLE_S = 0.05  # after the bucket became empty
DEEPEST_SHARE = 0.7  # arrivals may be below the line by this share of the bucket
ENOUGH = 1.2  # offered frames as a multiple of the CIR
MARGIN = 1.1  # a wrong bucket that is so much deeper or faster is still emptied first
FEWEST_WINDOWS = 8
AGREEMENT, AGREEING_SHARE = 0.01, 0.6

TOO_LITTLE = "the senders could not offer enough"
UNSTEADY = "frames arrived too unevenly"
DISAGREEING = "the rate differed from one part of the measurement to the next"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket, in frames."""

    cir_pps: float
    cbs_frames: float

    @property
    def fill_s(self) -> float:
        """The time in which an empty bucket becomes full."""
        return self.cbs_frames / self.cir_pps

    @property
    def window_s(self) -> float:
        """The length of the windows that are compared."""
        return max(WINDOW_S, WINDOW_FRAMES / self.cir_pps)


@dataclass(frozen=True, slots=True)
class Curve:
    """Frames so far, at instants in order."""

    times_s: Sequence[float]
    counts: Sequence[float]

    def at(self, time_s: float) -> float:
        """Return the number at an instant, on the straight line between two samples."""
        place = bisect_left(self.times_s, time_s)
        if place == 0:
            return self.counts[0]
        if place == len(self.times_s):
            return self.counts[-1]
        before_s, after_s = self.times_s[place - 1], self.times_s[place]
        share = (time_s - before_s) / (after_s - before_s)
        return self.counts[place - 1] + share * (self.counts[place] - self.counts[place - 1])

    def within(self, from_s: float, to_s: float) -> Iterator[tuple[float, float]]:
        """Yield the samples between two instants, both included."""
        for place in range(bisect_left(self.times_s, from_s), len(self.times_s)):
            if self.times_s[place] > to_s:
                return
            yield self.times_s[place], self.counts[place]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The relative difference of the passed rate from the CIR; None: the attempt was disturbed,
    for the reason."""

    error: float | None
    reason: str = ""

    @property
    def is_wrong(self) -> bool:
        """Return True if the policer does not keep its rate."""
        return self.error is not None and abs(self.error) > TOLERANCE


@dataclass(frozen=True, slots=True)
class _Window:
    error: float
    may_lack: bool


def judge(
    bucket: Bucket, offered: Curve, arrived: Curve, lost_s: Sequence[float] = (), *,
    lost_behind: bool = False,
) -> Verdict:  # fmt: skip
    """Return the error of a policer that was offered more than its CIR.

    `lost_s`: the instants at which a receiver had no room; `lost_behind`: the switch lost frames
    behind the policer at unknown instants."""
    begin_s = _emptied(bucket, offered)
    if begin_s is None or begin_s + SETTLE_S >= offered.times_s[-1]:
        return Verdict(None, TOO_LITTLE)
    marks = _marks(bucket, arrived, begin_s + SETTLE_S, offered.times_s[-1])
    windows = list(_windows(bucket, offered, arrived, marks, lost_s))
    if len(windows) < FEWEST_WINDOWS:
        return Verdict(None, UNSTEADY)
    complete = [] if lost_behind else [w.error for w in windows if not w.may_lack]
    if (error := _agreed(complete)) is not None:
        return Verdict(error)
    error = _agreed([w.error for w in windows])
    if error is not None and error >= -TOLERANCE:
        return Verdict(error)
    is_slow = offered.counts[-1] - offered.at(begin_s) < (
        ENOUGH * bucket.cir_pps * (offered.times_s[-1] - begin_s)
    )
    return Verdict(None, TOO_LITTLE if is_slow else DISAGREEING)


def _emptied(bucket: Bucket, offered: Curve) -> float | None:
    """Return the instant at which the offered frames have emptied the bucket; None: never."""
    most = tokens = bucket.cbs_frames * MARGIN
    samples = zip(offered.times_s, offered.counts, strict=True)
    for (before_s, before), (after_s, after) in pairwise(samples):
        earned = bucket.cir_pps * MARGIN * (after_s - before_s)
        tokens = min(most, tokens + earned) - (after - before)
        if tokens <= 0:
            return after_s
    return None


def _marks(bucket: Bucket, arrived: Curve, from_s: float, to_s: float) -> list[float]:
    """Return instants around which frames arrive at an even rate: of each part of the time, the one
    at which the number is highest above the line of the whole."""
    length_s = bucket.window_s / MARKS_IN_WINDOW
    if to_s - from_s < length_s:
        return []
    rate = (arrived.at(to_s) - arrived.at(from_s)) / (to_s - from_s)
    highest: dict[int, tuple[float, float]] = {}
    for time_s, count in arrived.within(from_s, to_s):
        part = int((time_s - from_s) / length_s)
        highest[part] = max(
            highest.get(part, (-float("inf"), 0.0)), (count - rate * time_s, time_s)
        )
    even_s = max(EVEN_S, length_s / 2)
    slack = EVEN_SHARE * rate * even_s + EVEN_FRAMES

    def is_even(time_s: float) -> bool:
        if time_s - even_s < from_s or time_s + even_s > to_s:
            return False
        sides = [arrived.at(time_s + k * even_s) for k in (-1, 0, 1)]
        return all(abs(b - a - rate * even_s) <= slack for a, b in pairwise(sides))

    return [time_s for _, time_s in highest.values() if is_even(time_s)]


def _windows(
    bucket: Bucket, offered: Curve, arrived: Curve, marks: Sequence[float], lost_s: Sequence[float]
) -> Iterator[_Window]:
    """Yield the window from each instant to the first one that is far enough."""
    for begin_s in marks:
        place = bisect_left(marks, begin_s + bucket.window_s)
        if place == len(marks):
            return
        end_s = marks[place]
        length_s, first = end_s - begin_s, arrived.at(begin_s)
        slope = (arrived.at(end_s) - first) / length_s
        deepest = max(
            first + slope * (time_s - begin_s) - count
            for time_s, count in arrived.within(begin_s, end_s)
        )
        may_lack = (
            deepest > DEEPEST_SHARE * bucket.cbs_frames
            or offered.at(end_s) - offered.at(begin_s) < ENOUGH * bucket.cir_pps * length_s
            or any(begin_s <= time_s <= end_s for time_s in lost_s)
        )
        yield _Window(slope / bucket.cir_pps - 1, may_lack)


def _agreed(errors: Sequence[float]) -> float | None:
    """Return the median if most errors are near it; None if not, or if there are too few."""
    if len(errors) < FEWEST_WINDOWS:
        return None
    middle = median(errors)
    near = sum(abs(error - middle) <= AGREEMENT for error in errors)
    return middle if near >= AGREEING_SHARE * len(errors) else None
