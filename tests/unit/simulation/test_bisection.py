"""Plain bisection finds the capacity without noise, and a wrong load with noise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.errors import UsageError
from switchmark.simulation import bisection
from switchmark.simulation.switch import Behaviour, SimulatedSwitch


def run(
    capacity_pps: float = 3.3e6,
    loss: float = 0.0,
    *,
    seed: int = 0,
    budget_s: float = 1e9,
    **faults: Any,
) -> Any:
    switch = SimulatedSwitch(Behaviour(capacity_pps=capacity_pps, **faults), seed)
    goal = bisection.bisection_goal("NDR", loss)
    return bisection.search(switch, goal, max_pps=20e6, budget_s=budget_s)


@settings(max_examples=150, deadline=None)
@given(capacity=st.floats(2e4, 1.8e7), loss=st.sampled_from([0.0, 0.005, 0.05]))
def test_bounds_contain_the_capacity(capacity: Any, loss: Any) -> None:
    (bounds,) = run(capacity, loss).bounds
    truth = capacity / (1 - loss)
    assert bounds.lower_pps <= truth + 0.1
    assert bounds.upper_pps >= truth - 0.1
    assert bounds.reached


@settings(max_examples=60, deadline=None)
@given(budget=st.floats(10, 2000), noise=st.sampled_from([0.0, 0.05]))
def test_search_stays_within_budget(budget: Any, noise: Any) -> None:
    result = run(budget_s=budget, trial_noise=noise)
    assert result.spent_s <= budget
    assert (result.stopped == "budget") == (not result.bounds[0].reached)


def test_number_of_trials_follows_from_halving() -> None:
    assert 10 <= len(run().trials) <= 14


def test_one_disturbed_trial_changes_the_result() -> None:
    ends = [run(seed=seed, rare_losses_per_s=1 / 60).bounds[0].lower_pps for seed in range(40)]
    assert sum(end is None or end < 0.9 * 3.3e6 for end in ends) > 30


def test_capacity_outside_range_is_reported() -> None:
    assert run(30e6).bounds[0].decided_by == "range"
    assert run(30e6).bounds[0].lower_pps == 20e6
    low = run(5e3).bounds[0]
    assert (low.lower_pps, low.decided_by) == (None, "range")
    assert low.upper_pps == 9001.0


def test_impossible_range_is_refused() -> None:
    with pytest.raises(UsageError, match="finite maximum"):
        bisection.search(
            SimulatedSwitch(Behaviour(capacity_pps=1e6)),
            bisection.bisection_goal("NDR", 0.0),
            max_pps=float("inf"),
        )
