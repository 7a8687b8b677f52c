"""Steady state of a series: warm-up, changes of the mean, and outliers, by published tests.

A series has samples at equal intervals (a trial's forwarded rate) or one figure for each
repetition. No sample is dropped here. The result states which samples should be used for a figure,
and describes the others.

* warm-up: MSER-5 (K. P. White, "An effective truncation heuristic for bias reduction in simulation
  output", Simulation 69, 1997), with batches below 5 for series below 100;
* steady: the CUSUM test for one change of the mean, its variance corrected for correlated samples
  (W. K. Newey, K. D. West, Econometrica 55, 1987), at `ALPHA`;
* outliers: the modified z-score (B. Iglewicz, D. C. Hoaglin, 1993).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from switchmark.statistics.outliers import TWO_BANDS, Outlier, find_outliers
from switchmark.statistics.two_bands import STEPS_AT_ENDS, Bands, find_bands

MSER_BATCH = 5
MIN_SAMPLES = 20
ALPHA = 0.01
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """The result for one series. Values are in the unit of the samples."""

    samples: int
    warm_up_samples: int  # samples to leave out at the start
    steady: bool
    reason: str  # one sentence
    change_p: float | None  # result of the CUSUM test over the kept samples; None: not testable
    mean: float | None  # over the kept samples, outliers included
    mean_without_outliers: float | None
    outliers: tuple[Outlier, ...]  # indices count from the start of the series
    bands: Bands | None  # set if the kept samples fall into two bands

    @property
    def policy(self) -> str:
        """The rule that determined the kept window, for the record."""
        left_out = f"first {self.warm_up_samples} of {self.samples} samples left out"
        return f"MSER-{batch_size(self.samples)}: {left_out}"


def detect(samples: Sequence[float], step: float = 0.0) -> SteadyState:
    """Find the warm-up, then test the other samples. `step` is the step in which samples move, for
    counts in bursts: differences of the size of bursts are not a change."""
    is_long = len(samples) >= MIN_SAMPLES
    warm_up = find_warm_up(samples, step) if is_long else None
    cut = warm_up or 0
    steady_samples = samples[cut:]
    p = None if warm_up is None else change_p(steady_samples, step)
    bands = find_bands(steady_samples, step)
    if not is_long:
        reason = f"{len(samples)} samples are too few for a test, which needs {MIN_SAMPLES}"
    elif p is None:
        reason = "no steady part, because the warm-up takes half of the trial or more"
    elif bands is not None:
        reason = f"{TWO_BANDS} {bands.describe()}"
    elif p < ALPHA:
        reason = f"the mean changes within the run (CUSUM, p {p:.2g})"
    else:
        reason = f"steady after {cut} samples (CUSUM, p {p:.2g})"
    outliers = tuple(
        replace(outlier, index=outlier.index + cut)
        for outlier in find_outliers(steady_samples, step)
    )
    strange = {outlier.index for outlier in outliers}
    rest = [value for index, value in enumerate(steady_samples, cut) if index not in strange]
    return SteadyState(
        samples=len(samples),
        warm_up_samples=cut,
        steady=bands is None and p is not None and p >= ALPHA,
        reason=reason,
        change_p=p,
        mean=statistics.fmean(steady_samples) if steady_samples else None,
        mean_without_outliers=statistics.fmean(rest) if rest else None,
        outliers=outliers,
        bands=bands,
    )


def find_warm_up(samples: Sequence[float], step: float = 0.0) -> int | None:
    """Return the number of samples to leave out at the start; None if it is half of the run or
    more.

    This is the cut in the first half after which the standard error of the mean is smallest, over
    means of `batch_size` samples. Samples within the steps of bursts have no warm-up."""
    if max(samples) - min(samples) <= STEPS_AT_ENDS * step:
        return 0
    batch = batch_size(len(samples))
    count = len(samples) // batch
    means = _from_the_first(samples[: count * batch]).reshape(count, batch).mean(axis=1)
    means -= means.mean()
    cuts = np.arange(count // 2 + 1)
    left = count - cuts
    totals, squares = (np.cumsum(v[::-1])[::-1][cuts] for v in (means, means**2))
    errors = np.maximum(0, squares - totals**2 / left) / left**2
    best = int(errors.argmin())
    return None if best >= count // 2 else best * batch


def batch_size(count: int) -> int:
    """Return the batch size: 5 as published; smaller for short series, so that there are enough
    batches."""
    return max(1, min(MSER_BATCH, count // MIN_SAMPLES))


def change_p(samples: Sequence[float], step: float = 0.0) -> float:
    """Return the p-value of a constant mean (CUSUM, Brownian-bridge limit).

    The statistic is the largest distance of the cumulative sum from a straight line, divided by the
    long-run standard deviation. The trend is removed from this deviation, because a drift must not
    hide in it. Counts in steps of constant distance hardly vary in the long run, so a sum within
    the steps at its ends is not a change."""
    from scipy.special import kolmogorov

    deviations = _from_the_first(samples)
    deviations -= deviations.mean()
    times = np.arange(deviations.size)
    trend = np.polyval(np.polyfit(times, deviations, 1), times)
    scale = _long_run_variance(deviations - trend)
    if scale <= 0:
        return 1.0
    largest = float(np.abs(deviations.cumsum()).max())
    if largest <= STEPS_AT_ENDS * step:
        return 1.0
    return float(kolmogorov(largest / math.sqrt(scale * deviations.size)))


def _from_the_first(samples: Sequence[float]) -> Array:
    """Return the samples minus the first. Equal samples give exactly 0, while a rounded mean would
    leave a spread that looks like a change."""
    return np.asarray(samples, float) - samples[0]


def _long_run_variance(deviations: Array) -> float:
    """Return the long-run variance by Newey and West with Bartlett weights; lag n^(1/3)."""
    count = deviations.size
    lags = int(count ** (1 / 3))
    products = [float(deviations[lag:] @ deviations[: count - lag]) for lag in range(lags + 1)]
    weights = [1.0, *(2 * (1 - lag / (lags + 1)) for lag in range(1, lags + 1))]
    return math.fsum(w * p for w, p in zip(weights, products, strict=True)) / count
