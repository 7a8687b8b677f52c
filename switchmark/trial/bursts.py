"""The resolution of a counted rate.

Traffic leaves in bursts, so each sample holds a whole number of them, and one burst more or less is
not a change of the rate. At 1,000 frames/s in bursts of 32, a sample of 80 ms holds two or three:
800 or 1,200 frames/s. Tests that compare samples, or a figure with a load, need this step.
"""

from __future__ import annotations

import math

from switchmark.model.rates import CONSTANT
from switchmark.model.trial import Trial

SCATTER = 3.1  # bound of the sample variance: chi-square with 9 degrees of freedom, 99.9 %


def burst_pps(trial: Trial, duration_ns: float, streams: int = 1) -> float:
    """Return the resolution of the summed rate of streams over this time, in frames/s: one burst of
    each stream."""
    return trial.burst * streams * 1e9 / duration_ns if duration_ns > 0 else 0.0


def burst_noise_pps(trial: Trial, duration_ns: float, mean_pps: float, streams: int) -> float:
    """Return the largest standard deviation that bursts alone give to samples of this length, in
    frames/s; `mean_pps` is the rate of all streams.

    A sample of a constant schedule has up to one burst more or less at either end, so its rate
    stays within two steps, and the deviation of such values is at most one step (Popoviciu 1935).
    The number of bursts of a Poisson schedule varies by its square root, and the variance of a few
    samples by chance up to `SCATTER` times that. Each stream has its own clock, so the variances
    add up."""
    step = burst_pps(trial, duration_ns)
    variance = streams * step**2
    if trial.schedule != CONSTANT:
        variance += SCATTER * step * mean_pps
    return math.sqrt(variance)
