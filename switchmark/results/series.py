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
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from switchmark.results.compare import THRESHOLD, Verdict
from switchmark.results.statistics import t_quantile, t_two_sided_p

MIN_HISTORY = 3  # earlier runs needed to judge the newest
MIN_STRETCH = 2
CHANGE_P = 0.01
PERMUTATIONS = 1999
RECENT_RUNS = 3  # a change this young still counts as news


@dataclass(frozen=True, slots=True)
class Change:
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
    half = t_quantile(0.975, degrees) * error
    p = t_two_sided_p(difference / error, degrees)
    return Newest(math.exp(difference), math.exp(-half), math.exp(half), p, len(stretch))


def find_changes(runs: Sequence[Sequence[float]], threshold: float = THRESHOLD) -> list[Change]:
    """Changes of level along the series, oldest first; smaller ones than the threshold are
    left out."""
    levels = [_level(values) for values in runs]
    cuts = sorted(_segment(levels, 0, random.Random(20)))
    edges = [0, *(index for index, _ in cuts), len(levels)]
    means = [statistics.fmean(levels[start:end]) for start, end in pairwise(edges) if end > start]
    changes = []
    for (index, p), (before, after) in zip(cuts, pairwise(means), strict=True):
        ratio = math.exp(after - before)
        if not 1 - threshold <= ratio <= 1 / (1 - threshold):
            changes.append(Change(index, ratio, p))
    return changes


def verdict_of_newest(
    newest: Newest | None, adjusted_p: float | None, higher_is_better: bool, threshold: float
) -> Verdict:
    """As in a comparison of two: significant and large enough."""
    if newest is None or adjusted_p is None:
        return Verdict.UNTESTABLE
    small = 1 - threshold <= newest.ratio <= 1 / (1 - threshold)
    if adjusted_p < 0.05:
        if small:
            return Verdict.NEGLIGIBLE
        return Verdict.BETTER if (newest.ratio > 1) == higher_is_better else Verdict.WORSE
    # Nothing is out of line; whether that means much depends on how wide the line is.
    narrow = newest.expected_low >= 1 - threshold and newest.expected_high <= 1 / (1 - threshold)
    return Verdict.SAME if narrow and small else Verdict.UNCLEAR


def is_recent(change: Change, runs: int) -> bool:
    """Whether the change happened in the last few runs."""
    return runs - change.index <= RECENT_RUNS


def _level(values: Sequence[float]) -> float:
    return statistics.fmean(math.log(value) for value in values)


def _segment(levels: Sequence[float], offset: int, dice: random.Random) -> list[tuple[int, float]]:
    """Cut at the best place if it is significant, then look into both parts."""
    if len(levels) < 2 * MIN_STRETCH:
        return []
    best, place = _best_cut(levels)
    shuffled = list(levels)
    as_good = 1
    for _ in range(PERMUTATIONS):
        dice.shuffle(shuffled)
        as_good += _best_cut(shuffled)[0] >= best
    p = as_good / (PERMUTATIONS + 1)
    if p >= CHANGE_P:
        return []
    return [
        *_segment(levels[:place], offset, dice),
        (offset + place, p),
        *_segment(levels[place:], offset + place, dice),
    ]


def _best_cut(levels: Sequence[float]) -> tuple[float, int]:
    """The largest squared distance between two parts' means, weighted by their sizes."""
    count, whole = len(levels), math.fsum(levels)
    best, place, total = -1.0, MIN_STRETCH, 0.0
    for index in range(1, count):
        total += levels[index - 1]
        if index < MIN_STRETCH or count - index < MIN_STRETCH:
            continue
        gap = total / index - (whole - total) / (count - index)
        score = gap * gap * index * (count - index) / count
        if score > best:
            best, place = score, index
    return best, place
