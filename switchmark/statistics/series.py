"""Regression detection over a series of runs: releases, nights, commits, oldest first.

Repetitions within one run are more alike than runs are: machines change between them. So
the unit here is the run (the mean of its repetitions' logarithms), and the spread between
runs is what a new run is held against.

* The newest run is tested against the runs of the present stretch (t test for one new
  observation: the prediction interval).
* Changes in the past are found by binary segmentation; each cut must be better than in all
  but `CHANGE_P` of random orders of the same runs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from switchmark.statistics.comparison import THRESHOLD, Verdict
from switchmark.statistics.means import LEVEL

MIN_HISTORY = 3  # earlier runs needed to judge the newest
MIN_STRETCH = 2
CHANGE_P = 0.01
PERMUTATIONS = 1999
PERMUTATION_SEED = 20
RECENT_RUNS = 3  # a change this young still counts as news
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The level changed before run `index` (0 is the oldest)."""

    index: int
    ratio: float  # new level over old
    p: float


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest run against the stretch before it."""

    ratio: float
    expected_low: float  # 95 % interval for the ratio of one more run of that stretch
    expected_high: float
    p: float
    runs: int  # in the stretch


def newest_run(runs: Sequence[Sequence[float]]) -> Newest | None:
    """Test the last run; None where fewer than three runs of one stretch came before it."""
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
    """Changes of level along the series, oldest first; smaller ones than the threshold are
    left out."""
    levels = [_level(values) for values in runs]
    cuts = sorted(_segment(np.asarray(levels), 0))
    edges = [0, *(index for index, _ in cuts), len(levels)]
    means = [statistics.fmean(levels[start:end]) for start, end in pairwise(edges) if end > start]
    changes = []
    for (index, p), (before, after) in zip(cuts, pairwise(means), strict=True):
        ratio = math.exp(after - before)
        if not 1 - threshold <= ratio <= 1 / (1 - threshold):
            changes.append(ChangePoint(index, ratio, p))
    return changes


def verdict_of_newest(
    newest: Newest | None, adjusted_p: float | None, higher_is_better: bool, threshold: float
) -> Verdict:
    """As in a comparison of two: significant and large enough."""
    if newest is None or adjusted_p is None:
        return Verdict.UNTESTABLE
    small = 1 - threshold <= newest.ratio <= 1 / (1 - threshold)
    if adjusted_p < LEVEL:
        if small:
            return Verdict.NEGLIGIBLE
        return Verdict.BETTER if (newest.ratio > 1) == higher_is_better else Verdict.WORSE
    # Nothing is out of line; whether that means much depends on how wide the line is.
    narrow = newest.expected_low >= 1 - threshold and newest.expected_high <= 1 / (1 - threshold)
    return Verdict.SAME if narrow and small else Verdict.UNCLEAR


def is_recent(change: ChangePoint, runs: int) -> bool:
    """Whether the change happened in the last few runs."""
    return runs - change.index <= RECENT_RUNS


def _level(values: Sequence[float]) -> float:
    return statistics.fmean(math.log(value) for value in values)


def _segment(levels: Array, offset: int) -> list[tuple[int, float]]:
    """Cut at the best place if it is significant, then look into both parts."""
    if levels.size < 2 * MIN_STRETCH:
        return []
    from scipy.stats import permutation_test

    p = permutation_test(
        (levels,),
        lambda drawn, axis: _cut_scores(drawn, axis).max(axis=-1),
        permutation_type="pairings",
        vectorized=True,
        n_resamples=PERMUTATIONS,
        alternative="greater",
        rng=PERMUTATION_SEED,
    ).pvalue
    if p >= CHANGE_P:
        return []
    place = int(_cut_scores(levels, -1).argmax()) + MIN_STRETCH
    return [
        *_segment(levels[:place], offset),
        (offset + place, float(p)),
        *_segment(levels[place:], offset + place),
    ]


def _cut_scores(levels: Array, axis: int) -> Array:
    """For each place to cut: the squared distance between both parts' means, weighted by sizes."""
    ordered = np.moveaxis(levels, axis, -1)
    count = ordered.shape[-1]
    sizes = np.arange(MIN_STRETCH, count - MIN_STRETCH + 1)
    before = ordered.cumsum(axis=-1)[..., sizes - 1]
    after = ordered.sum(axis=-1, keepdims=True) - before
    gaps = before / sizes - after / (count - sizes)
    return np.asarray(gaps**2 * sizes * (count - sizes) / count)
