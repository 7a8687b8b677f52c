"""The fit of a sweep finds a known plateau, and reports results outside its model."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.errors import UsageError
from switchmark.method.plateau import fit, sweep
from switchmark.method.support.measurer import BudgetError
from switchmark.simulation.switch import Behaviour, SimulatedSwitch

LOADS = [1e6 * step for step in range(1, 21)]


def run(
    capacity_pps: float = 7.3e6,
    *,
    seed: int = 0,
    repetitions: int = 1,
    loads: Any = LOADS,
    **faults: Any,
) -> Any:
    switch = SimulatedSwitch(Behaviour(capacity_pps=capacity_pps, **faults), seed)
    return sweep(switch, loads, repetitions=repetitions).plateau


@settings(max_examples=150, deadline=None)
@given(capacity=st.floats(1.5e6, 1.6e7), noise=st.sampled_from([0.0, 0.005]))
def test_plateau_is_capacity_and_knee_contains_it(capacity: Any, noise: Any) -> None:
    found = run(capacity, trial_noise=noise)
    assert found.pps.mean == pytest.approx(capacity, rel=max(1e-3, 3 * noise))
    below, above = found.knee_between_pps
    assert below <= capacity * (1 + 4 * noise)
    assert above >= capacity * (1 - 4 * noise)
    assert found.trend == "flat"


def test_intervals_cover_the_capacity() -> None:
    covered = 0
    for seed in range(600):
        capacity = random.Random(seed).uniform(2.2e6, 1.5e7)
        found = run(capacity, seed=seed, trial_noise=0.01)
        covered += found.pps.low <= capacity <= found.pps.high
    assert covered / 600 > 0.91


def test_sweep_without_plateau_has_no_figure() -> None:
    found = run(50e6)
    assert found.pps is None
    assert found.follows_to_pps == 20e6
    assert "no plateau" in found.notes[-1]


def test_capacity_below_lowest_load_has_no_knee() -> None:
    found = run(0.3e6)
    assert found.pps.mean == pytest.approx(0.3e6)
    assert (found.knee_between_pps, found.follows_to_pps) == (None, None)


def test_falling_plateau_has_trend_falling() -> None:
    found = run(overload_decline=0.2)
    assert found.trend == "falling"
    assert any("forwards less" in note for note in found.notes)


def test_gradual_transition_has_a_note() -> None:
    switch = SimulatedSwitch(Behaviour(capacity_pps=7e6, sample_noise=0.15))
    found = sweep(switch, [1e6 * step / 2 for step in range(2, 30)], repetitions=2).plateau
    assert any("gradual" in note or "poorly" in note for note in found.notes)


def test_rounds_measure_all_loads_before_repetitions() -> None:
    switch = SimulatedSwitch(Behaviour(capacity_pps=7e6))
    points = sweep(switch, LOADS, repetitions=2).points
    assert [point.intended_pps for point in points] == LOADS + LOADS


def test_sweep_refuses_short_budget_and_few_loads() -> None:
    switch = SimulatedSwitch(Behaviour(capacity_pps=7e6))
    with pytest.raises(BudgetError):
        sweep(switch, LOADS, budget_s=100.0)
    assert switch.now_s <= 100.0
    with pytest.raises(UsageError, match="three or more"):
        sweep(switch, [1e6, 2e6])
    with pytest.raises(UsageError, match="too few"):
        fit([switch.measure(1.0, load) for load in (1e6, 2e6, 2e6)])
