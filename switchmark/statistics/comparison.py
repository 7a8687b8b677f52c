"""Statistics of a comparison: whether B is better or worse than A, by how much, and how certain it
is.

All functions have plain lists of values as input, one value for each repetition. The figure is the
ratio B / A with its interval. A difference needs significance after the correction for the number
of comparisons, and a size above the practical threshold. "Same" is claimed only if the whole
interval lies within the threshold. In all other cases the result is unclear.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from switchmark.errors import UsageError
from switchmark.statistics.means import LEVEL, RESOLUTION, Estimate

THRESHOLD = 0.02
BOOTSTRAP_FROM = 15  # repetitions on both sides; fewer do not show their tails
BOOTSTRAP_SKEW = 1.0
RESAMPLES = 9999
MANY_REPETITIONS = 10_000  # more than a user waits for
BOOTSTRAP_SEED = 20
_NO_SPREAD = 1e-12  # spread of the logarithms of equal values, by rounding
Array = NDArray[np.float64]


class Correction(StrEnum):
    """The adjustment of p-values for the number of comparisons."""

    HOLM = "holm"  # chance of even one false difference (S. Holm, 1979)
    FDR = "fdr"  # share of false ones among the differences (Benjamini, Hochberg, 1995)
    NONE = "none"


class Verdict(StrEnum):
    """The conclusion of a comparison about B."""

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
    rises: bool | None = None  # B is above A, if only ranks are compared


@dataclass(frozen=True, slots=True)
class Judged:
    """A ratio and its verdict among all simultaneous comparisons."""

    ratio: Ratio
    adjusted_p: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Difference:
    """The verdict on whether two means differ."""

    ratio: float  # larger mean over smaller mean
    low: float | None  # 95 % interval of the ratio, before correction; None: not testable
    high: float | None
    p: float | None  # Holm-adjusted; None: not testable
    significant: bool
    note: str


def ratio_of(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Return the ratio of the geometric means, by Welch's t on logarithms.

    For many and skewed values, it is the ratio of the means by the bootstrap. `method` names the
    method. If a value is 0, ranks are compared, without an interval. With fewer than two values on
    a side there is neither an interval nor a p-value."""
    if not a or not b or min(*a, *b) <= 0:
        return _by_ranks(a, b)
    if min(len(a), len(b)) >= BOOTSTRAP_FROM and _is_skewed(a, b):
        return _bootstrap(a, b)
    return _welch_on_logs(a, b)


def sides_of(ratio: Ratio, a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Return the two means whose ratio this is: geometric means if logarithms were compared,
    otherwise arithmetic means. Therefore the figures of a line and their ratio agree."""
    if ratio.value is not None and min(*a, *b) > 0:
        geometric = statistics.geometric_mean(a), statistics.geometric_mean(b)
        if math.isclose(geometric[1] / geometric[0], ratio.value, rel_tol=1e-6):
            return geometric
    return statistics.fmean(a), statistics.fmean(b)


def judge(
    ratios: Sequence[Ratio],
    *,
    higher_is_better: Sequence[bool],
    threshold: float = THRESHOLD,
    correction: Correction = Correction.HOLM,
) -> list[Judged]:
    """Correct all comparisons together and return the verdict of each."""
    if not 0 <= threshold < 1:
        raise UsageError(f"threshold {threshold:g}: must be 0 to below 1 (0.02 is 2 %)")
    adjusted = adjust([ratio.p for ratio in ratios], correction)
    return [
        Judged(ratio, p, _verdict_of(ratio, p, good, threshold))
        for ratio, p, good in zip(ratios, adjusted, higher_is_better, strict=True)
    ]


def adjust(p_values: Sequence[float | None], correction: Correction) -> list[float | None]:
    """Return adjusted p-values in the given order; None stays None and does not count."""
    tested = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = list(p_values)
    if correction is Correction.HOLM:
        floor = 0.0
        for rank, (p, index) in enumerate(tested):
            floor = max(floor, min(1.0, p * (len(tested) - rank)))
            adjusted[index] = floor
    elif correction is Correction.FDR:
        from scipy.stats import false_discovery_control

        adjusted_tested = false_discovery_control([p for p, _ in tested]) if tested else []
        for (_, index), p in zip(tested, adjusted_tested, strict=True):
            adjusted[index] = float(p)
    return adjusted


def verdict(
    ratio: float | None,
    low: float | None,
    high: float | None,
    adjusted_p: float | None,
    higher_is_better: bool,
    threshold: float,
) -> Verdict:
    """Return the verdict on a ratio with its interval."""
    if adjusted_p is None or ratio is None or low is None or high is None:
        return Verdict.UNTESTABLE
    is_small = is_negligible(ratio, threshold)
    if adjusted_p < LEVEL:
        if is_small:
            return Verdict.NEGLIGIBLE
        return Verdict.BETTER if (ratio > 1) == higher_is_better else Verdict.WORSE
    is_narrow = is_negligible(low, threshold) and is_negligible(high, threshold)
    return Verdict.SAME if is_small and is_narrow else Verdict.UNCLEAR


def _verdict_of(
    ratio: Ratio, adjusted_p: float | None, higher_is_better: bool, threshold: float
) -> Verdict:
    if ratio.rises is None or adjusted_p is None:
        return verdict(ratio.value, ratio.low, ratio.high, adjusted_p, higher_is_better, threshold)
    if adjusted_p >= LEVEL:
        return Verdict.UNCLEAR
    return Verdict.BETTER if ratio.rises == higher_is_better else Verdict.WORSE


def is_negligible(ratio: float, threshold: float) -> bool:
    """Return True if a ratio lies within the threshold. The threshold is a factor: half as much and
    twice as much are equally far from no change."""
    return 1 - threshold <= ratio <= 1 / (1 - threshold)


def further_repetitions(judged: Judged, threshold: float = THRESHOLD) -> int | None:
    """Return about how many more repetitions on each side would decide an unclear comparison; None:
    too many, or the comparison is not unclear. It is decided when its interval excludes 1, or fits
    within the threshold."""
    ratio = judged.ratio
    if judged.verdict is Verdict.UNTESTABLE and ratio.value is not None:
        return 2
    if (
        judged.verdict is not Verdict.UNCLEAR
        or ratio.value is None
        or not ratio.low
        or not ratio.high
    ):
        return None
    lead = abs(math.log(ratio.value))
    gap = max(lead, -math.log1p(-threshold) - lead)
    count = min(ratio.count_a, ratio.count_b)
    if gap <= 0:
        return None
    needed = count * (math.log(ratio.high / ratio.low) / 2 / gap) ** 2
    return None if needed > MANY_REPETITIONS else max(1, math.ceil(needed) - count)


def difference(first: Estimate, second: Estimate) -> Difference:
    """Test two means that were measured independently of each other, for example at two points."""
    larger, smaller = (first, second) if first.mean >= second.mean else (second, first)
    test = ratio_of(smaller.values, larger.values)
    p = test.p
    ratio = larger.mean / smaller.mean if smaller.mean > 0 else math.inf
    is_close = ratio < 1 + 2 * RESOLUTION
    significant = p is not None and p < LEVEL and not is_close
    if p is None:
        note = "not testable: needs two or more repetitions on both sides"
    elif is_close:
        note = "not significant: within the resolution of 0.2 %"
    else:
        shown = "< 0.001" if p < 0.001 else f"= {p:.3f}"
        note = f"{'' if significant else 'not '}significant, p {shown}"
    return Difference(ratio, test.low, test.high, p, significant, note)


def _by_ranks(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Compare ranks, because 0 has no logarithm (H. B. Mann, D. R. Whitney, 1947)."""
    means = [statistics.fmean(side) if side else 0.0 for side in (a, b)]
    value = means[1] / means[0] if b and means[0] > 0 else None
    counts = len(a), len(b)
    if min(counts) < 2:
        return Ratio(value, None, None, None, "none: a value of 0 or none", *counts)
    if max(means) == 0:
        return Ratio(1.0, 1.0, 1.0, 1.0, "all values are 0", *counts)
    from scipy.stats import mannwhitneyu

    p, rises = float(mannwhitneyu(b, a).pvalue), means[1] > means[0]
    return Ratio(value, None, None, p, "ranks (Mann, Whitney): a value of 0", *counts, rises=rises)


def _welch_on_logs(a: Sequence[float], b: Sequence[float]) -> Ratio:
    logs_a, logs_b = [math.log(x) for x in a], [math.log(x) for x in b]
    value = math.exp(statistics.fmean(logs_b) - statistics.fmean(logs_a))
    method = "Welch's t on logarithms, ratio of geometric means"
    if len(a) < 2 or len(b) < 2:
        return Ratio(value, None, None, None, "none: one repetition", len(a), len(b))
    if max(statistics.stdev(logs_a), statistics.stdev(logs_b)) < _NO_SPREAD:
        p = 1.0 if abs(math.log(value)) < _NO_SPREAD else 0.0
        return Ratio(value, value, value, p, method + " (values without spread)", len(a), len(b))
    from scipy.stats import ttest_ind

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one side may have no spread
        test = ttest_ind(logs_b, logs_a, equal_var=False)
    low, high = (math.exp(bound) for bound in test.confidence_interval(1 - LEVEL))
    return Ratio(value, low, high, float(test.pvalue), method, len(a), len(b))


def _bootstrap(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Return the bias-corrected and accelerated bootstrap of ln(mean of b / mean of a) (B. Efron,
    1987).

    The seed is fixed, so the same values always give the same result. p is the level at which the
    interval just reaches no difference."""
    from scipy.stats import bootstrap

    def log_ratio(a: Array, b: Array, axis: int) -> Array:
        return np.asarray(np.log(np.mean(b, axis=axis) / np.mean(a, axis=axis)))

    samples = (np.asarray(a, float), np.asarray(b, float))
    resampled = bootstrap(
        samples, log_ratio, n_resamples=RESAMPLES, confidence_level=1 - LEVEL, rng=BOOTSTRAP_SEED
    )

    def excludes(level: float) -> bool:
        bounds = bootstrap(
            samples,
            log_ratio,
            n_resamples=0,
            confidence_level=1 - level,
            bootstrap_result=resampled,
        ).confidence_interval
        return bool(bounds.low > 0 or bounds.high < 0)

    low, high = 1 / RESAMPLES, 1.0  # bounds of p, narrowed until its third digit is known
    while high - low > 0.0005 * (1 + 100 * low):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if excludes(middle) else (middle, high)
    interval = resampled.confidence_interval
    return Ratio(
        float(np.mean(b) / np.mean(a)),
        math.exp(interval.low),
        math.exp(interval.high),
        high,
        f"bootstrap (BCa) of the ratio of means, {RESAMPLES} resamples",
        len(a),
        len(b),
    )


def _is_skewed(*sides: Sequence[float]) -> bool:
    from scipy.stats import skew

    return any(abs(skew(side)) > BOOTSTRAP_SKEW for side in sides if min(side) < max(side))
