"""The state of the machine around each trial: near, far, or changed while it ran.

A host moves virtual cores, and a cache line between two of them then takes 150 ns instead of
30; rates follow it. The line times of a whole campaign are split into two groups where there
are two (two_bands.py), and the groups are believed only when they are far
apart in their own spread (Ashman's D; K. Ashman, C. Bird, S. Zepf, Astronomical Journal 108,
1994) and differ by a factor that matters. A change *within* a trial shows as lines that
differ before and after it, or as a stretch of its samples at another level (the statistic of
circular binary segmentation; A. Olshen et al., Biostatistics 5, 2004).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.robust import DEVIATION
from switchmark.statistics.two_bands import best_split

LEAST_FACTOR = 1.5  # between the line times of two states
LEAST_DISTANCE = 4.0  # Ashman's D; halves of one broad group reach 3 at most
LEAST_SPREAD = 0.02  # of ln(line): a clock's resolution must not look like certainty
STEP_LEVEL = 0.05  # trials in which the machine held still and that are called changed, at most
LEAST_STEP = math.log(1.25)  # smaller steps are noise, or cost less than the trial is worth
# Variance of a stretch's mean over that of independent samples: (1 + r) / (1 - r) for a lag-1
# correlation r of 0.5; samples of a trial are alike, and few tell how much.
CORRELATION = 3.0


class State(StrEnum):
    """The state of the machine during a trial."""

    ONLY = "only"  # the machine has one state, or the cores cannot be told apart
    NEAR = "near"  # cache lines take the shorter time
    FAR = "far"
    CHANGED = "changed"  # while the trial ran: it belongs to neither state (state_figures.py)


@dataclass(frozen=True, slots=True)
class LineTimes:
    """The two levels of a cache line's time that a campaign has seen."""

    near_ns: float  # medians
    far_ns: float
    border_ns: float  # geometric mean of the nearest of both groups


def find_states(lines_ns: Iterable[float]) -> LineTimes | None:
    """The two states that the line times show; None when they show one."""
    logs = np.sort(np.log(np.fromiter(lines_ns, float)))
    if logs.size < 4:
        return None
    split, _ = best_split(logs)
    near, far = logs[:split], logs[split:]
    if min(near.size, far.size) < 2:
        return None
    gap = float(np.median(far) - np.median(near))
    distance = math.sqrt(2) * gap / math.hypot(_spread(near), _spread(far))
    if gap < math.log(LEAST_FACTOR) or distance < LEAST_DISTANCE:
        return None
    near_ns, far_ns = (math.exp(float(np.median(group))) for group in (near, far))
    border_ns = math.exp(float(near[-1] + far[0]) / 2)
    return LineTimes(near_ns, far_ns, border_ns)


def label(trials: Sequence[BlockTrial]) -> list[State]:
    """The state of each trial, from the lines of all between the same cores and its own samples.

    Where all these lines agree the machine has one state, and steps are the contender's own."""
    return [state for state, _ in label_with_levels(trials)]


def label_with_levels(trials: Sequence[BlockTrial]) -> list[tuple[State, LineTimes | None]]:
    """The state of each trial, and the two levels of its lines."""
    levels = levels_of(trials)
    read = {trial.contender for trial in trials if lines_of(trial)}
    return [
        (_label(trial, levels[trial.cores], trial.contender in read), levels[trial.cores])
        for trial in trials
    ]


def levels_of(trials: Iterable[BlockTrial]) -> dict[str, LineTimes | None]:
    """The two levels of the lines between the same cores, by cores; None where there is one."""
    groups: dict[str, list[BlockTrial]] = {}
    for trial in trials:
        groups.setdefault(trial.cores, []).append(trial)
    return {cores: _states_of(held) for cores, held in groups.items()}


def _states_of(trials: Sequence[BlockTrial]) -> LineTimes | None:
    """The levels that are states of the machine. Levels of which no contender has seen both follow
    from where the contenders' cores are."""
    lines = find_states(line for trial in trials for line in lines_of(trial))
    if lines is None:
        return None
    seen: dict[str, set[bool]] = {}
    for trial in trials:
        sides = {line > lines.border_ns for line in lines_of(trial)}
        seen.setdefault(trial.contender, set()).update(sides)
    return lines if any(len(sides) > 1 for sides in seen.values()) else None


def _label(trial: BlockTrial, lines: LineTimes | None, is_read: bool) -> State:
    """The label of a trial. `is_read`: lines of this contender can be read, so a trial without any
    is of no state."""
    if lines is None:
        return State.CHANGED if not is_read and step_of(trial.samples) else State.ONLY
    sides = {line > lines.border_ns for line in lines_of(trial)}
    if len(sides) > 1 or step_of(trial.samples) or (is_read and not sides):
        return State.CHANGED
    if not sides:
        return State.ONLY
    return State.FAR if sides.pop() else State.NEAR


@lru_cache(maxsize=8192)  # every look at a campaign asks again about all its trials
def step_of(samples: tuple[float, ...]) -> tuple[int, int] | None:
    """Begin and end of the stretch of the samples (positive) that lies at another level than the
    rest; None where none does. Where a stretch reaches the end, the rest is given instead.

    The largest t between any stretch and the rest, against Student's t over the number of stretches
    (Bonferroni): exact enough for the 5 to 20 samples of a short trial."""
    if len(samples) < 4 or min(samples) <= 0:
        return None
    logs = np.log(np.asarray(samples, float))
    count = logs.size
    # (One that reaches the end is the complement of one that begins at the start.)
    first, last = np.triu_indices(count, 1)
    sums = np.concatenate([[0.0], np.cumsum(logs - logs.mean())])
    inside = sums[last] - sums[first]
    size = last - first
    step = inside / size + inside / (count - size)
    squares = float(logs.var() * count)
    between = inside**2 * (1 / size + 1 / (count - size))
    place = int(np.argmax(between))
    if abs(step[place]) < LEAST_STEP:
        return None
    within = max(squares - float(between[place]), 1e-12 * squares)
    if between[place] / within * (count - 2) <= CORRELATION * _critical_t(count) ** 2:
        return None
    return int(first[place]), int(last[place])


@dataclass(frozen=True, slots=True)
class Watched:
    """The states of a machine while its cache lines were watched."""

    lines: LineTimes | None  # None: one state
    line_ns: float  # median of all readings
    watched_s: float
    changes: int

    @property
    def dwell_s(self) -> float | None:
        """The mean time between changes in seconds; None when none was seen."""
        return self.watched_s / self.changes if self.changes else None


def watch(times_s: Sequence[float], lines_ns: Sequence[float]) -> Watched:
    """Summarise readings of a cache line's time over some seconds. Raises ValueError without
    any."""
    if not lines_ns or len(times_s) != len(lines_ns):
        raise ValueError("as many times as readings are needed, at least one")
    lines = find_states(lines_ns)
    sides = [lines is not None and line > lines.border_ns for line in lines_ns]
    changes = sum(a != b for a, b in pairwise(sides))
    return Watched(lines, float(np.median(lines_ns)), times_s[-1] - times_s[0], changes)


def lines_of(trial: BlockTrial) -> list[float]:
    """The readings of the line around a trial."""
    return [line for line in (trial.line_before_ns, trial.line_after_ns) if line is not None]


def _spread(logs: NDArray[np.floating[Any]]) -> float:
    """The standard deviation of a normal group, from the median distance from its median."""
    return max(DEVIATION * float(np.median(np.abs(logs - np.median(logs)))), LEAST_SPREAD)


@lru_cache(maxsize=64)
def _critical_t(count: int) -> float:
    from scipy.special import stdtrit

    stretches = count * (count - 1) / 2
    return float(stdtrit(count - 2, 1 - STEP_LEVEL / stretches / 2))


HALF = 0.5
LEAST_STRETCH = 0.5  # of a trial, that is told of when the state changed there and back


@dataclass(frozen=True, slots=True)
class StateFigure:
    """A figure, and the share of its time that the machine was far."""

    figure: float
    far: float | None  # 0: near; None: the machine has one state, or the contender's cores have


_SHARES = {State.ONLY: None, State.NEAR: 0.0, State.FAR: 1.0}


def state_figures(trials: Sequence[BlockTrial]) -> list[StateFigure | None]:
    """Each trial's figure; None where it has no figure above 0, or saw changes that neither lines
    nor samples tell apart."""
    return [
        _state_figure(trial, state, lines)
        for trial, (state, lines) in zip(trials, label_with_levels(trials), strict=True)
    ]


def _state_figure(trial: BlockTrial, state: State, lines: LineTimes | None) -> StateFigure | None:
    if trial.figure is None or trial.figure <= 0:
        return None
    if state is not State.CHANGED:
        return StateFigure(trial.figure, _SHARES[state])
    is_far = [lines is not None and line > lines.border_ns for line in lines_of(trial)]
    return _changed(trial, trial.figure, is_far) if lines is not None and len(is_far) > 1 else None


def _changed(trial: BlockTrial, figure: float, is_far: Sequence[bool]) -> StateFigure | None:
    """The figure of a trial in which the state changed; `is_far`: the state before the trial, and
    after."""
    step = step_of(trial.samples)
    if step is None:
        return StateFigure(figure, HALF)
    samples = np.asarray(trial.samples)
    if is_far[0] == is_far[-1]:  # there and back
        part, far = np.delete(samples, slice(*step)), is_far[0]
        if part.size < LEAST_STRETCH * samples.size:
            return None
    else:
        place, _ = best_split(np.log(samples))  # the one change that explains them best
        is_first = 2 * place >= samples.size
        part, far = (samples[:place], is_far[0]) if is_first else (samples[place:], is_far[-1])
    return StateFigure(figure * float(part.mean() / samples.mean()), float(far))
