"""Warm-up, change, bands and outliers are found at their places, and false findings are rare."""

from __future__ import annotations

import math
import random
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.statistics.steady_state import (
    change_p,
    detect,
    find_outliers,
    find_warm_up,
)
from switchmark.statistics.two_bands import MIN_VALUES, critical_ratio, find_bands

RUNS = 400


def noise(seed: Any, count: int = 50, spread: float = 0.01, level: float = 1e6) -> Any:
    dice = random.Random(seed)
    return [level * (1 + dice.gauss(0, spread)) for _ in range(count)]


def share(make: Any, says: Any) -> Any:
    return sum(bool(says(make(seed))) for seed in range(RUNS)) / RUNS


@pytest.mark.parametrize("count", [25, 50, 200])
def test_a_steady_run_is_called_steady(count: Any) -> None:
    assert share(lambda seed: noise(seed, count), lambda x: detect(x).steady) > 0.92


def test_a_steady_run_with_correlated_samples_is_called_steady() -> None:
    def correlated(seed: Any) -> Any:
        dice, value, values = random.Random(seed), 0.0, []
        for _ in range(100):
            value = 0.5 * value + dice.gauss(0, 0.01)
            values.append(1e6 * (1 + value))
        return values

    assert share(correlated, lambda x: detect(x).steady) > 0.9


def test_warm_up_is_found_and_little_more_is_left_out() -> None:
    def warming(seed: Any) -> Any:
        return [x * (1 - 0.5 * math.exp(-i / 5)) for i, x in enumerate(noise(seed, 100))]

    cuts = [detect(warming(seed)).warm_up_samples for seed in range(RUNS)]
    # After 15 samples the rate is 2.5 % too low, after 25 by 0.3 %, which is below the noise.
    assert 10 <= statistics.median(cuts) <= 30
    biased = statistics.fmean(statistics.fmean(warming(seed)) for seed in range(RUNS))
    mean = statistics.fmean(detect(warming(seed)).mean for seed in range(RUNS))
    assert biased < 0.98e6
    assert mean == pytest.approx(1e6, rel=0.002)


def test_steps_and_drifts_are_called_unsteady() -> None:
    def step(seed: Any) -> Any:
        return [x * (1.0 if i < 60 else 0.97) for i, x in enumerate(noise(seed, 100))]

    def drift(seed: Any) -> Any:
        return [x * (1 + 0.05 * i / 100) for i, x in enumerate(noise(seed, 100))]

    assert share(step, lambda x: not detect(x).steady) > 0.97
    assert share(drift, lambda x: not detect(x).steady) > 0.95


def test_a_run_that_never_settles_has_no_warm_up_to_cut() -> None:
    climbing = [1e6 * (1 + i / 50) for i in range(100)]
    assert find_warm_up(climbing) is None
    found = detect(climbing)
    assert not found.steady
    assert "half of the trial" in found.reason


def test_few_samples_prove_nothing() -> None:
    found = detect([1.0] * 19)
    assert (found.steady, found.change_p) == (False, None)
    assert "too few" in found.reason
    assert detect([]).mean is None


def test_constant_samples_are_steady() -> None:
    found = detect([5.0] * 40)
    assert found.steady
    assert (found.mean, found.outliers, found.bands) == (5.0, (), None)


@pytest.mark.parametrize(
    ("value", "count"), [(2550691.002325191, 146), (1e6 / 3, 20), (6515930.0756346565, 73)]
)
def test_constant_samples_are_steady_if_their_mean_is_rounded(value: float, count: int) -> None:
    found = detect([value] * count)
    assert found.steady
    assert (found.change_p, found.warm_up_samples) == (1.0, 0)


def test_change_test_holds_its_level() -> None:
    false_alarms = share(lambda seed: noise(seed, 100), lambda x: change_p(x) < 0.05)
    assert false_alarms < 0.08


@pytest.mark.parametrize("count", [8, 12, 30, 100])
def test_two_bands_are_found_and_one_is_not_split(count: Any) -> None:
    def two(seed: Any) -> Any:
        dice = random.Random(seed)
        return [
            x * (1.0 if i % 2 or dice.random() < 0.2 else 0.9)
            for i, x in enumerate(noise(seed, count))
        ]

    def uniform(seed: Any) -> Any:
        dice = random.Random(seed)
        return [1e6 * dice.uniform(0.8, 1.2) for _ in range(count)]

    assert share(two, find_bands) > (0.6 if count < 12 else 0.95)
    assert share(lambda seed: noise(seed, count), find_bands) < 0.02
    assert share(uniform, find_bands) < 0.03


def test_bands_are_described() -> None:
    bands = find_bands([100, 101, 102, 100, 80, 81, 80, 82, 100, 101])
    assert (bands.low_count, bands.high_count, bands.crossings) == (4, 6, 2)
    assert bands.low_mean == pytest.approx(80.75)
    assert "2 changes" in bands.describe()


def test_irrelevant_bands_are_ignored() -> None:
    assert find_bands([1e6, 1.001e6] * 20) is None


def test_critical_ratio_grows_and_ends() -> None:
    ratios = [critical_ratio(n) for n in range(MIN_VALUES, 1000)]
    assert ratios == sorted(ratios)
    assert critical_ratio(5) == 0.0
    assert critical_ratio(10_000) == ratios[-1] == 0.221


def test_an_outlier_is_reported_and_stays_in_the_mean() -> None:
    values = noise(1, 60)
    values[37] = 0.5e6
    found = detect(values)
    assert [outlier.index for outlier in found.outliers] == [37]
    assert found.outliers[0].score < -3.5
    assert found.mean < found.mean_without_outliers
    kept_values = values[found.warm_up_samples :]
    assert found.mean == pytest.approx(statistics.fmean(kept_values))


def test_outliers_among_equal_values() -> None:
    assert [o.value for o in find_outliers([7.0] * 20 + [9.0])] == [9.0]
    assert find_outliers([7.0] * 20) == ()
    assert find_outliers([1.0, 50.0]) == ()


@given(st.lists(st.floats(-1e9, 1e9), max_size=120))
def test_every_sample_is_accounted_for(values: Any) -> None:
    found = detect(values)
    assert found.samples == len(values)
    assert 0 <= found.warm_up_samples <= len(values) / 2
    assert all(values[o.index] == o.value for o in found.outliers)
    assert all(o.index >= found.warm_up_samples for o in found.outliers)
    if found.bands:
        kept_count = len(values) - found.warm_up_samples
        assert found.bands.low_count + found.bands.high_count == kept_count
