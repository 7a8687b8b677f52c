"""Change points of a series: e-divisive means (D. Matteson and N. James, J. Am. Stat. Ass. 109,
2014), as MongoDB and Hunter apply it to benchmarks (D. Daly et al., ICPE 2020; P. Fleming et al.,
ICPE 2023).

The score of a cut is high if values are farther from those on the other side than from those on the
same side (the energy statistic, with plain distances). The best cut of all stretches is accepted if
at most a share `CHANGE_P` of random orders of the values within their stretches has a better score.
Then the next cut is searched, until the best one is rejected. The method does not assume a
distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHANGE_P = 0.01
MIN_STRETCH = 2
PERMUTATIONS = 999
SEED = 20  # the same series always has the same changes
_AT_ONCE = 4_000_000  # distances, 32 MB
Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Cut:
    """A change of level before value `index` (0 is the first)."""

    index: int
    p: float


def find_cuts(values: Sequence[float]) -> list[Cut]:
    """Return all changes of a series, in its order."""
    series = np.asarray(values, float)
    generator = np.random.default_rng(SEED)
    edges = [0, series.size]
    cuts: list[Cut] = []
    while True:
        stretches = [series[begin:end] for begin, end in pairwise(edges)]
        scored = [_best(stretch[np.newaxis]) for stretch in stretches]
        scores = [float(score[0]) for score, _ in scored]
        most = max(range(len(scores)), key=scores.__getitem__)
        if scores[most] <= 0:
            break
        p = _chance(stretches, scores[most], generator)
        if p > CHANGE_P:
            break
        index = edges[most] + int(scored[most][1][0])
        cuts.append(Cut(index, p))
        edges = sorted([*edges, index])
    return sorted(cuts, key=lambda cut: cut.index)


def _chance(stretches: Sequence[Array], score: float, generator: np.random.Generator) -> float:
    """Return the share of random orders, each within its stretch, whose best cut is at least as
    good as this one."""
    best = np.zeros(PERMUTATIONS)
    for stretch in stretches:
        step = max(1, _AT_ONCE // max(1, stretch.size**2))
        for begin in range(0, PERMUTATIONS, step):
            count = min(step, PERMUTATIONS - begin)
            drawn = generator.permuted(np.tile(stretch, (count, 1)), axis=1)
            best[begin : begin + count] = np.maximum(best[begin : begin + count], _best(drawn)[0])
    return float((1 + np.count_nonzero(best >= score * (1 - 1e-9))) / (PERMUTATIONS + 1))


def _best(series: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return score and place of the best cut of each row; 0 for a row that is too short to cut."""
    count = series.shape[1]
    if count < 2 * MIN_STRETCH:
        return np.zeros(len(series)), np.zeros(len(series), dtype=np.intp)
    distances = np.abs(series[:, :, np.newaxis] - series[:, np.newaxis, :])
    upper = np.triu(distances)
    left = np.arange(MIN_STRETCH, count - MIN_STRETCH + 1)
    right = count - left
    within_left = upper.sum(axis=1).cumsum(axis=1)[:, left - 1]
    from_right = upper.sum(axis=2)[:, ::-1].cumsum(axis=1)[:, ::-1]
    within_right = from_right[:, left]
    across = upper.sum(axis=(1, 2))[:, np.newaxis] - within_left - within_right
    scores = (left * right / count) * (
        2 * across / (left * right)
        - 2 * within_left / (left * (left - 1))
        - 2 * within_right / (right * (right - 1))
    )
    places = scores.argmax(axis=1)
    return scores[np.arange(len(series)), places], left[places]
