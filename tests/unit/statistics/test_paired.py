"""Ratios by blocks: exact properties, and coverage on machines with moves, drift and wrong
labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.paired import (
    LogRatio,
    pairs_of,
    ratio_of,
    ratios_of,
    states_differ_p,
)
from switchmark.statistics.simulation import Design, Machine, blocks
from switchmark.statistics.states import State, StateFigure, state_figures

logs = st.lists(st.floats(-1, 1), min_size=5, max_size=40)


def pairs(values: list[float], far: float | None = 0.0) -> list[LogRatio]:
    return [LogRatio(block, value, far, far) for block, value in enumerate(values)]


def trial(block: int, contender: str) -> BlockTrial:
    return BlockTrial(block=block, contender=contender, start_s=0, figure=1.0)


def test_whole_blocks_make_pairs_and_keep_the_states_of_both() -> None:
    rows = [
        (trial(0, "a"), StateFigure(4.0, 0.0)), (trial(0, "b"), StateFigure(2.0, 0.0)),
        (trial(1, "b"), StateFigure(1.0, 1.0)), (trial(1, "a"), StateFigure(3.0, 0.5)),
        (trial(2, "a"), StateFigure(4.0, 0.0)), (trial(2, "b"), None),
        (trial(3, "a"), StateFigure(4.0, 0.0)),
        (trial(4, "c"), StateFigure(4.0, 0.0)), (trial(4, "b"), StateFigure(2.0, 0.0)),
        (trial(5, "a"), StateFigure(4.0, 1.0)), (trial(5, "b"), StateFigure(1.0, None)),
        (trial(6, "a"), StateFigure(4.0, None)), (trial(6, "b"), StateFigure(1.0, 1.0)),
        (trial(7, "a"), StateFigure(4.0, None)), (trial(7, "b"), StateFigure(4.0, None)),
    ]  # fmt: skip
    assert pairs_of([one for one, _ in rows], [said for _, said in rows], "a", "b") == [
        LogRatio(0, math.log(2), 0.0, 0.0),
        LogRatio(1, math.log(3), 0.5, 1.0),
        LogRatio(5, math.log(4), 1.0, 1.0),
        LogRatio(6, math.log(4), 1.0, 1.0),
        LogRatio(7, 0.0, None, None),
    ]


@given(logs)
def test_the_estimate_lies_among_the_pairs_and_in_its_interval(values: list[float]) -> None:
    found = ratio_of(pairs(values))
    assume(found is not None)
    assert found is not None
    assert min(values) - 1e-9 <= math.log(found.value) <= max(values) + 1e-9
    assert 0 < found.low <= found.value <= found.high


@given(logs)
@example([0.0, 0.0, 1.0, 1.0, -0.25])
def test_inverse_pairs_give_the_inverse_ratio(values: list[float]) -> None:
    forth, back = ratio_of(pairs(values)), ratio_of(pairs([-value for value in values]))
    if forth is None or back is None:  # few pairs in two groups do not determine the ratio
        assert forth == back
        return
    assert back.value == pytest.approx(1 / forth.value)
    assert (back.low, back.high) == pytest.approx((1 / forth.high, 1 / forth.low))


@given(st.lists(st.floats(-0.1, 0.1), min_size=10, max_size=40), st.floats(-50, 50))
def test_outlier_moves_the_ratio_only_within_the_other_pairs(
    values: list[float], wild: float
) -> None:
    found = ratio_of(pairs([*values[1:], wild]))
    assert found is not None
    assert math.exp(-0.1) <= found.value * (1 + 1e-9)
    assert found.value <= math.exp(0.1) * (1 + 1e-9)


def test_ratio_of_two_pairs_is_none() -> None:
    assert ratio_of(pairs([0.1] * 2)) is None


@pytest.mark.parametrize("level", [1e-5, 1e-9, 1e-300])
def test_ratio_is_none_if_the_interval_is_beyond_all_bounds(level: float) -> None:
    """The quantile of Student's t for a family of many comparisons and few pairs overflows."""
    wild = pairs([-3.0, 0.1, 3.0])
    assert ratio_of(wild, level) is None
    assert ratios_of(wild, level) == []


@pytest.mark.parametrize("count", [3, 5])
def test_ratio_of_equal_pairs_has_an_interval(count: int) -> None:
    found = ratio_of(pairs([0.1] * count))
    assert found is not None
    assert found.low < math.exp(0.1) < found.high


def test_ratio_of_three_pairs_is_students() -> None:
    """Logarithms 0.1, 0.2, 0.3: mean 0.2, deviation 0.1, t of 2 degrees 4.3027."""
    found = ratio_of(pairs([0.1, 0.2, 0.3]))
    assert found is not None
    half = 4.30265 * 0.1 / math.sqrt(3)
    assert math.log(found.low) == pytest.approx(0.2 - half, abs=1e-5)
    assert math.log(found.high) == pytest.approx(0.2 + half, abs=1e-5)


@pytest.mark.parametrize("count", [3, 4])
def test_interval_of_few_pairs_holds_in_two_unknown_states(count: int) -> None:
    """Each trial ran in one of two unknown states, 30 % apart."""
    generator = np.random.default_rng(7)
    missed = 0
    for _ in range(2000):
        states = generator.integers(0, 2, (2, count))
        values = 0.3 * (states[0] - states[1]) + generator.normal(0, 0.05, count)
        found = ratio_of(pairs(list(values)))
        assert found is not None
        missed += found.excludes(1.0)
    assert missed / 2000 < 0.06


@pytest.mark.parametrize(
    "machine",
    [
        Machine(),
        Machine(dwell_s=12),
        Machine(drift_per_minute=0.3),
        Machine(wrong_labels=0.1),
        Machine(slice_sd=0.15, slice_correlation=0.85),
        Machine(slowdown=1),
        Machine(dwell_s=1.5),
    ],
    ids=[
        "dwell 6 s",
        "dwell 12 s",
        "drift",
        "wrong labels",
        "correlated",
        "one state",
        "dwell 1.5 s",
    ],
)  # fmt: skip
def test_intervals_cover_on_every_machine(machine: Machine) -> None:
    missed = count = 0
    for seed in range(150):
        generator = np.random.default_rng(seed)
        trials = blocks(machine, Design(), {"a": 1.1, "b": 1.0}, 25, generator)
        for ratio in ratios_of(pairs_of(trials, state_figures(trials), "a", "b")):
            missed += ratio.excludes(1.1)
            count += 1
    assert binomtest(missed, count, 0.05, alternative="greater").pvalue > 0.01


def test_one_wrong_label_in_ten_costs_little() -> None:
    """The interval of a half mean doubles; the interval of the robust mean keeps its width."""
    generator = np.random.default_rng(6)
    clean = generator.normal(0, 0.06, (300, 30))
    wrong = np.where(generator.random(clean.shape) < 0.1, math.log(2), 0.0)
    mixed = clean + wrong * generator.choice([-1, 1], clean.shape)

    def width(values: list[float]) -> float:
        found = ratio_of(pairs(values))
        assert found is not None
        return math.log(found.high / found.low)

    before, after = (np.median([width(list(row)) for row in rows]) for rows in (clean, mixed))
    assert after < 1.3 * before
    means = [rows.std(axis=1, ddof=1) for rows in (clean, mixed)]
    assert np.median(means[1]) > 2 * np.median(means[0])


def test_states_with_different_ratios_are_separated() -> None:
    generator = np.random.default_rng(7)
    near = list(math.log(0.9) + generator.normal(0, 0.03, 30))
    far = list(generator.normal(0, 0.03, 12))
    ratios = ratios_of([*pairs(near), *pairs(far, 1.0)])
    assert [one.state for one in ratios] == [State.FAST, State.SLOW]
    assert ratios[0].high < 1 < ratios[1].high
    assert ratios[0].value == pytest.approx(0.9, rel=0.02)
    together = ratios_of([*pairs(near), *pairs(near[:12], 1.0)])
    assert [one.state for one in together] == [None]
    few = ratios_of([*pairs(near), *pairs(far[:3], 1.0)])
    assert [one.state for one in few] == [None]
    assert [one.state for one in ratios_of(pairs(near))] == [State.FAST]
    assert [one.state for one in ratios_of(pairs(near, None))] == [None]


def test_states_with_different_slowdowns_are_separated() -> None:
    """Fast 1.25, slow 1.0: hardly a pair is within one state."""
    rates = {"a": (1.25, 0.5), "b": (1.0, 0.5)}
    states_of_ratios = []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        trials = blocks(Machine(dwell_s=1.5), Design(), rates, 60, generator)
        states_of_ratios.append(
            {one.state: one for one in ratios_of(pairs_of(trials, state_figures(trials), "a", "b"))}
        )
    apart = [one for one in states_of_ratios if set(one) == {State.FAST, State.SLOW}]
    assert len(apart) >= 18
    missed = sum(
        one[state].excludes(truth)
        for one in apart
        for state, truth in ((State.FAST, 1.25), (State.SLOW, 1.0))
    )
    assert binomtest(missed, 2 * len(apart), 0.05, alternative="greater").pvalue > 0.01


@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_states_that_agree_are_rarely_separated(seed: int) -> None:
    generator = np.random.default_rng(seed)
    near, far = (list(generator.normal(0, 0.03, count)) for count in (20, 10))
    assert 1e-5 < states_differ_p([*pairs(near), *pairs(far, 1.0)]) <= 1


def test_all_blocks_prove_a_lead_if_cores_move_every_second() -> None:
    """Fifteen blocks, of which five have pairs within a state: 1.25x at the level of an
    analysis."""
    proven = within = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        rates = {"a": 1.25, "b": 1.0, "c": 0.8}
        trials = blocks(Machine(dwell_s=1.5), Design(), rates, 15, generator)
        block_pairs = pairs_of(trials, state_figures(trials), "a", "b")
        alike = [one for one in block_pairs if one.slow_a == one.slow_b != 0.5]
        found, few = ratio_of(block_pairs, 0.01), ratio_of(alike, 0.01)
        proven += found is not None and found.low > 1
        within += few is not None and few.low > 1
    assert proven >= 54
    assert within < 0.85 * proven


def test_slowdown_of_few_pairs_is_not_estimated() -> None:
    """One pair across states determines its slowdown only: the others do not change."""
    generator = np.random.default_rng(3)
    alike = pairs(list(generator.normal(0, 0.03, 12)))
    assert ratio_of([*alike, LogRatio(12, math.log(2), 0.0, 1.0)]) == ratio_of(alike)
