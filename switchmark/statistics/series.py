"""Regression detection over a series of runs: releases, nights, commits, oldest first.

Repetitions within one run are more alike than runs are, because machines change between runs. So
the unit is the run (the mean of the logarithms of its repetitions), and a new run is compared with
the spread between runs.

* The newest run is tested against the runs of the present stretch, by the prediction interval of
  the t test for one new observation.
* Past changes are found by e-divisive means (change_points.py). The ratio of a change is that of
  the stretches before and after it. Its interval is Welch's t on the levels of their runs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from switchmark.statistics.change_points import find_cuts
from switchmark.statistics.comparison import (
    THRESHOLD,
    Verdict,
    is_negligible,
    ratio_of,
    verdict,
)
from switchmark.statistics.means import LEVEL

MIN_HISTORY = 3  # earlier runs needed to judge the newest
RECENT_RUNS = 3  # a change within this number of runs is recent


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of level before run `index` (0 is the oldest)."""

    index: int
    ratio: float  # new level over old
    p: float
    low: float | None = None  # 95 % interval of the ratio
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest run against the stretch before it."""

    ratio: float
    expected_low: float  # 95 % interval for the ratio of one more run of that stretch
    expected_high: float
    p: float
    runs: int  # in the stretch


def newest_run(runs: Sequence[Sequence[float]]) -> Newest | None:
    """Test the last run; None if fewer than three runs of its stretch came before it."""
    levels = [_level(values) for values in runs]
    history, newest = levels[:-1], levels[-1]
    starts = [change.index for change in find_changes(runs[:-1])]
    stretch = history[starts[-1] if starts else 0 :]
    if len(stretch) < MIN_HISTORY:
        return None
    difference = newest - statistics.fmean(stretch)
    error = statistics.stdev(stretch) * math.sqrt(1 + 1 / len(stretch))
    degrees = len(stretch) - 1
    if error == 0:
        p = 1.0 if difference == 0 else 0.0
        return Newest(math.exp(difference), 1.0, 1.0, p, len(stretch))
    from scipy.special import stdtr, stdtrit

    half = float(stdtrit(degrees, 1 - LEVEL / 2)) * error
    p = float(2 * stdtr(degrees, -abs(difference) / error))
    return Newest(math.exp(difference), math.exp(-half), math.exp(half), p, len(stretch))


def find_changes(
    runs: Sequence[Sequence[float]], threshold: float = THRESHOLD
) -> list[ChangePoint]:
    """Return the changes of level along the series, oldest first, without those below the
    threshold."""
    levels = [_level(values) for values in runs]
    cuts = find_cuts(levels)
    edges = [0, *(cut.index for cut in cuts), len(levels)]
    stretches = [[math.exp(level) for level in levels[begin:end]] for begin, end in pairwise(edges)]
    changes = []
    for cut, (before, after) in zip(cuts, pairwise(stretches), strict=True):
        ratio = ratio_of(before, after)
        if ratio.value is not None and not is_negligible(ratio.value, threshold):
            changes.append(ChangePoint(cut.index, ratio.value, cut.p, ratio.low, ratio.high))
    return changes


def verdict_of_newest(
    newest: Newest | None, adjusted_p: float | None, higher_is_better: bool, threshold: float
) -> Verdict:
    """Judge the newest run like a comparison of two runs: the difference must be significant and
    large enough. If it is not significant, the verdict depends on the width of the interval."""
    if newest is None:
        return Verdict.UNTESTABLE
    low, high = newest.expected_low, newest.expected_high
    return verdict(newest.ratio, low, high, adjusted_p, higher_is_better, threshold)


def is_recent(change: ChangePoint, runs: int) -> bool:
    """Return True if the change happened in the last few runs."""
    return runs - change.index <= RECENT_RUNS


def _level(values: Sequence[float]) -> float:
    return statistics.fmean(math.log(value) for value in values)
