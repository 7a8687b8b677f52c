"""Compares two contenders by their blocks: the ratio of their figures with its interval.

Trials of one block run within seconds of each other, so a disturbance of one also disturbs the
other. The difference of their logarithms is one observation. The state of the machine in each
trial is a covariate: if f is the share of its time that a trial ran in the slow state, then
ln(a / b) = ratio + slowdown * (fa - fb). Pairs of trials in different states are therefore used,
and each block has information even if a hypervisor moves the cores every second. The random order
in a block keeps the covariate apart from the ratio. The fit is robust (robust.py) and the interval
is Student's t; one state in ten may be wrong (docs/evidence/proof.md). Three or four pairs are too
few for a robust fit and get Student's t of their logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.means import LEVEL, RESOLUTION, WIDEST
from switchmark.statistics.robust import robust_fit, usual_degrees
from switchmark.statistics.states import HALF, State, StateFigure

# The text that results print about the method.
METHOD = (
    "pairs of trials in one block; the state of the machine is a covariate; robust fit of the "
    "logarithms (Huber's M-estimator); interval by Student's t"
)
FEWEST_PAIRS = 3  # two pairs may agree by chance
MIN_PAIRS = 5  # for a robust fit
STATES_DIFFER = 0.01  # p below which each state gets its own ratio
_LEAST_ACROSS = 2  # pairs across states, from which a slowdown can be estimated

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class LogRatio:
    """One block's observation of two contenders: ln(figure of a / figure of b).

    `slow_a`, `slow_b`: the share of their time that the machine was in its slow state; None if the
    machine has one state."""

    block: int
    log_ratio: float
    slow_a: float | None = None
    slow_b: float | None = None


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """The ratio of the figures of two contenders, a over b."""

    value: float
    low: float  # lower end of the interval, at least 0
    high: float
    pairs: int
    log_error: float  # standard error of ln(value)
    degrees: float
    state: State | None = None  # None: of all states together

    def excludes(self, ratio: float) -> bool:
        """Return True if the interval excludes this ratio."""
        return not self.low <= ratio <= self.high


def pairs_of(
    trials: Sequence[BlockTrial], figures: Sequence[StateFigure | None], a: str, b: str
) -> list[LogRatio]:
    """Return the pairs of all blocks in which both contenders have a figure."""
    by_block: dict[int, dict[str, StateFigure]] = {}
    for trial, figure in zip(trials, figures, strict=True):
        if trial.contender in (a, b) and figure is not None:
            by_block.setdefault(trial.block, {})[trial.contender] = figure
    pairs = []
    for block, of_block in sorted(by_block.items()):
        if a not in of_block or b not in of_block:
            continue
        figure_a, figure_b = of_block[a], of_block[b]
        # If the cores of a contender have one state, the state of the other contender counts.
        slow_a = figure_b.slow if figure_a.slow is None else figure_a.slow
        slow_b = slow_a if figure_b.slow is None else figure_b.slow
        pairs.append(LogRatio(block, math.log(figure_a.figure / figure_b.figure), slow_a, slow_b))
    return pairs


def ratio_of(pairs: Sequence[LogRatio], level: float = LEVEL) -> PairedRatio | None:
    """Return the ratio with its two-sided interval of confidence 1 - `level`, for all states
    together; None below three pairs.

    Pairs across states require an estimate of the slowdown, which widens the interval. The pairs
    within one state are used alone if their interval must be narrower."""
    alike = [pair for pair in pairs if pair.slow_a == pair.slow_b]
    apart = len(pairs) - len(alike)
    columns = _columns(pairs)[:, :2]
    if apart >= _LEAST_ACROSS and _reach(columns, level) < _reach(_ones(len(alike)), level):
        return _ratio(pairs, columns, np.asarray([1.0, 0.0]), level)
    return _ratio(alike, _ones(len(alike)), np.ones(1), level)


def ratios_of(pairs: Sequence[LogRatio], level: float = LEVEL) -> list[PairedRatio]:
    """Return one ratio if the states agree, otherwise one for each state, whose intervals hold
    together.

    A state in which either contender ran in fewer than five blocks gets no ratio: its few pairs
    are part of the common ratio, and are left out if states have separate ratios."""
    states = states_of(pairs)
    judged_apart = len(states) == 2 and all(_enough(pairs, slow) for slow in (0.0, 1.0))
    if judged_apart and states_differ_p(pairs) < STATES_DIFFER:
        sides = ((State.FAST, -HALF), (State.SLOW, HALF))
        columns = _columns(pairs)
        found = [
            _ratio(pairs, columns, np.asarray([1.0, 0.0, side]), level / 2, state)
            for state, side in sides
        ]
        return [ratio for ratio in found if ratio]
    ratio = ratio_of(pairs, level)
    return [replace(ratio, state=next(iter(states)) if len(states) == 1 else None)] if ratio else []


def states_of(pairs: Sequence[LogRatio]) -> set[State]:
    """Return the states of these pairs; empty if the machine has one state."""
    shares = {share for pair in pairs for share in (pair.slow_a, pair.slow_b)}
    return {state for state, slow in ((State.FAST, 0.0), (State.SLOW, 1.0)) if slow in shares}


def states_differ_p(pairs: Sequence[LogRatio]) -> float:
    """Return the p-value of equal ratios in both states; 1 if these pairs do not determine it."""
    from scipy.special import stdtr

    found = _estimate(pairs, _columns(pairs), np.asarray([0.0, 0.0, 1.0]))
    return float(2 * stdtr(found[2], -abs(found[0]) / found[1])) if found else 1.0


def _enough(pairs: Sequence[LogRatio], slow: float) -> bool:
    """Return True if both contenders ran in this state often enough."""
    sides = zip(*((pair.slow_a == slow, pair.slow_b == slow) for pair in pairs), strict=True)
    return all(sum(side) >= MIN_PAIRS for side in sides)


def _columns(pairs: Sequence[LogRatio]) -> Array:
    """Return the design matrix: the ratio, the slowdown, and the difference of the slowdowns."""
    slow_a = np.asarray([pair.slow_a or 0.0 for pair in pairs])
    slow_b = np.asarray([pair.slow_b or 0.0 for pair in pairs])
    return np.column_stack([np.ones(len(pairs)), slow_a - slow_b, (slow_a + slow_b) / 2 - HALF])


def _ones(count: int) -> Array:
    return np.ones((count, 1))


def _reach(design: Array, level: float) -> float:
    """Return half the width of the interval of the first coefficient, for observations with a
    deviation of 1. It depends on the design alone, so a choice by it favours no ratio."""
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
    """Return a weighted sum of the coefficients, its standard error and the degrees of freedom.

    A column of zeros is left out: without pairs across states there is no slowdown."""
    used = columns.any(axis=0)
    values = np.asarray([pair.log_ratio for pair in pairs])
    if np.any(weights[~used]):
        return None
    if columns.shape[1] == 1 and FEWEST_PAIRS <= len(pairs) < MIN_PAIRS:
        value, degrees = float(values.mean()), float(len(pairs) - 1)
        error = float(values.std(ddof=1)) / math.sqrt(len(pairs))
    elif len(pairs) >= MIN_PAIRS and (fit := robust_fit(columns[:, used], values)) is not None:
        (value, error), degrees = fit.of(weights[used]), fit.degrees
    else:
        return None
    least = RESOLUTION / math.sqrt(6 * len(pairs))  # equal readings do not prove equality
    return value, max(error, least), degrees


def _ratio(
    pairs: Sequence[LogRatio],
    columns: Array,
    weights: Array,
    level: float,
    state: State | None = None,
) -> PairedRatio | None:
    """Return the ratio whose logarithm is this sum of coefficients; None if the pairs do not
    determine it."""
    from scipy.special import stdtrit

    found = _estimate(pairs, columns, weights)
    if found is None:
        return None
    mean, error, degrees = found
    half = float(stdtrit(degrees, 1 - level / 2)) * error
    # At a strict level few pairs have a quantile of many thousands, and e^half could overflow.
    if not half <= WIDEST:
        return None
    low, high = math.exp(mean - half), math.exp(mean + half)
    return PairedRatio(math.exp(mean), low, high, len(pairs), error, degrees, state)
