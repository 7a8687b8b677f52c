"""Loss, shortfall and budget: the arithmetic all methods share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.method.measurer import BudgetError, Ledger, LoadPoint, per_pair_pps
from switchmark.simulation.switch import Behaviour, SimulatedSwitch


def point(**changes):
    values = {
        "intended_pps": 1000.0,
        "offered_pps": 1000.0,
        "forwarded_pps": 1000.0,
        "offered_frames": 1000,
        "lost_frames": 0,
        "duration_s": 1.0,
    }
    return LoadPoint(**(values | changes))


def test_lost_and_never_offered_frames_are_told_apart():
    short = point(offered_frames=900, lost_frames=9)
    assert short.loss_ratio == pytest.approx(0.01)
    assert short.shortfall_ratio == pytest.approx(0.1)
    assert short.search_loss_ratio == pytest.approx(0.109)
    assert not short.load_met


def test_a_shortfall_within_tolerance_is_no_loss():
    almost = point(offered_frames=999)
    assert almost.load_met
    assert almost.search_loss_ratio == 0.0


def test_the_schedules_own_count_goes_before_rate_times_duration():
    assert point(intended_frames=960, offered_frames=960).load_met
    assert not point(offered_frames=960).load_met


def test_saturating_input_cannot_fall_short():
    assert point(intended_pps=None, offered_frames=12).load_met
    assert point(intended_pps=None, offered_frames=0).loss_ratio == 0.0


@pytest.mark.parametrize("lost", [-1, 1001])
def test_counts_that_cannot_be_are_refused(lost):
    with pytest.raises(SwitchmarkError, match="cannot be"):
        point(lost_frames=lost)


def test_loads_are_totals_divided_equally():
    assert per_pair_pps(9e6, 4) == 2.25e6


def test_a_budget_above_zero_is_needed():
    with pytest.raises(UsageError, match="above 0"):
        Ledger(SimulatedSwitch(Behaviour(capacity_pps=1e6)), 0.0)


@given(
    budget=st.floats(0.5, 100),
    durations=st.lists(st.floats(0.01, 20), min_size=1, max_size=30),
    overhead=st.floats(0, 3),
)
def test_what_is_spent_never_exceeds_the_budget(budget, durations, overhead):
    switch = SimulatedSwitch(Behaviour(capacity_pps=1e6, overhead_s=overhead))
    ledger = Ledger(switch, budget, overhead_s=overhead)
    for duration in durations:
        try:
            ledger.measure(duration, 1e5)
        except BudgetError:
            continue
    assert ledger.spent_s <= budget + 1e-6
    assert switch.now_s == pytest.approx(ledger.spent_s)
