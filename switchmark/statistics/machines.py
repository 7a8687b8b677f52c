"""Over several machines: the ratio of two contenders, how far machines differ in it, and what to
expect of one that was not measured.

Contenders are compared within a machine, where they ran in the same blocks; of these ratios the
machine is a random effect. The logarithms are weighted by 1 / (s² + tau²), where s is the error
within a machine and tau the deviation between machines (R. Paule and J. Mandel, J. Res. NBS 87,
1982). The interval of the mean is that of J. Hartung and G. Knapp (Stat. Med. 20, 2001; K. Sidik
and J. Jonkman, 2002), never narrower than the errors within machines allow (C. Röver, G. Knapp and
T. Friede, BMC Med. Res. Methodol. 15, 2015); that of tau is the Q-profile (W. Viechtbauer, Stat.
Med. 26, 2007). The prediction takes every tau by how far it is to be believed (K. Nagashima, H.
Noma and T. Furukawa, Stat. Methods Med. Res. 28, 2019): Higgins' interval, which takes one alone,
holds in as few as 88 % of cases where machines differ about as much as their ratios are uncertain.
Where the errors within machines are small, both are Student's t with one degree of freedom fewer
than machines. How often all of them hold: docs/evidence/machines.md.
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
MIN_TO_SPREAD = 3  # two differ, and that is all that is known of how far machines differ
_WIDEST = 5.0  # of tau: a factor of 148 between machines says no more than "anything"
_STEPS = 400  # of tau, by which predictions are reckoned
_FINITE_VARIANCE = 2.0  # degrees of freedom below which Student's t has none
Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class MachineSpread:
    """How far machines differ in a ratio: a factor, the deviation of its logarithm. 1: not at all;
    1.1: two machines in three are within 10 % of the mean."""

    factor: float
    low: float  # of the interval, 1 at least
    high: float


@dataclass(frozen=True, slots=True)
class RatioOverMachines:
    """The mean ratio of two contenders over machines, a over b."""

    value: float
    low: float  # of the interval; above 0
    high: float
    machines: int
    spread: MachineSpread | None  # None: two machines cannot tell
    predicted_low: float | None  # of the ratio on one more machine of the kind; None likewise
    predicted_high: float | None

    def excludes(self, ratio: float) -> bool:
        """Whether the interval proves the mean to be another than this."""
        return not self.low <= ratio <= self.high


def over_machines(ratios: Sequence[PairedRatio]) -> RatioOverMachines | None:
    """Combine the ratios of machines, one of each, with intervals of 95 %; None for a single
    machine."""
    if len(ratios) < MIN_MACHINES:
        return None
    from scipy.special import stdtrit

    logs = np.asarray([math.log(one.value) for one in ratios])
    variances = np.asarray([_variance(one) for one in ratios])
    tau = math.sqrt(between(logs, variances))
    mean, error = mean_of(logs, variances, tau**2)
    reach = float(stdtrit(len(ratios) - 1, 1 - LEVEL / 2))
    spread = predicted = None
    if len(ratios) >= MIN_TO_SPREAD:
        low, high = (math.sqrt(one) for one in q_profile(logs, variances, LEVEL))
        spread = MachineSpread(math.exp(tau), math.exp(low), math.exp(high))
        # (where few ratios agree by luck, the mean itself is no surer than its interval)
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
    """The variance between machines at which the weighted squares have their expectation: the
    number of machines, less one."""
    return _where(logs, variances, logs.size - 1)


def q_profile(logs: Array, variances: Array, level: float) -> tuple[float, float]:
    """The interval of the variance between machines."""
    from scipy.special import chdtri

    few, many = (float(chdtri(logs.size - 1, p)) for p in (1 - level / 2, level / 2))
    return _where(logs, variances, many), _where(logs, variances, few)


def mean_of(logs: Array, variances: Array, between_machines: float) -> tuple[float, float]:
    """The weighted mean of logarithms and its standard error."""
    weights = 1 / (variances + between_machines)
    mean = float(weights @ logs / weights.sum())
    scatter = float(weights @ (logs - mean) ** 2) / (logs.size - 1)
    return mean, math.sqrt(max(1.0, scatter) / float(weights.sum()))


def prediction(logs: Array, variances: Array, level: float) -> float:
    """How far the logarithm of the true ratio on one more machine may be from the mean's.

    A tau has the weight of the chance of squares as large as its own or larger; given it, one more
    machine deviates normally, by tau and the error of the mean."""
    from scipy.optimize import brentq
    from scipy.special import chdtrc, erf

    taus = np.concatenate([[0.0], np.geomspace(1e-5, _WIDEST, _STEPS)])
    weights = 1 / (variances + taus[:, np.newaxis] ** 2)
    means = weights @ logs / weights.sum(axis=1)
    squares = (weights * (logs - means[:, np.newaxis]) ** 2).sum(axis=1)
    believed = np.diff(chdtrc(logs.size - 1, squares), prepend=0.0)
    believed[-1] += 1 - believed.sum()
    deviations = np.sqrt(2 * (taus**2 + 1 / weights.sum(axis=1)))
    deviations[1:] = (deviations[1:] + deviations[:-1]) / 2  # of the taus between two steps

    def beyond(reach: float) -> float:
        return float(believed @ erf(reach / deviations)) - (1 - level)

    return float(brentq(beyond, 0.0, 100 * _WIDEST))


def _where(logs: Array, variances: Array, squares: float) -> float:
    """The variance between machines at which the weighted squares have this sum; they fall as it
    grows."""

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
    """The variance of Student's t with the ratio's degrees of freedom: an error that is known from
    few pairs counts as larger, so that it weighs less."""
    degrees = max(ratio.degrees, _FINITE_VARIANCE + 1)
    return ratio.log_error**2 * degrees / (degrees - 2)
