"""RFC 2544 26.4 and RFC 9004 against a buffer whose size is known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.errors import UsageError
from switchmark.method.back_to_back import back_to_back
from switchmark.method.support.measurer import BudgetError
from switchmark.simulation.switch import Behaviour, SimulatedSwitch

RATE, CAPACITY = 10e6, 4e6


def run(
    buffer_frames: Any,
    *,
    throughput_pps: Any = CAPACITY,
    budget_s: Any = float("inf"),
    repetitions: int = 5,
    **faults: Any,
) -> Any:
    behaviour = {"capacity_pps": CAPACITY, "buffer_frames": buffer_frames} | faults
    switch = SimulatedSwitch(Behaviour(**behaviour))
    return back_to_back(
        switch,
        rate_pps=RATE,
        throughput_pps=throughput_pps,
        repetitions=repetitions,
        budget_s=budget_s,
    )


@settings(max_examples=100)
@given(frames=st.integers(2000, 500_000))
def test_buffer_is_found_within_resolution(frames: Any) -> None:
    found = run(frames)
    assert found.burst_frames.mean == pytest.approx(frames / (1 - CAPACITY / RATE), rel=0.03)
    assert found.buffer_frames == pytest.approx(frames, rel=0.03)
    assert found.buffer_s == pytest.approx(frames / RATE, rel=0.03)
    assert found.finished


def test_longest_burst_without_loss_is_none() -> None:
    found = run(0, capacity_pps=20e6)
    assert (found.burst_frames, found.endless_repetitions, found.buffer_s) == (None, 5, None)


def test_longest_burst_without_buffer_is_none() -> None:
    found = run(0)
    assert (found.burst_frames, found.all_lossy_repetitions) == (None, 5)


def test_buffer_without_throughput_is_none() -> None:
    found = run(10_000, throughput_pps=None)
    assert found.burst_frames is not None
    assert (found.buffer_s, found.buffer_frames) == (None, None)


def test_back_pressure_shows_as_refused_share() -> None:
    assert run(0, back_pressure=True).refused_share > 0.05
    assert run(10_000).refused_share == 0.0


def test_budget_ends_the_search() -> None:
    found = run(10_000, budget_s=6.5, repetitions=50)
    assert not found.finished
    assert sum(trial.cost_s for trial in found.trials) <= 6.5
    with pytest.raises(BudgetError):
        run(10_000, budget_s=1.0)


def test_shortest_burst_above_longest_is_refused() -> None:
    with pytest.raises(UsageError, match="shortest"):
        back_to_back(SimulatedSwitch(Behaviour(capacity_pps=1e6)), rate_pps=1e6, shortest_s=3.0)
