"""Two contenders compared by their blocks: the ratio of their figures with its interval.

Trials of one block ran within seconds of each other, so what disturbed one disturbed the
other: the difference of their logarithms is one observation, and nothing else is. A pair
needs both trials, in the same state of the machine. The estimate is exp of the 20 % trimmed
mean of the differences, the interval Student's t on their winsorized deviation (J. Tukey and
D. McLaughlin, Sankhya A 25, 1963; K. Yuen, Biometrika 61, 1974): of the robust estimators it
is the one that keeps its power when one label in ten is wrong (docs/proof.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.states import State

TRIM = 0.2  # of the pairs at either end
RESOLUTION = 0.001  # of a figure: histograms keep three significant digits
DEGREES = 0.8  # of Yuen's h - 1, which are up to twice too liberal at levels of 0.5 %: for normal
# values, 5 to 60 of them and levels from 5 to 0.02 %, simulation finds 0.8 (tests)
MIN_PAIRS = 5  # with fewer nothing is trimmed
STATES_DIFFER = 0.01  # p below which each state gets a ratio of its own


@dataclass(frozen=True, slots=True)
class LogRatio:
    """What one block says of two contenders: ln(figure of a / figure of b)."""

    block: int
    log_ratio: float
    state: State


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
    trials: Sequence[BlockTrial], states: Sequence[State], a: str, b: str
) -> list[LogRatio]:
    """The pairs of all blocks in which both contenders have a figure in the same state."""
    found: dict[int, dict[str, tuple[float, State]]] = {}
    for trial, state in zip(trials, states, strict=True):
        is_asked = trial.contender in (a, b) and state is not State.CHANGED
        if is_asked and trial.figure is not None and trial.figure > 0:
            found.setdefault(trial.block, {})[trial.contender] = (trial.figure, state)
    pairs = []
    for block, held in sorted(found.items()):
        if a not in held or b not in held:
            continue
        common = {held[a][1], held[b][1]} - {State.ONLY} or {State.ONLY}
        if len(common) == 1:  # a contender whose cores have one state takes the other's
            pairs.append(LogRatio(block, math.log(held[a][0] / held[b][0]), common.pop()))
    return pairs


def ratio_of(
    pairs: Sequence[LogRatio], level: float = 0.05, state: State | None = None
) -> PairedRatio | None:
    """The ratio with its two-sided interval of confidence 1 - `level`; None below five pairs."""
    if len(pairs) < MIN_PAIRS:
        return None
    from scipy.special import stdtrit

    logs = np.sort(np.asarray([pair.log_ratio for pair in pairs]))
    mean, error, degrees = trimmed_mean(logs)
    error = max(error, RESOLUTION / math.sqrt(6 * logs.size))  # equal readings prove no certainty
    half = float(stdtrit(degrees, 1 - level / 2)) * error
    low, high = math.exp(mean - half), math.exp(mean + half)
    return PairedRatio(math.exp(mean), low, high, len(pairs), error, degrees, state)


def ratios_of(pairs: Sequence[LogRatio], level: float = 0.05) -> list[PairedRatio]:
    """One ratio where the states agree, otherwise one a state, whose intervals hold together.

    A state with fewer than five pairs tells nothing of its own: its pairs are few among many
    in the common ratio, and left out beside ratios of states."""
    groups = _by_state(pairs)
    enough = {state: held for state, held in groups.items() if len(held) >= MIN_PAIRS}
    if len(enough) < 2 or heterogeneity_p(enough) >= STATES_DIFFER:
        state = next(iter(groups)) if len(groups) == 1 else None
        return [ratio for ratio in [ratio_of(pairs, level, state)] if ratio]
    ratios = [ratio_of(held, level / len(enough), state) for state, held in enough.items()]
    return [ratio for ratio in ratios if ratio]


def heterogeneity_p(groups: Mapping[State, Sequence[LogRatio]]) -> float:
    """p that all states have the same ratio (Yuen's test, Bonferroni where there are more than
    two states)."""
    from scipy.stats import ttest_ind

    logs = [np.asarray([pair.log_ratio for pair in held]) for held in groups.values()]
    tests = [
        float(ttest_ind(a, b, equal_var=False, trim=TRIM).pvalue)
        for place, a in enumerate(logs)
        for b in logs[:place]
    ]
    usable = [p for p in tests if not math.isnan(p)]
    return min(1.0, min(usable) * len(tests)) if usable else 1.0


def trimmed_mean(ordered: NDArray[np.floating[Any]]) -> tuple[float, float, float]:
    """Mean, its standard error and degrees of freedom, from sorted values."""
    cut = int(TRIM * ordered.size)
    kept = ordered[cut : ordered.size - cut]
    winsorized = np.clip(ordered, kept[0], kept[-1])
    error = float(winsorized.std(ddof=1)) * math.sqrt(ordered.size) / kept.size
    return float(kept.mean()), error, DEGREES * (kept.size - 1)


def _by_state(pairs: Sequence[LogRatio]) -> dict[State, list[LogRatio]]:
    groups: dict[State, list[LogRatio]] = {}
    for pair in pairs:
        groups.setdefault(pair.state, []).append(pair)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))
