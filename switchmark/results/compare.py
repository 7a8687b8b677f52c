"""Is B better or worse than A, by how much, and how sure is that? The statistics alone.

Everything here takes plain lists of values, one value a repetition. The figure is the ratio
B / A with its interval; a difference needs two things: significance after correction for the
number of comparisons, and a size that matters (the practical threshold). "No difference" is
claimed only when the whole interval lies within the threshold; all else is unclear.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from switchmark.errors import UsageError
from switchmark.results.statistics import t_quantile, t_two_sided_p

CONFIDENCE = 0.95
THRESHOLD = 0.02
BOOTSTRAP_FROM = 15  # repetitions on both sides; fewer cannot tell their own tails
BOOTSTRAP_SKEW = 1.0
RESAMPLES = 9999


class Correction(StrEnum):
    """How p-values are adjusted for the number of comparisons."""

    HOLM = "holm"  # chance of even one false difference (S. Holm, 1979)
    FDR = "fdr"  # share of false ones among the differences (Benjamini, Hochberg, 1995)
    NONE = "none"


class Verdict(StrEnum):
    """What a comparison says about B."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"  # the whole interval lies within the threshold
    NEGLIGIBLE = "negligible"  # significant, but smaller than the threshold
    UNCLEAR = "unclear"  # more repetitions are needed
    UNTESTABLE = "untestable"  # fewer than two repetitions, or a value that is not above 0


@dataclass(frozen=True, slots=True)
class Ratio:
    """B over A with its interval, before any correction."""

    value: float | None
    low: float | None  # 95 % interval of this one ratio
    high: float | None
    p: float | None  # two-sided, that the ratio is 1
    method: str
    count_a: int
    count_b: int


@dataclass(frozen=True, slots=True)
class Judged:
    """A ratio with its place among all comparisons made together."""

    ratio: Ratio
    adjusted_p: float | None
    verdict: Verdict


def ratio_of(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Ratio of the geometric means by Welch's t on logarithms.

    With many and skewed values, ratio of the means by a studentised bootstrap instead;
    `method` names which. Values must be above 0; below two a side there is no interval.
    """
    if not a or not b or min(*a, *b) <= 0:
        value = None
        if a and b and statistics.fmean(a) > 0:
            value = statistics.fmean(b) / statistics.fmean(a)
        return Ratio(value, None, None, None, "none: a value of 0 or none", len(a), len(b))
    if min(len(a), len(b)) >= BOOTSTRAP_FROM and max(_skew(a), _skew(b)) > BOOTSTRAP_SKEW:
        return _bootstrap(a, b)
    return _welch_on_logs(a, b)


def judge(
    ratios: Sequence[Ratio],
    *,
    higher_is_better: Sequence[bool],
    threshold: float = THRESHOLD,
    correction: Correction = Correction.HOLM,
) -> list[Judged]:
    """Correct all comparisons together and give each its verdict."""
    if not 0 <= threshold < 1:
        raise UsageError(f"threshold {threshold:g}: must be 0 to below 1 (0.02 is 2 %)")
    adjusted = adjust([ratio.p for ratio in ratios], correction)
    return [
        Judged(ratio, p, _verdict(ratio, p, good, threshold))
        for ratio, p, good in zip(ratios, adjusted, higher_is_better, strict=True)
    ]


def adjust(p_values: Sequence[float | None], correction: Correction) -> list[float | None]:
    """Adjusted p-values, in the given order; None stays None and counts for nothing."""
    tested = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    count = len(tested)
    adjusted: list[float | None] = list(p_values)
    if correction is Correction.HOLM:
        floor = 0.0
        for rank, (p, index) in enumerate(tested):
            floor = max(floor, min(1.0, p * (count - rank)))
            adjusted[index] = floor
    elif correction is Correction.FDR:
        ceiling = 1.0
        for rank, (p, index) in reversed(list(enumerate(tested, 1))):
            ceiling = min(ceiling, p * count / rank)
            adjusted[index] = ceiling
    return adjusted


def _verdict(
    ratio: Ratio, adjusted_p: float | None, higher_is_better: bool, threshold: float
) -> Verdict:
    if adjusted_p is None or ratio.value is None or ratio.low is None or ratio.high is None:
        return Verdict.UNTESTABLE
    # As factors: half as much and twice as much are equally far from no change.
    lowest, highest = 1 - threshold, 1 / (1 - threshold)
    if adjusted_p < 1 - CONFIDENCE:
        if lowest <= ratio.value <= highest:
            return Verdict.NEGLIGIBLE
        grew = ratio.value > 1
        return Verdict.BETTER if grew == higher_is_better else Verdict.WORSE
    if lowest <= ratio.low and ratio.high <= highest:
        return Verdict.SAME
    return Verdict.UNCLEAR


def _welch_on_logs(a: Sequence[float], b: Sequence[float]) -> Ratio:
    logs_a, logs_b = [math.log(x) for x in a], [math.log(x) for x in b]
    difference = statistics.fmean(logs_b) - statistics.fmean(logs_a)
    value = math.exp(difference)
    method = "Welch's t on logarithms, ratio of geometric means"
    if len(a) < 2 or len(b) < 2:
        return Ratio(value, None, None, None, "none: one repetition", len(a), len(b))
    variance_a = statistics.variance(logs_a) / len(a)
    variance_b = statistics.variance(logs_b) / len(b)
    error = math.sqrt(variance_a + variance_b)
    if error == 0:
        p = 1.0 if difference == 0 else 0.0
        return Ratio(value, value, value, p, method + " (values without spread)", len(a), len(b))
    degrees = error**4 / (variance_a**2 / (len(a) - 1) + variance_b**2 / (len(b) - 1))
    half = t_quantile((1 + CONFIDENCE) / 2, degrees) * error
    p = t_two_sided_p(difference / error, degrees)
    low, high = math.exp(difference - half), math.exp(difference + half)
    return Ratio(value, low, high, p, method, len(a), len(b))


def _bootstrap(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Bootstrap-t of the logarithm of the ratio of means (B. Efron, R. Tibshirani, 1993).

    The seed is fixed: the same values always give the same answer.
    """
    generator = np.random.default_rng(20)
    log_a, error_a = _log_means(np.asarray(a, float), generator)
    log_b, error_b = _log_means(np.asarray(b, float), generator)
    logs, errors = log_b - log_a, np.hypot(error_a, error_b)
    difference, error = logs[0], errors[0]
    pivots = (logs[1:] - difference) / np.where(errors[1:] > 0, errors[1:], np.inf)
    tail = (1 - CONFIDENCE) / 2
    below, above = np.quantile(pivots, [tail, 1 - tail])
    observed = difference / error
    beyond = min(int((pivots >= observed).sum()), int((pivots <= observed).sum()))
    return Ratio(
        math.exp(difference),
        math.exp(difference - above * error),
        math.exp(difference - below * error),
        min(1.0, 2 * (beyond + 1) / (RESAMPLES + 1)),
        f"studentised bootstrap of the ratio of means, {RESAMPLES} resamples",
        len(a),
        len(b),
    )


def _log_means(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], generator: np.random.Generator
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], ...]:
    """Logarithm of the mean and its standard error: of the values first, then of resamples."""
    picks = generator.integers(0, values.size, (RESAMPLES, values.size))
    drawn = np.vstack([values, values[picks]])
    means = drawn.mean(axis=1)
    return np.log(means), drawn.std(axis=1, ddof=1) / math.sqrt(values.size) / means


def _skew(values: Sequence[float]) -> float:
    """Absolute sample skewness; 0 for values without spread."""
    mean, spread = statistics.fmean(values), statistics.pstdev(values)
    if spread == 0:
        return 0.0
    return abs(math.fsum(((x - mean) / spread) ** 3 for x in values) / len(values))
