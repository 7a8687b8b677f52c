"""The simulated switch follows its behaviour, on which other tests rely."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
from typing import Any

import pytest

from switchmark.method.support.measurer import SATURATING
from switchmark.simulation.switch import Behaviour, SimulatedSwitch
from tests.unit.calls import calls_of

CAPACITY = 2e6


def switch(seed: int = 0, **faults: Any) -> Any:
    return SimulatedSwitch(Behaviour(capacity_pps=CAPACITY, **faults), seed)


def test_only_the_load_above_capacity_is_lost() -> None:
    below = switch().measure(1.0, 1.9e6)
    above = switch().measure(1.0, 2.5e6)
    assert (below.offered_frames, below.lost_frames) == (1_900_000, 0)
    assert (above.offered_frames, above.lost_frames) == (2_500_000, 500_000)
    assert above.forwarded_pps == pytest.approx(CAPACITY)
    assert above.load_met


def test_saturating_input_forwards_the_capacity() -> None:
    point = switch().measure(2.0, SATURATING)
    assert point.intended_pps is None
    assert point.forwarded_pps == pytest.approx(CAPACITY)


def test_buffer_absorbs_its_size() -> None:
    burst_s = 1e-3  # 4,000 frames arrive, 2,000 leave
    assert switch(buffer_frames=2000).measure(burst_s, 4e6).lost_frames == 0
    assert switch(buffer_frames=1500).measure(burst_s, 4e6).lost_frames == 500


def test_back_pressure_refuses_instead_of_losing() -> None:
    point = switch(back_pressure=True).measure(1.0, 4e6)
    assert point.lost_frames == 0
    assert point.shortfall_frames == 2_000_000
    assert not point.load_met
    assert point.ring_full_share > 0.05


def test_slow_sender_falls_short_without_full_ring() -> None:
    point = switch(sender_ceiling_pps=1e6).measure(1.0, 1.5e6)
    assert (point.offered_frames, point.lost_frames) == (1_000_000, 0)
    assert not point.load_met
    assert point.ring_full_share == 0.0


def test_rare_losses_have_their_rate_at_any_load() -> None:
    device = switch(rare_losses_per_s=0.5, rare_loss_frames=7)
    points = [device.measure(1.0, 1e5) for _ in range(4000)]
    assert all(point.lost_frames % 7 == 0 for point in points)
    assert sum(p.lost_frames for p in points) / 7 / 4000 == pytest.approx(0.5, rel=0.1)


def test_noise_has_its_standard_deviation() -> None:
    device = switch(trial_noise=0.02)
    values = [device.measure(1.0, SATURATING).forwarded_pps for _ in range(3000)]
    assert statistics.stdev(values) / CAPACITY == pytest.approx(0.02, rel=0.1)
    assert statistics.median(values) == pytest.approx(CAPACITY, rel=0.002)


def test_two_bands_have_their_shares() -> None:
    device = switch(second_band=0.8, second_band_share=0.25)
    values = [device.measure(1.0, SATURATING).forwarded_pps for _ in range(4000)]
    low = sum(value < 0.9 * CAPACITY for value in values)
    assert {round(value / CAPACITY, 3) for value in values} == {0.8, 1.0}
    assert low / 4000 == pytest.approx(0.25, abs=0.03)


def test_bands_stay_with_their_correlation() -> None:
    device = switch(second_band=0.8, band_stay=0.95)
    values = [device.measure(1.0, SATURATING).forwarded_pps for _ in range(2000)]
    changes = sum(a != b for a, b in pairwise(values))
    assert changes / 2000 == pytest.approx(0.025, abs=0.015)


def test_drift_and_warm_up_follow_the_clock() -> None:
    drifting = switch(drift_per_hour=-0.1)
    first = drifting.measure(1.0, SATURATING).forwarded_pps
    drifting.now_s = 3600.0
    assert drifting.measure(1.0, SATURATING).forwarded_pps / first == pytest.approx(0.9, rel=1e-3)
    warming = switch(warm_up_s=5.0, warm_up_depth=0.4)
    assert warming.measure(0.1, SATURATING).forwarded_pps < 0.62 * CAPACITY
    warming.now_s = 60.0
    assert warming.measure(1.0, SATURATING).forwarded_pps == pytest.approx(CAPACITY, rel=1e-3)


def test_overload_decline_lowers_forwarded_rate() -> None:
    device = switch(overload_decline=0.2)
    assert device.measure(1.0, 4e6).forwarded_pps == pytest.approx(0.8 * CAPACITY)


def test_runs_are_determined_by_their_seed() -> None:
    def run(seed: Any) -> Any:
        device = switch(seed, trial_noise=0.01, rare_losses_per_s=1.0)
        return [device.measure(1.0, 2e6) for _ in range(20)]

    assert run(3) == run(3)
    assert run(3) != run(4)


def test_measurement_needs_few_calls() -> None:
    device = switch(trial_noise=0.01)
    _, calls = calls_of(lambda: [device.measure(1.0, 2e6) for _ in range(5000)])
    assert calls < 5000 * 150  # about 75 in each measurement
    assert math.isclose(device.now_s, 5000.0)
