"""Ratios by blocks: exact properties, and coverage on machines that move, drift and lie."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit
from scipy.stats import binomtest, trim_mean

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.paired import (
    LogRatio,
    heterogeneity_p,
    pairs_of,
    ratio_of,
    ratios_of,
    trimmed_mean,
)
from switchmark.statistics.simulation import Design, Machine, blocks
from switchmark.statistics.states import State, label

logs = st.lists(st.floats(-1, 1), min_size=5, max_size=40)


def pairs(values: list[float], state: State = State.NEAR) -> list[LogRatio]:
    return [LogRatio(block, value, state) for block, value in enumerate(values)]


def trial(block: int, contender: str, figure: float | None) -> BlockTrial:
    return BlockTrial(block=block, contender=contender, start_s=0, figure=figure)


def test_only_whole_blocks_of_one_state_make_pairs() -> None:
    near, far, changed = State.NEAR, State.FAR, State.CHANGED
    rows = [
        (trial(0, "a", 4.0), near), (trial(0, "b", 2.0), near),
        (trial(1, "b", 1.0), far), (trial(1, "a", 3.0), far),
        (trial(2, "a", 4.0), near), (trial(2, "b", 1.0), far),
        (trial(3, "a", 4.0), changed), (trial(3, "b", 2.0), near),
        (trial(4, "a", None), near), (trial(4, "b", 2.0), near),
        (trial(5, "a", 4.0), near),
        (trial(6, "a", 4.0), near), (trial(6, "b", 0.0), near),
        (trial(7, "c", 4.0), near), (trial(7, "b", 2.0), near),
        (trial(8, "a", 4.0), far), (trial(8, "b", 1.0), State.ONLY),
    ]  # fmt: skip
    found = pairs_of([one for one, _ in rows], [state for _, state in rows], "a", "b")
    assert found == [
        LogRatio(0, math.log(2), near),
        LogRatio(1, math.log(3), far),
        LogRatio(8, math.log(4), far),
    ]


@given(logs)
def test_the_estimate_is_the_trimmed_mean(values: list[float]) -> None:
    found = ratio_of(pairs(values))
    assert found is not None
    assert math.log(found.value) == pytest.approx(trim_mean(values, 0.2), abs=1e-9)
    assert 0 < found.low <= found.value <= found.high


@given(logs)
def test_turning_a_pair_round_turns_its_ratio_round(values: list[float]) -> None:
    there, back = ratio_of(pairs(values)), ratio_of(pairs([-value for value in values]))
    assert there is not None
    assert back is not None
    assert back.value == pytest.approx(1 / there.value)
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low))


@given(st.lists(st.floats(-0.1, 0.1), min_size=10, max_size=40), st.floats(-50, 50))
def test_one_wild_pair_moves_the_ratio_no_further_than_the_others_reach(
    values: list[float], wild: float
) -> None:
    found = ratio_of(pairs([*values[1:], wild]))
    assert found is not None
    assert math.exp(-0.1) <= found.value * (1 + 1e-9)
    assert found.value <= math.exp(0.1) * (1 + 1e-9)


def test_few_pairs_make_no_interval_and_equal_ones_no_certainty() -> None:
    assert ratio_of(pairs([0.1] * 4)) is None
    found = ratio_of(pairs([0.1] * 5))
    assert found is not None
    assert found.low < math.exp(0.1) < found.high


@pytest.mark.parametrize("count", [5, 7, 10, 15, 20, 40])
@pytest.mark.parametrize("level", [0.05, 0.005])
def test_levels_hold_for_few_normal_pairs(count: int, level: float) -> None:
    """With h - 1 degrees of freedom the level of 0.005 is 0.0085 at 10 pairs."""
    draws = np.sort(np.random.default_rng(5).normal(size=(8_000, count)), axis=1)
    told = [trimmed_mean(row) for row in draws]
    half = stdtrit(told[0][2], 1 - level / 2)
    wrong = sum(abs(mean) > half * error for mean, error, _ in told)
    assert binomtest(wrong, len(draws), level, alternative="greater").pvalue > 0.01
    assert wrong > 0.5 * level * len(draws)


@pytest.mark.parametrize(
    "machine",
    [
        Machine(),
        Machine(dwell_s=12),
        Machine(drift_per_minute=0.3),
        Machine(wrong_labels=0.1),
        Machine(slice_sd=0.15, slice_correlation=0.85),
        Machine(slowdown=1),
    ],
    ids=["dwell 6 s", "dwell 12 s", "drift", "wrong labels", "correlated", "one state"],
)
def test_intervals_cover_on_every_machine(machine: Machine) -> None:
    missed = count = 0
    for seed in range(150):
        generator = np.random.default_rng(seed)
        trials = blocks(machine, Design(), {"a": 1.1, "b": 1.0}, 25, generator)
        for ratio in ratios_of(pairs_of(trials, label(trials), "a", "b")):
            missed += ratio.excludes(1.1)
            count += 1
    assert binomtest(missed, count, 0.05, alternative="greater").pvalue > 0.01


def test_a_wrong_label_in_ten_costs_little() -> None:
    """Half a mean's interval takes twice the width; the trimmed mean's keeps its own."""
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


def test_states_with_ratios_of_their_own_are_told_apart() -> None:
    generator = np.random.default_rng(7)
    near = list(math.log(0.9) + generator.normal(0, 0.04, 30))
    far = list(generator.normal(0, 0.02, 12))
    told = ratios_of([*pairs(near), *pairs(far, State.FAR)])
    assert [one.state for one in told] == [State.NEAR, State.FAR]
    assert told[0].high < 1 < told[1].high
    assert told[0].low < 0.9 < told[0].high
    together = ratios_of([*pairs(near), *pairs(near[:12], State.FAR)])
    assert [one.state for one in together] == [None]
    few = ratios_of([*pairs(near), *pairs(far[:3], State.FAR)])
    assert [one.state for one in few] == [None]


@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_states_that_agree_are_rarely_told_apart(seed: int) -> None:
    generator = np.random.default_rng(seed)
    groups = {
        State.NEAR: pairs(list(generator.normal(0, 0.04, 20))),
        State.FAR: pairs(list(generator.normal(0, 0.02, 10))),
    }
    assert 1e-5 < heterogeneity_p(groups) <= 1
