"""Values that do not belong to the others, single values or two groups: reported, never dropped.

Outliers are found by the modified z-score beyond 3.5 (B. Iglewicz, D. C. Hoaglin, How to Detect and
Handle Outliers, 1993); two groups as in two_bands.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from switchmark.statistics.robust import DEVIATION
from switchmark.statistics.two_bands import STEPS_AT_ENDS, Bands, find_bands

OUTLIER_SCORE = 3.5
TWO_BANDS = "two bands:"  # begin of the sentence about two bands


@dataclass(frozen=True, slots=True)
class Outlier:
    """A value that does not belong to the rest; reported, never dropped."""

    index: int
    value: float
    score: float  # modified z-score; beyond +-3.5


def find_outliers(values: Sequence[float], step: float = 0.0) -> tuple[Outlier, ...]:
    """Return the values whose modified z-score lies beyond +-3.5, in order. `step` is the step in
    which values move, for counts in bursts: a distance of `STEPS_AT_ENDS` steps is not an
    outlier."""
    if len(values) < 3:
        return ()
    distances = np.asarray(values, float) - np.median(values)
    # If more than half of the values are equal, their median distance is 0. Then the mean distance
    # is used (Iglewicz and Hoaglin, the same section).
    scale = DEVIATION * float(np.median(np.abs(distances)))
    scale = scale or math.sqrt(math.pi / 2) * float(np.abs(distances).mean())
    if scale == 0:
        return ()
    with np.errstate(over="ignore"):  # with a tiny scale, scores are infinite
        scores = distances / scale
    return tuple(
        Outlier(index, value, float(score))
        for index, (value, score) in enumerate(zip(values, scores, strict=True))
        if abs(score) > OUTLIER_SCORE and abs(distances[index]) > STEPS_AT_ENDS * step
    )


def in_words(
    outliers: Sequence[Outlier],
    bands: Bands | None,
    noun: str,
    amount: Callable[[float], str],
    numbers: Sequence[int] | None = None,
) -> list[str]:
    """Return a sentence for each outlier. `noun` names the values (repetition, trial), `amount`
    formats them, and `numbers` are their numbers; without it, they are counted from 1."""
    sentences = [
        f"outlier: {noun} {numbers[outlier.index] if numbers else outlier.index + 1} with "
        f"{amount(outlier.value)} (score {outlier.score:.1f}), kept in the mean"
        for outlier in outliers
    ]
    return [*sentences, *([f"{TWO_BANDS} {bands.describe(amount)}"] if bands else [])]


def strange_repetitions(
    values: Sequence[float],
    numbers: Sequence[int],
    amount: Callable[[float], str],
    step: float = 0.0,
) -> list[str]:
    """Return remarks on unusual repetitions of a trial. `numbers` are the repetitions of the
    values, of which some may have failed. `step` is that of `find_bands`."""
    outliers, bands = find_outliers(values, step), find_bands(values, step)
    return in_words(outliers, bands, "repetition", amount, numbers)
