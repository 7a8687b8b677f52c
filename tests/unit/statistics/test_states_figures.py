"""The figure of a trial during which the machine changed its state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.states import StateFigure, state_figures

NEAR_NS, FAR_NS = 30.0, 150.0
FAST, SLOW = (10.0, 10.1, 9.9), (5.0, 5.1, 4.9)


def trial(
    samples: tuple[float, ...], before_ns: float | None, after_ns: float | None
) -> BlockTrial:
    figure = sum(samples) / len(samples) if samples else 7.0
    return BlockTrial(
        block=0, contender="a", start_s=0, figure=figure, line_before_ns=before_ns,
        line_after_ns=after_ns, samples=samples,
    )  # fmt: skip


AROUND = [
    trial(level * 3, line_ns, line_ns)
    for level, line_ns in ((FAST, NEAR_NS), (SLOW, FAR_NS))
    for _ in range(4)
]  # trials of the same contender on a machine with two states


def figure_of(trial: BlockTrial, around: list[BlockTrial] = AROUND) -> StateFigure | None:
    return state_figures([*around, trial])[-1]


@pytest.mark.parametrize(
    ("changed_trial", "figure", "slow"),
    [
        (trial(FAST * 3, NEAR_NS, NEAR_NS), 10.0, 0.0),
        (trial(SLOW * 3, FAR_NS, FAR_NS), 5.0, 1.0),
        (trial(FAST * 2 + SLOW, NEAR_NS, FAR_NS), 10.0, 0.0),
        (trial(FAST + SLOW * 2, NEAR_NS, FAR_NS), 5.0, 1.0),
        (trial(SLOW + FAST * 2, FAR_NS, NEAR_NS), 10.0, 0.0),
        (trial(FAST + SLOW + FAST, NEAR_NS, NEAR_NS), 10.0, 0.0),
        (trial(FAST * 3, NEAR_NS, FAR_NS), 10.0, 0.5),
        (trial((), NEAR_NS, FAR_NS), 7.0, 0.5),
    ],
    ids=[
        "fast", "slow", "longer fast", "longer slow", "then fast", "there and back",
        "no step in the samples", "no samples",
    ],
)  # fmt: skip
def test_trial_counts_with_its_longest_stretch(
    changed_trial: BlockTrial, figure: float, slow: float
) -> None:
    found = figure_of(changed_trial)
    assert found is not None
    assert found.figure == pytest.approx(figure, rel=0.01)
    assert found.slow == slow


@pytest.mark.parametrize(
    "changed_trial",
    [
        replace(trial(FAST * 3, NEAR_NS, NEAR_NS), figure=None),
        replace(trial(FAST * 3, NEAR_NS, NEAR_NS), figure=0.0),
        trial(FAST + SLOW * 2, None, None),
        trial(FAST[:2] + SLOW * 2 + FAST[:2], NEAR_NS, NEAR_NS),
    ],
    ids=["no figure", "nothing came", "no lines", "mostly in the other state"],
)
def test_some_trials_have_no_figure(changed_trial: BlockTrial) -> None:
    assert figure_of(changed_trial) is None


def test_figures_are_unchanged_on_a_machine_of_one_state() -> None:
    around = [trial(FAST * 3, NEAR_NS, NEAR_NS) for _ in range(6)]
    assert state_figures(around) == [StateFigure(one.figure, None) for one in around if one.figure]
