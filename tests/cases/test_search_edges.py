"""Searches whose sender does not reach the load, and switches below the lowest load.

From https://github.com/atheurer/trafficgen/pull/104 (a bound above the load that was really sent),
/pull/56 (nothing passes: the series goes on) and /pull/54 (integer loads halved wrongly). A load
that was not sent is not passed: the figure is "at least" the offered load, decided by the sender.
If no frame passes there is no figure, and no crash."""

from __future__ import annotations

import math
from typing import Any

import pytest

from switchmark.method import ndr_pdr
from switchmark.method.support.goal import PRESETS, preset
from switchmark.simulation.switch import Behaviour, SimulatedSwitch


def search(goals: str, max_pps: float, **behaviour: Any) -> Any:
    switch = SimulatedSwitch(Behaviour(**behaviour), 1)
    return ndr_pdr.search(
        switch, preset(goals), min_pps=max_pps / 1000, max_pps=max_pps, budget_s=1e9
    )


@pytest.mark.parametrize("goals", sorted(PRESETS))
def test_bound_is_at_most_what_the_sender_reached(goals: str) -> None:
    """The sender ends at 700,000 a second and the switch forwards more: no higher load is
    claimed."""
    found = search(goals, 100e6, capacity_pps=5e6, sender_ceiling_pps=700e3)
    for bounds in found.bounds:
        assert bounds.decided_by == "sender"
        assert bounds.lower_pps <= 700e3 * 1.01  # a load is met within less than 1 %
        assert bounds.conditional_throughput_pps <= 700e3 * 1.01


@pytest.mark.parametrize("goals", sorted(PRESETS))
def test_no_figure_if_nothing_passes(goals: str) -> None:
    """The switch carries 50 a second, and the lowest load of the search is 10,000."""
    found = search(goals, 10e6, capacity_pps=50)
    for bounds in found.bounds:
        assert not bounds.lower_pps or bounds.lower_pps <= 50 / (1 - bounds.loss_ratio) + 2


@pytest.mark.parametrize("highest", [3.0, 7.0, 10_001.0])
def test_small_and_odd_highest_loads_are_searched(highest: float) -> None:
    """A switch that forwards all of it ends at the highest load, not at a rounded half of it."""
    for bounds in search("quick", highest, capacity_pps=1e6).bounds:
        assert bounds.lower_pps == pytest.approx(highest, rel=1e-6)
        assert math.isfinite(bounds.lower_pps)
