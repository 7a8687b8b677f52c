"""Where a run became steady, whether it stayed so, and what does not fit: stated tests.

Three questions about a series of samples taken at equal intervals (a trial's forwarded
rate, or one figure a repetition). Nothing here drops a sample: it says which ones a figure
should be made of, and what the rest looked like.

* warm-up: MSER-5 (K. P. White, "An effective truncation heuristic for bias reduction in
  simulation output", Simulation 69, 1997), with batches below 5 for series below 100;
* steady: the CUSUM test for one change of the mean, its variance corrected for correlated
  samples (W. K. Newey, K. D. West, Econometrica 55, 1987), at `ALPHA`;
* outliers: the modified z-score (B. Iglewicz, D. C. Hoaglin, 1993).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.results.outliers import Outlier, find_outliers
from switchmark.results.two_bands import Bands, find_bands

MSER_BATCH = 5
MIN_SAMPLES = 20
ALPHA = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """The account of one series. Values are in the unit of the samples."""

    samples: int
    warm_up_samples: int  # to leave out at the start
    steady: bool
    reason: str  # one sentence
    change_p: float | None  # of the CUSUM test over the kept samples; None: not testable
    mean: float | None  # over the kept samples, outliers included
    mean_without_outliers: float | None
    outliers: tuple[Outlier, ...]  # indices count from the whole series' start
    bands: Bands | None  # set when the kept samples fall into two

    @property
    def policy(self) -> str:
        """For the record: how the kept window was found."""
        left_out = f"first {self.warm_up_samples} of {self.samples} samples left out"
        return f"MSER-{batch_size(self.samples)}: {left_out}"


def detect(samples: Sequence[float]) -> SteadyState:
    """Find the warm-up, then test what is left."""
    if len(samples) < MIN_SAMPLES:
        return _too_short(samples)
    cut = find_warm_up(samples)
    if cut is None:
        reason = "no steady part: the run was still settling half-way"
        return _account(samples, 0, False, reason, None)
    kept = samples[cut:]
    p = change_p(kept)
    bands = find_bands(kept)
    if bands is not None:
        reason = f"two bands: {bands.describe()}"
    elif p < ALPHA:
        reason = f"the mean changes within the run (CUSUM, p {p:.2g})"
    else:
        reason = f"steady after {cut} samples (CUSUM, p {p:.2g})"
    return _account(samples, cut, bands is None and p >= ALPHA, reason, p)


def find_warm_up(samples: Sequence[float]) -> int | None:
    """Samples to leave out at the start; None when it is half of the run or more.

    Of all cuts in the first half, that one is taken for which the standard error of the
    mean of what is left is smallest, over means of `batch_size` samples.
    """
    batch = batch_size(len(samples))
    count = len(samples) // batch
    batches = [math.fsum(samples[batch * i : batch * (i + 1)]) / batch for i in range(count)]
    centre = statistics.fmean(batches)
    best, best_error = 0, math.inf
    total = squares = 0.0
    # From the end backwards, so that each cut costs one addition.
    for cut in range(count - 1, -1, -1):
        deviation = batches[cut] - centre
        total += deviation
        squares += deviation * deviation
        if cut > count // 2:
            continue
        error = max(0.0, squares - total * total / (count - cut)) / (count - cut) ** 2
        if error <= best_error:
            best, best_error = cut, error
    return None if best >= count // 2 else best * batch


def batch_size(count: int) -> int:
    """5 as published; fewer for short series, which would have too few batches to choose from."""
    return max(1, min(MSER_BATCH, count // MIN_SAMPLES))


def change_p(samples: Sequence[float]) -> float:
    """p-value that the mean is the same all along (CUSUM, Brownian-bridge limit).

    The largest distance of the cumulative sum from a straight line, over the long-run
    standard deviation. The latter is taken around the trend: a drift must not hide in it.
    """
    count = len(samples)
    mean = statistics.fmean(samples)
    deviations = [value - mean for value in samples]
    scale = _long_run_variance(_without_trend(deviations))
    if scale <= 0:
        return 1.0
    largest = running = 0.0
    for deviation in deviations:
        running += deviation
        largest = max(largest, abs(running))
    return kolmogorov_p(largest / math.sqrt(scale * count))


def kolmogorov_p(distance: float) -> float:
    """P(the largest absolute value of a Brownian bridge exceeds `distance`)."""
    if distance < 0.2:
        return 1.0
    series = math.fsum((-1) ** (k - 1) * math.exp(-2 * (k * distance) ** 2) for k in range(1, 101))
    return min(1.0, max(0.0, 2 * series))


def _without_trend(deviations: Sequence[float]) -> list[float]:
    middle = (len(deviations) - 1) / 2
    times = [index - middle for index in range(len(deviations))]
    slope = math.fsum(t * d for t, d in zip(times, deviations, strict=True)) / math.fsum(
        t * t for t in times
    )
    return [d - slope * t for t, d in zip(times, deviations, strict=True)]


def _long_run_variance(deviations: Sequence[float]) -> float:
    """Newey-West with Bartlett weights; lag n^(1/3)."""
    count = len(deviations)
    lags = int(count ** (1 / 3))
    variance = math.fsum(d * d for d in deviations) / count
    for lag in range(1, lags + 1):
        products = math.fsum(a * b for a, b in zip(deviations, deviations[lag:], strict=False))
        variance += 2 * (1 - lag / (lags + 1)) * products / count
    return variance


def _too_short(samples: Sequence[float]) -> SteadyState:
    reason = f"{len(samples)} samples are too few to tell: {MIN_SAMPLES} are needed"
    return _account(samples, 0, False, reason, None)


def _account(
    samples: Sequence[float], cut: int, steady: bool, reason: str, p: float | None
) -> SteadyState:
    kept = samples[cut:]
    outliers = tuple(
        Outlier(found.index + cut, found.value, found.score) for found in find_outliers(kept)
    )
    strange = {outlier.index for outlier in outliers}
    rest = [value for index, value in enumerate(kept, cut) if index not in strange]
    return SteadyState(
        samples=len(samples),
        warm_up_samples=cut,
        steady=steady,
        reason=reason,
        change_p=p,
        mean=statistics.fmean(kept) if kept else None,
        mean_without_outliers=statistics.fmean(rest) if rest else None,
        outliers=outliers,
        bands=find_bands(kept),
    )
