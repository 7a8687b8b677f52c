"""Each trial's figure and the state of the machine it belongs to, also when the state changed
meanwhile.

On a host that moves virtual cores every second or two, a third of all half-second trials see both
states, and few pairs of trials see the same one. Leaving those out would leave a third of the
blocks. So a trial in which the state changed counts with its longest stretch in one state, where
its samples show the step; where they show none (a contender that hardly minds, or a figure without
samples) it counts as half and half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.states import LineTimes, State, label_with_levels, lines_of, step_of
from switchmark.statistics.two_bands import best_split

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
