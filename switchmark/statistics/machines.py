"""Ratios over several machines: the mean ratio of two contenders, its variation between machines,
and the expected ratio on a machine that was not measured.

Contenders are compared within a machine, where they ran in the same blocks. The machine is a random
effect on these ratios. The logarithms are weighted by 1 / (s² + tau²), where s is the error within
a machine and tau the deviation between machines (R. Paule and J. Mandel, J. Res. NBS 87, 1982). The
interval of the mean is that of J. Hartung and G. Knapp (Stat. Med. 20, 2001; K. Sidik and J.
Jonkman, 2002), never narrower than the errors within machines permit (C. Röver, G. Knapp and T.
Friede, BMC Med. Res. Methodol. 15, 2015). The interval of tau is the Q-profile (W. Viechtbauer,
Stat. Med. 26, 2007). The prediction weights each tau by its probability (K. Nagashima, H. Noma and
T. Furukawa, Stat. Methods Med. Res. 28, 2019). Higgins' interval, which uses a single tau, holds in
only 88 % of cases if machines differ about as much as their ratios are uncertain. If the errors
within machines are small, both intervals are Student's t with one degree of freedom less than
machines. docs/evidence/machines.md shows how often all of them hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmark.statistics.means import LEVEL
from switchmark.statistics.paired import PairedRatio

MIN_MACHINES = 2  # for a mean with an interval
MIN_TO_SPREAD = 3  # two machines do not show how far machines differ
_WIDEST = 5.0  # largest tau, a factor of 148 between machines
_STEPS = 400  # values of tau in a prediction
_FINITE_VARIANCE = 2.0  # Student's t has a finite variance above this number of degrees of freedom
Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class MachineSpread:
    """The variation of a ratio between machines: a factor, from the deviation of its logarithm. 1:
    none; 1.1: two machines of three are within 10 % of the mean."""

    factor: float
    low: float  # interval of the factor, at least 1
    high: float


@dataclass(frozen=True, slots=True)
class RatioOverMachines:
    """The mean ratio of two contenders over machines, a over b."""

    value: float
    low: float  # interval of the mean; above 0
    high: float
    machines: int
    spread: MachineSpread | None  # None: only two machines
    predicted_low: float | None  # ratio on another such machine; None: only two machines
    predicted_high: float | None

    def excludes(self, ratio: float) -> bool:
        """Return True if the interval proves that the mean differs from this ratio."""
        return not self.low <= ratio <= self.high


def over_machines(ratios: Sequence[PairedRatio]) -> RatioOverMachines | None:
    """Combine the ratios of machines, one of each, with intervals of 95 %; None for a single
    machine."""
    if len(ratios) < MIN_MACHINES:
        return None
    from scipy.special import stdtrit

    logs = np.asarray([math.log(ratio.value) for ratio in ratios])
    variances = np.asarray([_variance(ratio) for ratio in ratios])
    tau = math.sqrt(between(logs, variances))
    mean, error = mean_of(logs, variances, tau**2)
    reach = float(stdtrit(len(ratios) - 1, 1 - LEVEL / 2))
    spread = predicted = None
    if len(ratios) >= MIN_TO_SPREAD:
        low, high = (math.sqrt(ratio) for ratio in q_profile(logs, variances, LEVEL))
        spread = MachineSpread(math.exp(tau), math.exp(low), math.exp(high))
        # If few ratios agree by chance, the prediction must not be narrower than the interval of
        # the mean.
        predicted = max(prediction(logs, variances, LEVEL), reach * error)
    return RatioOverMachines(
        value=math.exp(mean),
        low=math.exp(mean - reach * error),
        high=math.exp(mean + reach * error),
        machines=len(ratios),
        spread=spread,
        predicted_low=None if predicted is None else math.exp(mean - predicted),
        predicted_high=None if predicted is None else math.exp(mean + predicted),
    )


def between(logs: Array, variances: Array) -> float:
    """Return the variance between machines at which the weighted squares have their expected value,
    the number of machines minus one."""
    return _where(logs, variances, logs.size - 1)


def q_profile(logs: Array, variances: Array, level: float) -> tuple[float, float]:
    """Return the interval of the variance between machines."""
    from scipy.special import chdtri

    few, many = (float(chdtri(logs.size - 1, p)) for p in (1 - level / 2, level / 2))
    return _where(logs, variances, many), _where(logs, variances, few)


def mean_of(logs: Array, variances: Array, between_machines: float) -> tuple[float, float]:
    """Return the weighted mean of logarithms and its standard error."""
    weights = 1 / (variances + between_machines)
    mean = float(weights @ logs / weights.sum())
    scatter = float(weights @ (logs - mean) ** 2) / (logs.size - 1)
    return mean, math.sqrt(max(1.0, scatter) / float(weights.sum()))


def prediction(logs: Array, variances: Array, level: float) -> float:
    """Return the distance from the mean within which the logarithm of the true ratio on another
    machine is expected.

    The weight of a tau is the probability of weighted squares that are at least as large as with
    this tau. Given tau, the ratio on another machine has a normal distribution, with the deviation
    tau and the error of the mean."""
    from scipy.optimize import brentq
    from scipy.special import chdtrc, erf

    taus = np.concatenate([[0.0], np.geomspace(1e-5, _WIDEST, _STEPS)])
    weights = 1 / (variances + taus[:, np.newaxis] ** 2)
    means = weights @ logs / weights.sum(axis=1)
    squares = (weights * (logs - means[:, np.newaxis]) ** 2).sum(axis=1)
    probabilities = np.diff(chdtrc(logs.size - 1, squares), prepend=0.0)
    probabilities[-1] += 1 - probabilities.sum()
    deviations = np.sqrt(2 * (taus**2 + 1 / weights.sum(axis=1)))
    deviations[1:] = (deviations[1:] + deviations[:-1]) / 2  # mean deviation between two steps

    def beyond(reach: float) -> float:
        return float(probabilities @ erf(reach / deviations)) - (1 - level)

    return float(brentq(beyond, 0.0, 100 * _WIDEST))


def _where(logs: Array, variances: Array, squares: float) -> float:
    """Return the variance between machines at which the weighted squares have this sum; the sum
    falls as the variance grows."""

    def beyond(tau: float) -> float:
        weights = 1 / (variances + tau**2)
        mean = weights @ logs / weights.sum()
        return float(weights @ (logs - mean) ** 2) - squares

    if beyond(0.0) <= 0:
        return 0.0
    if beyond(_WIDEST) >= 0:
        return _WIDEST**2
    from scipy.optimize import brentq

    return float(brentq(beyond, 0.0, _WIDEST)) ** 2


def _variance(ratio: PairedRatio) -> float:
    """Return the variance of Student's t with the ratio's degrees of freedom, so that an error from
    few pairs is larger and has less weight."""
    degrees = max(ratio.degrees, _FINITE_VARIANCE + 1)
    return ratio.log_error**2 * degrees / (degrees - 2)
