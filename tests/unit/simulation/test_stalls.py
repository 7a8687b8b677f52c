"""Applications and switches that lose their cores: searches find the switch's limit all the
same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from switchmark.method import ndr_pdr
from switchmark.method.r_plus import measure_r_plus
from switchmark.method.support.goal import preset
from switchmark.method.support.measurer import BudgetedMeasurer, LoadPoint
from switchmark.simulation.stalls import StallingSwitch, Stalls

CAPACITY_PPS = 7e6
BUSY = Stalls(per_s=2)


class Unexcused:
    """The same trials as they were judged when everything lost was the switch's."""

    def __init__(self, switch: StallingSwitch) -> None:
        self._switch = switch

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        point = self._switch.measure(duration_s, load_pps)
        return replace(
            point, lost_frames=point.lost_away, lost_away=0, late_frames=0, stalled_s=0.0
        )


def ndr(measurer: object, goals: str = "csit") -> float | None:
    found = ndr_pdr.search(measurer, preset(goals), max_pps=2e7)  # type: ignore[arg-type]
    return found["NDR"].lower_pps


@pytest.mark.parametrize("goals", ["csit", "quick"])
@pytest.mark.parametrize("whose", ["sender", "receiver", "switch"])
def test_the_ndr_is_found_whoever_loses_a_core(whose: str, goals: str) -> None:
    for seed in range(5):
        switch = StallingSwitch(CAPACITY_PPS, replace(BUSY, whose=(whose,)), seed)
        assert ndr(switch, goals) == pytest.approx(CAPACITY_PPS, rel=0.01), seed


def test_the_ndr_is_found_where_all_do() -> None:
    for seed in range(5):
        found = ndr(StallingSwitch(CAPACITY_PPS, replace(BUSY, per_s=4), seed))
        assert found == pytest.approx(CAPACITY_PPS, rel=0.01), seed


def test_without_the_excuses_the_same_trials_find_next_to_nothing() -> None:
    found = ndr(Unexcused(StallingSwitch(CAPACITY_PPS, replace(BUSY, per_s=4))))
    assert found is None or found < CAPACITY_PPS / 2


def test_an_overload_is_no_stall() -> None:
    for seed in range(20):
        switch = StallingSwitch(CAPACITY_PPS, BUSY, seed)
        assert switch.measure(1.0, 1.02 * CAPACITY_PPS).search_loss_ratio > 0.005


def test_a_trial_that_says_little_is_measured_again_and_the_calmest_one_stands() -> None:
    calm = StallingSwitch(CAPACITY_PPS, Stalls(per_s=1e-6)).measure(1.0, 1e6)
    points = iter(
        [
            replace(calm, stalled_s=0.3),
            replace(calm, lost_away=80_000, forwarded_pps=0.92e6),
            replace(calm, stalled_s=0.2),
        ]
    )

    class Given:
        def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
            return next(points)

    asked = BudgetedMeasurer(Given(), repeats=2)
    assert asked.measure(1.0, 1e6).lost_away == 80_000
    assert len(asked.repeated) == 2
    assert len(asked.points) == 1


def test_a_trial_whose_load_was_never_on_excuses_nothing() -> None:
    calm = StallingSwitch(CAPACITY_PPS, Stalls(per_s=1e-6)).measure(1.0, 1e6)
    away = replace(calm, offered_frames=880_000, late_frames=120_000)
    assert away.excused_frames == 0
    assert away.search_loss_ratio == pytest.approx(0.12)
    assert replace(away, offered_frames=910_000, late_frames=90_000).search_loss_ratio == 0


def test_r_plus_of_trials_that_were_calm() -> None:
    """Where the switch is kept from its core in some trials only, these are measured again."""
    found = measure_r_plus(StallingSwitch(CAPACITY_PPS, Stalls(per_s=1.0)), trial_s=1.0)
    assert found.repeated > 0
    assert found.pps == pytest.approx(CAPACITY_PPS, rel=0.05)
