"""R+ finds the capacity, its interval covers, and it stops as planned."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.errors import UsageError
from switchmark.method.r_plus import measure_r_plus
from switchmark.method.support.measurer import BudgetError
from switchmark.simulation.switch import Behaviour, SimulatedSwitch

CAPACITY = 5e6


def run(seed: int = 0, faults: Any = None, **options: Any) -> Any:
    switch = SimulatedSwitch(Behaviour(capacity_pps=CAPACITY, **(faults or {})), seed)
    return measure_r_plus(switch, **options)


@given(capacity=st.floats(1e3, 1e8))
def test_r_plus_without_noise_is_the_capacity(capacity: Any) -> None:
    found = measure_r_plus(SimulatedSwitch(Behaviour(capacity_pps=capacity)))
    assert found.pps == pytest.approx(capacity, rel=1e-3)
    assert found.stopped == "precise"
    assert len(found.trials) == 5


def test_interval_covers_at_the_nominal_rate() -> None:
    covered = 0
    for seed in range(2000):
        found = run(seed, {"trial_noise": 0.02}, min_repetitions=10, max_repetitions=10)
        covered += found.estimate.low <= CAPACITY <= found.estimate.high
    assert 0.94 <= covered / 2000 <= 0.965


@pytest.mark.parametrize("noise", [0.005, 0.01, 0.02])
@pytest.mark.parametrize("fewest", [3, 5])
def test_early_stop_keeps_coverage(noise: Any, fewest: Any) -> None:
    """With an ordinary interval, the coverage would be 92 %."""
    covered = sum(
        found.estimate.low <= CAPACITY <= found.estimate.high
        for found in (
            run(seed, {"trial_noise": noise}, min_repetitions=fewest) for seed in range(600)
        )
    )
    assert covered / 600 >= 0.945


def test_trials_repeat_until_interval_is_narrow() -> None:
    found = run(1, {"trial_noise": 0.01}, max_repetitions=100)
    assert found.stopped == "precise"
    assert found.estimate.relative_half_width <= 0.01
    wide = run(1, {"trial_noise": 0.2})
    assert wide.stopped == "repetitions"
    assert len(wide.trials) == 20
    assert wide.estimate.relative_half_width > 0.01


@settings(max_examples=80)
@given(budget=st.floats(11.5, 300), noise=st.sampled_from([0.0, 0.1]))
def test_r_plus_stays_within_budget(budget: Any, noise: Any) -> None:
    switch = SimulatedSwitch(Behaviour(capacity_pps=CAPACITY, trial_noise=noise))
    found = measure_r_plus(switch, budget_s=budget)
    assert switch.now_s <= budget + 1e-6
    assert found.stopped != "budget" or budget - switch.now_s < 10.0


def test_budget_below_one_trial_is_an_error() -> None:
    with pytest.raises(BudgetError, match="does not fit"):
        run(budget_s=5.0)


def test_bands_and_outliers_are_reported() -> None:
    banded = run(3, {"second_band": 0.8}, min_repetitions=20)
    assert banded.bands is not None
    assert banded.bands.low_mean == pytest.approx(0.8 * CAPACITY, rel=1e-3)
    faults = {"second_band": 0.8, "second_band_share": 0.07, "trial_noise": 0.001}
    reported = 0
    for seed in range(30):
        odd = run(seed, faults, min_repetitions=20)
        low = sum(trial.forwarded_pps < 0.9 * CAPACITY for trial in odd.trials)
        if 1 <= low <= 2:
            reported += 1
            assert odd.bands is None
            assert sum(outlier.value < 0.9 * CAPACITY for outlier in odd.outliers) == low
    assert reported > 10


def test_single_repetition_has_no_interval() -> None:
    found = run(min_repetitions=1, max_repetitions=1)
    assert found.estimate.relative_half_width is None
    assert math.isclose(found.pps, CAPACITY)


def test_impossible_repetitions_are_refused() -> None:
    with pytest.raises(UsageError, match="repetitions"):
        run(min_repetitions=3, max_repetitions=2)
