"""RFC 2544 26.3: loads fall in tenths until two consecutive trials are clean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import UsageError
from switchmark.method.loss_vs_load import loss_vs_load
from switchmark.method.support.measurer import LoadPoint
from switchmark.simulation.switch import Behaviour, SimulatedSwitch


def run(
    capacity_pps: Any, *, step: float = 0.1, budget_s: Any = float("inf"), **faults: Any
) -> Any:
    switch = SimulatedSwitch(Behaviour(capacity_pps=capacity_pps, **faults))
    return loss_vs_load(switch, max_pps=10e6, step=step, budget_s=budget_s)


def test_curve_stops_after_two_clean_trials() -> None:
    curve = run(7.5e6)
    assert [round(p.intended_pps / 1e6, 6) for p in curve.points] == [10, 9, 8, 7, 6]
    assert [p.loss_ratio for p in curve.points] == pytest.approx([0.25, 1 / 6, 0.0625, 0, 0])
    assert curve.stopped == "two clean trials"
    assert curve.lossless_from_pps == pytest.approx(7e6)


@given(capacity=st.floats(2.5e6, 9.9e6), step=st.sampled_from([0.1, 0.05, 0.03]))
def test_lossless_load_is_within_a_step_of_capacity(capacity: Any, step: Any) -> None:
    curve = run(capacity, step=step)
    assert curve.lossless_from_pps <= capacity + 0.1
    assert curve.lossless_from_pps >= capacity - step * 10e6 - 0.1


def test_curve_without_clean_trial_ends_at_lowest_step() -> None:
    curve = run(0.2e6)
    assert (curve.stopped, curve.lossless_from_pps) == ("lowest load", None)
    assert len(curve.points) == 10


def test_load_never_offered_is_not_clean() -> None:
    curve = run(50e6, sender_ceiling_pps=6.5e6)
    assert len(curve.unmet) == 4
    assert curve.lossless_from_pps == pytest.approx(6e6)


def test_curve_ends_with_budget_and_refuses_large_step() -> None:
    curve = run(7.5e6, budget_s=130.0)
    assert (curve.stopped, len(curve.points)) == ("budget", 2)
    assert curve.lossless_from_pps is None
    with pytest.raises(UsageError, match=r"at most 0\.1"):
        run(7.5e6, step=0.2)


def test_lossless_load_is_the_arrived_rate() -> None:
    """A sender was descheduled for 6 % of each trial. These frames are excused, but not carried."""

    class Away:
        def measure(self, duration_s: Any, load_pps: Any) -> Any:
            scheduled = round(load_pps * duration_s)
            late = round(0.06 * scheduled)
            return LoadPoint(
                intended_pps=load_pps, offered_pps=0.94 * load_pps, forwarded_pps=0.94 * load_pps,
                offered_frames=scheduled - late, lost_frames=0, late_frames=late,
                duration_s=duration_s,
            )  # fmt: skip

    curve = loss_vs_load(Away(), max_pps=1e6, trial_s=1.0)
    assert curve.stopped == "two clean trials"
    assert curve.lossless_from_pps == pytest.approx(0.94e6)
    assert len(curve.unmet) == 2
