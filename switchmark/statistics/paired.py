"""Two contenders compared by their blocks: the ratio of their figures with its interval.

Trials of one block ran within seconds of each other, so what disturbed one disturbed the
other: the difference of their logarithms is one observation, and nothing else is. The state of
the machine in which each of them ran is a covariate: with f the share of its time that a trial
was far, ln(a / b) = ratio + slowdown * (fa - fb). So a pair across states counts, too, and of a
host that moves the cores every second all blocks tell something. Random order in the block keeps
the covariate from being mistaken for the ratio. The fit is robust (robust.py), the interval
Student's t: one label in ten may be wrong (docs/evidence/proof.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.means import LEVEL, RESOLUTION
from switchmark.statistics.robust import robust_fit, usual_degrees
from switchmark.statistics.state_figures import HALF, StateFigure
from switchmark.statistics.states import State

# What is done, in the words that results print.
METHOD = (
    "pairs within a block, the machine's state of each a covariate, fitted to the logarithms by "
    "Huber's M-estimator, Student's t"
)
MIN_PAIRS = 5  # fewer do not tell their spread
STATES_DIFFER = 0.01  # p below which each state gets a ratio of its own
_LEAST_ACROSS = 2  # pairs across states that may tell a slowdown

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class LogRatio:
    """One block's observation of two contenders: ln(figure of a / figure of b).

    `far_a`, `far_b`: the share of their time that the machine was in its far state; None where it
    has one state."""

    block: int
    log_ratio: float
    far_a: float | None = None
    far_b: float | None = None


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """The ratio of two contenders' figures, a over b."""

    value: float
    low: float  # of the interval; never below 0
    high: float
    pairs: int
    log_error: float  # standard error of ln(value)
    degrees: float
    state: State | None = None  # None: of all states together

    def excludes(self, ratio: float) -> bool:
        """Whether the interval proves the ratio to be another than this one."""
        return not self.low <= ratio <= self.high


def pairs_of(
    trials: Sequence[BlockTrial], figures: Sequence[StateFigure | None], a: str, b: str
) -> list[LogRatio]:
    """The pairs of all blocks in which both contenders have a figure."""
    found: dict[int, dict[str, StateFigure]] = {}
    for trial, figure in zip(trials, figures, strict=True):
        if trial.contender in (a, b) and figure is not None:
            found.setdefault(trial.block, {})[trial.contender] = figure
    pairs = []
    for block, held in sorted(found.items()):
        if a not in held or b not in held:
            continue
        one, other = held[a], held[b]
        # A contender whose cores have one state takes the other's.
        far_a = other.far if one.far is None else one.far
        far_b = far_a if other.far is None else other.far
        pairs.append(LogRatio(block, math.log(one.figure / other.figure), far_a, far_b))
    return pairs


def ratio_of(pairs: Sequence[LogRatio], level: float = LEVEL) -> PairedRatio | None:
    """The ratio with its two-sided interval of confidence 1 - `level`, of all states together; None
    below five pairs.

    Few pairs across states cost more than they tell, since the slowdown has to be estimated, too:
    the pairs of one state alone are used where their interval must be narrower."""
    alike = [pair for pair in pairs if pair.far_a == pair.far_b]
    apart = len(pairs) - len(alike)
    columns = _columns(pairs)[:, :2]
    if apart >= _LEAST_ACROSS and _reach(columns, level) < _reach(_ones(len(alike)), level):
        return _ratio(pairs, columns, np.asarray([1.0, 0.0]), level)
    return _ratio(alike, _ones(len(alike)), np.ones(1), level)


def ratios_of(pairs: Sequence[LogRatio], level: float = LEVEL) -> list[PairedRatio]:
    """One ratio where the states agree, otherwise one for each state, whose intervals hold
    together.

    A state in which either contender ran in fewer than five blocks has no ratio of its own: its
    pairs are few among many in the common ratio, and left out beside ratios of states."""
    seen = states_of(pairs)
    judged_apart = len(seen) == 2 and all(_enough(pairs, far) for far in (0.0, 1.0))
    if judged_apart and states_differ_p(pairs) < STATES_DIFFER:
        sides = ((State.NEAR, -HALF), (State.FAR, HALF))
        columns = _columns(pairs)
        found = [
            _ratio(pairs, columns, np.asarray([1.0, 0.0, side]), level / 2, state)
            for state, side in sides
        ]
        return [ratio for ratio in found if ratio]
    ratio = ratio_of(pairs, level)
    return [replace(ratio, state=next(iter(seen)) if len(seen) == 1 else None)] if ratio else []


def states_of(pairs: Sequence[LogRatio]) -> set[State]:
    """The states of these pairs; empty where the machine has one state."""
    shares = {share for pair in pairs for share in (pair.far_a, pair.far_b)}
    return {state for state, far in ((State.NEAR, 0.0), (State.FAR, 1.0)) if far in shares}


def states_differ_p(pairs: Sequence[LogRatio]) -> float:
    """The p-value of equal ratios in both states; 1 where these pairs cannot tell."""
    from scipy.special import stdtr

    found = _estimate(pairs, _columns(pairs), np.asarray([0.0, 0.0, 1.0]))
    return float(2 * stdtr(found[2], -abs(found[0]) / found[1])) if found else 1.0


def _enough(pairs: Sequence[LogRatio], far: float) -> bool:
    """Whether both contenders ran in this state often enough."""
    sides = zip(*((pair.far_a == far, pair.far_b == far) for pair in pairs), strict=True)
    return all(sum(side) >= MIN_PAIRS for side in sides)


def _columns(pairs: Sequence[LogRatio]) -> Array:
    """The design: the ratio, the slowdown, and how much more one of them is slowed down."""
    far_a = np.asarray([pair.far_a or 0.0 for pair in pairs])
    far_b = np.asarray([pair.far_b or 0.0 for pair in pairs])
    return np.column_stack([np.ones(len(pairs)), far_a - far_b, (far_a + far_b) / 2 - HALF])


def _ones(count: int) -> Array:
    return np.ones((count, 1))


def _reach(design: Array, level: float) -> float:
    """Half the width that the interval of the first coefficient will have, where the observations
    deviate by 1. It depends on the design alone, so that choosing by it favours no ratio."""
    from scipy.special import stdtrit

    count, columns = design.shape
    degrees = usual_degrees(count, columns)
    if count < MIN_PAIRS or degrees <= 0 or np.linalg.matrix_rank(design) < columns:
        return math.inf
    variance = float(np.linalg.inv(design.T @ design)[0, 0])
    return float(stdtrit(degrees, 1 - level / 2)) * math.sqrt(variance)


def _estimate(
    pairs: Sequence[LogRatio], columns: Array, weights: Array
) -> tuple[float, float, float] | None:
    """A weighted sum of the coefficients, its standard error and the degrees of freedom.

    A column of zeros is left out: without pairs across states there is no slowdown."""
    used = columns.any(axis=0)
    if len(pairs) < MIN_PAIRS or np.any(weights[~used]):
        return None
    fit = robust_fit(columns[:, used], np.asarray([pair.log_ratio for pair in pairs]))
    if fit is None:
        return None
    value, error = fit.of(weights[used])
    least = RESOLUTION / math.sqrt(6 * len(pairs))  # equal readings prove no certainty
    return value, max(error, least), fit.degrees


def _ratio(
    pairs: Sequence[LogRatio],
    columns: Array,
    weights: Array,
    level: float,
    state: State | None = None,
) -> PairedRatio | None:
    """The ratio whose logarithm is this sum of coefficients."""
    from scipy.special import stdtrit

    found = _estimate(pairs, columns, weights)
    if found is None:
        return None
    mean, error, degrees = found
    half = float(stdtrit(degrees, 1 - level / 2)) * error
    low, high = math.exp(mean - half), math.exp(mean + half)
    return PairedRatio(math.exp(mean), low, high, len(pairs), error, degrees, state)
