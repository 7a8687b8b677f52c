"""Searches find the limit of a switch although applications or the switch lose their cores."""

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
    """The same trials, with all losses counted against the switch."""

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
@pytest.mark.parametrize("part", ["sender", "receiver", "switch"])
def test_ndr_is_found_if_one_part_stalls(part: str, goals: str) -> None:
    for seed in range(5):
        switch = StallingSwitch(CAPACITY_PPS, replace(BUSY, parts=(part,)), seed)
        assert ndr(switch, goals) == pytest.approx(CAPACITY_PPS, rel=0.01), seed


def test_ndr_is_found_if_all_parts_stall() -> None:
    for seed in range(5):
        found = ndr(StallingSwitch(CAPACITY_PPS, replace(BUSY, per_s=4), seed))
        assert found == pytest.approx(CAPACITY_PPS, rel=0.01), seed


def test_search_without_excuses_finds_a_low_ndr() -> None:
    found = ndr(Unexcused(StallingSwitch(CAPACITY_PPS, replace(BUSY, per_s=4))))
    assert found is None or found < CAPACITY_PPS / 2


def test_overload_is_not_excused_as_a_stall() -> None:
    for seed in range(20):
        switch = StallingSwitch(CAPACITY_PPS, BUSY, seed)
        assert switch.measure(1.0, 1.02 * CAPACITY_PPS).search_loss_ratio > 0.005


def test_disturbed_trial_is_repeated_and_the_best_counts() -> None:
    calm = StallingSwitch(CAPACITY_PPS, Stalls(per_s=1e-6)).measure(1.0, 1e6)
    points = iter(
        [
            replace(calm, stalled_s=0.3),
            replace(calm, lost_away=80_000, forwarded_pps=0.92e6),
            replace(calm, stalled_s=0.2),
        ]
    )

    class Scripted:
        def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
            return next(points)

    budgeted = BudgetedMeasurer(Scripted(), repeats=2)
    assert budgeted.measure(1.0, 1e6).lost_away == 80_000
    assert len(budgeted.repeated) == 2
    assert len(budgeted.points) == 1


def test_trial_without_its_load_excuses_nothing() -> None:
    calm = StallingSwitch(CAPACITY_PPS, Stalls(per_s=1e-6)).measure(1.0, 1e6)
    away = replace(calm, offered_frames=880_000, late_frames=120_000)
    assert away.excused_frames == 0
    assert away.search_loss_ratio == pytest.approx(0.12)
    assert replace(away, offered_frames=910_000, late_frames=90_000).search_loss_ratio == 0


def test_r_plus_repeats_trials_with_stalls() -> None:
    """Only some trials have stalls of the switch, and these are measured again."""
    found = measure_r_plus(StallingSwitch(CAPACITY_PPS, Stalls(per_s=1.0)), trial_s=1.0)
    assert found.repeated > 0
    assert found.pps == pytest.approx(CAPACITY_PPS, rel=0.05)
