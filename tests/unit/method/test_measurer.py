"""Loss, shortfall and budget, which all methods compute in the same way."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.method import ndr_pdr
from switchmark.method.support.goal import preset
from switchmark.method.support.measurer import (
    BudgetedMeasurer,
    BudgetError,
    LoadPoint,
)
from switchmark.simulation.switch import Behaviour, SimulatedSwitch


def point(**changes: Any) -> Any:
    values = {
        "intended_pps": 1000.0,
        "offered_pps": 1000.0,
        "forwarded_pps": 1000.0,
        "offered_frames": 1000,
        "lost_frames": 0,
        "duration_s": 1.0,
    }
    return LoadPoint(**(values | changes))


def test_lost_and_unoffered_frames_are_distinguished() -> None:
    short = point(offered_frames=900, lost_frames=9)
    assert short.loss_ratio == pytest.approx(0.01)
    assert short.shortfall_ratio == pytest.approx(0.1)
    assert short.search_loss_ratio == pytest.approx(0.109)
    assert not short.load_met


def test_shortfall_within_tolerance_is_not_loss() -> None:
    almost = point(offered_frames=999)
    assert almost.load_met
    assert almost.search_loss_ratio == 0.0


def test_load_with_excused_frames_is_judged_but_not_met() -> None:
    away = point(offered_frames=950, late_frames=50)
    assert away.load_judged
    assert not away.load_met
    assert away.search_loss_ratio == 0.0


def test_few_frames_lost_while_away_are_excused() -> None:
    little = point(lost_away=100)
    assert (little.uncarried_frames, little.search_loss_ratio) == (0, 0.0)
    most = point(lost_away=101)
    assert (most.uncarried_frames, most.search_loss_ratio) == (101, 0.101)
    assert (most.judged_lost_frames, most.loss_ratio) == (101, 0.101)
    both = point(offered_frames=940, late_frames=60, lost_away=60)
    assert both.excused_frames == 0, "together they are too many"
    assert both.search_loss_ratio == pytest.approx(0.12)


def test_carried_rate_counts_arrivals_in_its_trial() -> None:
    assert point().carried_pps == 1000.0
    some = point(offered_frames=900, lost_frames=10, lost_away=20, queued_frames=30)
    assert some.carried_pps == 840.0
    assert point(duration_s=2.0).carried_pps == 500.0


def test_scheduled_count_precedes_rate_times_duration() -> None:
    assert point(intended_frames=960, offered_frames=960).load_met
    assert not point(offered_frames=960).load_met


def test_saturating_input_has_no_shortfall() -> None:
    assert point(intended_pps=None, offered_frames=12).load_met
    assert point(intended_pps=None, offered_frames=0).loss_ratio == 0.0


@pytest.mark.parametrize("lost", [-1, 1001])
def test_impossible_counts_are_refused(lost: Any) -> None:
    with pytest.raises(SwitchmarkError, match="impossible counts"):
        point(lost_frames=lost)


def test_budget_of_zero_is_refused() -> None:
    with pytest.raises(UsageError, match="above 0"):
        BudgetedMeasurer(SimulatedSwitch(Behaviour(capacity_pps=1e6)), 0.0)


class Rounding:
    """A measurer with overhead, and with a sender that only paces multiples of `step`."""

    def __init__(self, step: Any) -> None:
        self.step = step

    def measure(self, duration_s: Any, load_pps: Any) -> Any:
        load = round(load_pps / self.step) * self.step
        frames = round(load * duration_s)
        return point(
            intended_pps=load,
            intended_frames=frames,
            offered_frames=frames,
            duration_s=duration_s * 1.01,
            elapsed_s=duration_s + 0.5,
        )


def test_rounded_load_keeps_the_requested_load() -> None:
    budgeted = BudgetedMeasurer(Rounding(1000.0))
    found = budgeted.measure(2.0, 3_326_672.667)
    assert (found.intended_pps, found.duration_s) == (3_326_672.667, 2.0)
    assert (found.intended_frames, found.load_met) == (6_654_000, True)
    assert budgeted.spent_s == 2.5


def test_search_accepts_rounded_loads() -> None:
    class Switch(Rounding):
        def measure(self, duration_s: Any, load_pps: Any) -> Any:
            rounded = super().measure(duration_s, load_pps)
            lost = max(0, rounded.offered_frames - round(2e6 * duration_s))
            return dataclasses.replace(rounded, lost_frames=lost)

    ndr = ndr_pdr.search(Switch(100.0), preset("csit"), max_pps=10e6)["NDR"]
    assert ndr.lower_pps <= 2e6 + 100 <= ndr.upper_pps + 200
    assert ndr.decided_by == "switch"


def test_measurer_with_another_load_is_refused() -> None:
    with pytest.raises(SwitchmarkError, match="measurer offered"):
        BudgetedMeasurer(Rounding(1e6)).measure(1.0, 1.4e6)


def test_saturating_input_has_no_intended_load() -> None:
    found = BudgetedMeasurer(SimulatedSwitch(Behaviour(capacity_pps=1e6))).measure(
        1.0, float("inf")
    )
    assert found.intended_pps is None
    assert found.load_met


@given(
    budget=st.floats(0.5, 100),
    durations=st.lists(st.floats(0.01, 20), min_size=1, max_size=30),
    overhead=st.floats(0, 3),
)
def test_spent_time_is_within_budget(budget: Any, durations: Any, overhead: Any) -> None:
    switch = SimulatedSwitch(Behaviour(capacity_pps=1e6, overhead_s=overhead))
    budgeted = BudgetedMeasurer(switch, budget, overhead_s=overhead)
    for duration in durations:
        try:
            budgeted.measure(duration, 1e5)
        except BudgetError:
            continue
    assert budgeted.spent_s <= budget + 1e-6
    assert switch.now_s == pytest.approx(budgeted.spent_s)
