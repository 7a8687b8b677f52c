"""The state of the machine during each trial: fast, slow, or changed while it ran.

A host moves virtual cores, and then a cache line between two of them takes 150 ns instead of 30,
and rates change with it. The line times of a campaign are split into two groups (two_bands.py). The
groups are states only if they are far apart compared with their spread (Ashman's D; K. Ashman, C.
Bird, S. Zepf, Astronomical Journal 108, 1994) and differ by a factor that matters. A change
*within* a trial is visible as different lines before and after it, or as a stretch of its samples
at another level (the statistic of circular binary segmentation; A. Olshen et al., Biostatistics 5,
2004).
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
LEAST_SPREAD = 0.02  # lower limit for the spread of ln(line), because of the resolution of clocks
STEP_LEVEL = 0.05  # largest share of undisturbed trials that are labelled as changed
LEAST_STEP = math.log(1.25)  # smaller steps are noise, or cost less than the trial is worth
# Variance of a stretch's mean divided by that of independent samples: (1 + r) / (1 - r) for a lag-1
# correlation r of 0.5. Samples of a trial are correlated, and a few samples do not show how much.
CORRELATION = 3.0


class State(StrEnum):
    """The state of the machine during a trial."""

    ONLY = "only"  # the machine has one state, or the cores do not differ
    FAST = "fast"  # short times of cache lines
    SLOW = "slow"
    CHANGED = "changed"  # during the trial, which then belongs to neither state


@dataclass(frozen=True, slots=True)
class LineTimes:
    """The two levels of a cache line's time in a campaign."""

    fast_ns: float  # medians
    slow_ns: float
    border_ns: float  # geometric mean of the two nearest times of the groups


def find_states(lines_ns: Iterable[float]) -> LineTimes | None:
    """Return the two states that the line times show; None if they show one state."""
    logs = np.sort(np.log(np.fromiter(lines_ns, float)))
    if logs.size < 4:
        return None
    split, _ = best_split(logs)
    fast, slow = logs[:split], logs[split:]
    if min(fast.size, slow.size) < 2:
        return None
    gap = float(np.median(slow) - np.median(fast))
    distance = math.sqrt(2) * gap / math.hypot(_spread(fast), _spread(slow))
    if gap < math.log(LEAST_FACTOR) or distance < LEAST_DISTANCE:
        return None
    fast_ns, slow_ns = (math.exp(float(np.median(group))) for group in (fast, slow))
    border_ns = math.exp(float(fast[-1] + slow[0]) / 2)
    return LineTimes(fast_ns, slow_ns, border_ns)


def label(trials: Sequence[BlockTrial]) -> list[State]:
    """Return the state of each trial, from its samples and all lines between the same cores.

    If all these lines agree, the machine has one state, and the contender itself causes steps."""
    return [state for state, _ in label_with_levels(trials)]


def label_with_levels(trials: Sequence[BlockTrial]) -> list[tuple[State, LineTimes | None]]:
    """Return the state of each trial, and the two levels of its lines."""
    levels = levels_of(trials)
    read = {trial.contender for trial in trials if lines_of(trial)}
    return [
        (_label(trial, levels[trial.cores], trial.contender in read), levels[trial.cores])
        for trial in trials
    ]


def levels_of(trials: Iterable[BlockTrial]) -> dict[str, LineTimes | None]:
    """Return the two levels of the lines, by cores; None for cores with one level."""
    groups: dict[str, list[BlockTrial]] = {}
    for trial in trials:
        groups.setdefault(trial.cores, []).append(trial)
    return {cores: _states_of(group) for cores, group in groups.items()}


def _states_of(trials: Sequence[BlockTrial]) -> LineTimes | None:
    """Return the levels that are states of the machine. If no contender had both levels, they
    follow from the positions of the contenders' cores and are not states."""
    lines = find_states(line for trial in trials for line in lines_of(trial))
    if lines is None:
        return None
    sides_by_contender: dict[str, set[bool]] = {}
    for trial in trials:
        sides = {line > lines.border_ns for line in lines_of(trial)}
        sides_by_contender.setdefault(trial.contender, set()).update(sides)
    return lines if any(len(sides) > 1 for sides in sides_by_contender.values()) else None


def _label(trial: BlockTrial, lines: LineTimes | None, is_read: bool) -> State:
    """Return the label of a trial. `is_read`: lines of this contender are readable, so the state of
    a trial without lines is unknown."""
    if lines is None:
        return State.CHANGED if not is_read and step_of(trial.samples) else State.ONLY
    sides = {line > lines.border_ns for line in lines_of(trial)}
    if len(sides) > 1 or step_of(trial.samples) or (is_read and not sides):
        return State.CHANGED
    if not sides:
        return State.ONLY
    return State.SLOW if sides.pop() else State.FAST


@lru_cache(maxsize=8192)  # each interim analysis needs all trials of a campaign again
def step_of(samples: tuple[float, ...]) -> tuple[int, int] | None:
    """Return begin and end of the stretch of the (positive) samples whose level differs from the
    rest; None without such a stretch. For a stretch up to the end, the rest is returned instead.

    The test compares the largest t between a stretch and the rest with Student's t, corrected for
    the number of stretches (Bonferroni). This is accurate enough for the 5 to 20 samples of a short
    trial."""
    if len(samples) < 4 or min(samples) <= 0:
        return None
    logs = np.log(np.asarray(samples, float))
    count = logs.size
    # A stretch up to the end is the complement of a stretch from the start.
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
        """The mean time between changes in seconds; None without a change."""
        return self.watched_s / self.changes if self.changes else None


def watch(times_s: Sequence[float], lines_ns: Sequence[float]) -> Watched:
    """Summarise readings of a cache line's time over some seconds. Raises ValueError without
    readings."""
    if not lines_ns or len(times_s) != len(lines_ns):
        raise ValueError("times and readings must be equal in number, and at least one")
    lines = find_states(lines_ns)
    sides = [lines is not None and line > lines.border_ns for line in lines_ns]
    changes = sum(a != b for a, b in pairwise(sides))
    return Watched(lines, float(np.median(lines_ns)), times_s[-1] - times_s[0], changes)


def lines_of(trial: BlockTrial) -> list[float]:
    """Return the readings of the line around a trial."""
    return [line for line in (trial.line_before_ns, trial.line_after_ns) if line is not None]


def _spread(logs: NDArray[np.floating[Any]]) -> float:
    """Return the standard deviation of a normal group, from the median distance from its median."""
    return max(DEVIATION * float(np.median(np.abs(logs - np.median(logs)))), LEAST_SPREAD)


@lru_cache(maxsize=64)
def _critical_t(count: int) -> float:
    from scipy.special import stdtrit

    stretches = count * (count - 1) / 2
    return float(stdtrit(count - 2, 1 - STEP_LEVEL / stretches / 2))


HALF = 0.5
LEAST_STRETCH = 0.5  # smallest part of a trial that is usable if the state changed twice


@dataclass(frozen=True, slots=True)
class StateFigure:
    """A figure, and the share of its time in the slow state."""

    figure: float
    slow: float | None  # 0: fast; None: the machine, or the contender's cores, have one state


_SHARES = {State.ONLY: None, State.FAST: 0.0, State.SLOW: 1.0}


def state_figures(trials: Sequence[BlockTrial]) -> list[StateFigure | None]:
    """Return each trial's figure; None if the trial has no figure above 0, or changes that neither
    lines nor samples explain."""
    return [
        _state_figure(trial, state, lines)
        for trial, (state, lines) in zip(trials, label_with_levels(trials), strict=True)
    ]


def _state_figure(trial: BlockTrial, state: State, lines: LineTimes | None) -> StateFigure | None:
    if trial.figure is None or trial.figure <= 0:
        return None
    if state is not State.CHANGED:
        return StateFigure(trial.figure, _SHARES[state])
    is_slow = [lines is not None and line > lines.border_ns for line in lines_of(trial)]
    return (
        _changed(trial, trial.figure, is_slow) if lines is not None and len(is_slow) > 1 else None
    )


def _changed(trial: BlockTrial, figure: float, is_slow: Sequence[bool]) -> StateFigure | None:
    """Return the figure of a trial in which the state changed; `is_slow` has the state before and
    after the trial."""
    step = step_of(trial.samples)
    if step is None:
        return StateFigure(figure, HALF)
    samples = np.asarray(trial.samples)
    if is_slow[0] == is_slow[-1]:  # there and back
        part, slow = np.delete(samples, slice(*step)), is_slow[0]
        if part.size < LEAST_STRETCH * samples.size:
            return None
    else:
        place, _ = best_split(np.log(samples))  # the change that fits the samples best
        is_first = 2 * place >= samples.size
        part, slow = (samples[:place], is_slow[0]) if is_first else (samples[place:], is_slow[-1])
    return StateFigure(figure * float(part.mean() / samples.mean()), float(slow))
