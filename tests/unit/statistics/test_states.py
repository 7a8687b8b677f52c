"""Fast, slow and changed: the states of the machine by line times and samples."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.simulation import Design, Machine, blocks
from switchmark.statistics.states import State, find_states, label, step_of, watch

TWO = {"a": 1.0, "b": 1.0}


def trial(before: float | None, after: float | None, *samples: float) -> BlockTrial:
    return BlockTrial(
        block=0,
        contender="a",
        start_s=0,
        figure=1,
        line_before_ns=before,
        line_after_ns=after,
        samples=samples,
    )


def test_two_levels_of_line_times_are_two_states() -> None:
    found = find_states([25.0, 27.0, 26.0, 148.0, 26.5, 25.5, 151.0, 26.0])
    assert found is not None
    assert found.fast_ns == pytest.approx(26, abs=0.5)
    assert found.slow_ns == pytest.approx(149.5, abs=0.5)
    assert 28 < found.border_ns < 140


@given(st.integers(0, 2**32), st.integers(4, 300), st.floats(0.001, 0.12))
@settings(max_examples=100, deadline=None)
def test_one_group_of_lines_is_one_state(seed: int, count: int, sd: float) -> None:
    noise = np.random.default_rng(seed).normal(0, 1, count).clip(-3, 3)
    assert find_states(30 * np.exp(sd * noise)) is None
    assert find_states([30.0] * count) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_broad_group_is_not_two(seed: int) -> None:
    """However far apart its halves are, they are as broad as the gap between them."""
    generator = np.random.default_rng(seed)
    assert find_states(np.exp(generator.normal(4, 0.7, 100))) is None
    assert find_states(np.exp(generator.uniform(3, 5, 100))) is None


@given(st.integers(0, 2**32), st.floats(2, 8), st.floats(0.05, 0.95))
@settings(max_examples=100, deadline=None)
def test_two_states_are_found_whatever_their_shares(seed: int, factor: float, share: float) -> None:
    generator = np.random.default_rng(seed)
    is_far = generator.random(200) < share
    assume(2 <= is_far.sum() <= 198)  # a single trial is not a state
    lines = np.where(is_far, 30 * factor, 30) * np.exp(generator.normal(0, 0.05, 200))
    found = find_states(lines)
    assert found is not None
    assert ((lines > found.border_ns) == is_far).all()


def test_trials_are_labelled_by_their_lines() -> None:
    trials = [trial(26, 26), trial(27, 25), trial(150, 149), trial(26, 151), trial(None, None)]
    assert label(trials) == [State.FAST, State.FAST, State.SLOW, State.CHANGED, State.CHANGED]


def test_distance_of_cores_is_not_a_state_of_the_machine() -> None:
    """On a machine that never moves, one contender's cores share a cache and another's do not."""
    still = [trial(26, 26), trial(26, 27), *(replace(trial(150, 149), contender="b"),) * 2]
    assert label(still) == [State.ONLY] * 4
    apart = [replace(one, cores="0,1" if one.contender == "a" else "0,4") for one in still]
    moved = [*apart, replace(apart[0], line_before_ns=148, line_after_ns=150), apart[0]]
    assert label(moved)[:4] == [State.FAST, State.FAST, State.ONLY, State.ONLY]
    assert label(moved)[4] is State.SLOW
    assert label([trial(None, None)] * 3) == [State.ONLY] * 3


def test_trial_with_a_temporary_change_is_changed() -> None:
    there_and_back = (12.0, 11.8, 6.1, 6.0, 6.2, 12.1, 11.9, 12.2)
    trials = [trial(26, 26, *there_and_back), trial(150, 150), trial(149, 151), trial(26, 27)]
    assert label(trials)[0] is State.CHANGED
    # If the machine has one state, the step belongs to the contender.
    assert label([trial(26, 26, *there_and_back), trial(26, 26)]) == [State.ONLY, State.ONLY]


@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_step_is_detected_in_five_samples(place: int) -> None:
    steady = (11.9, 12.1, 12.0, 11.8, 12.05)
    assert not step_of(steady)
    assert step_of(tuple(x / (2 if index < place else 1) for index, x in enumerate(steady)))


def test_correlated_samples_are_not_a_step() -> None:
    machine = Machine(slowdown=1, slice_sd=0.2, slice_correlation=0.8)
    trials = blocks(machine, Design(trial_s=1.0), TWO, 500, np.random.default_rng(2))
    assert sum(step_of(one.samples) is not None for one in trials) / len(trials) < 0.05


def test_labels_separate_the_states() -> None:
    """In half-second trials almost no trial of the other state keeps its label."""
    trials = blocks(Machine(), Design(), TWO, 400, np.random.default_rng(3))
    states = label(trials)
    rates = {State.FAST: 1.0, State.SLOW: 0.5}
    wrong = [
        abs(math.log((one.figure or 0) / rates[state])) > 0.25
        for one, state in zip(trials, states, strict=True)
        if state in rates
    ]
    assert len(wrong) > 0.85 * len(trials)
    assert np.mean(wrong) < 0.01


def test_watching_measures_how_often_the_machine_moves() -> None:
    lines = ([26.0] * 6 + [150.0] * 4) * 3
    watched = watch([0.5 * index for index in range(30)], lines)
    assert watched.lines is not None
    assert watched.changes == 5
    assert watched.dwell_s == pytest.approx(14.5 / 5)
    still = watch([0.0, 1.0, 2.0, 3.0], [26.0, 26.1, 26.0, 25.9])
    assert (still.lines, still.changes, still.dwell_s) == (None, 0, None)
    with pytest.raises(ValueError, match="at least one"):
        watch([], [])
