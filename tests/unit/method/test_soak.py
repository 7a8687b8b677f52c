"""A soak counts losses, limits unobserved losses, and finds slow changes."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from switchmark.errors import TrialFailed, UsageError
from switchmark.method.soak import soak
from switchmark.method.support.measurer import BudgetError, LoadPoint
from switchmark.simulation.switch import Behaviour, SimulatedSwitch
from switchmark.statistics.shares import share_interval


def run(
    seed: int = 0,
    *,
    load_pps: float = 1e6,
    duration_s: float = 3600.0,
    budget_s: Any = float("inf"),
    **faults: Any,
) -> Any:
    switch = SimulatedSwitch(Behaviour(capacity_pps=2e6, **faults), seed)
    return soak(switch, load_pps, duration_s=duration_s, budget_s=budget_s)


def test_soak_without_loss_has_an_upper_limit() -> None:
    found = run()
    assert (found.lost_frames, found.lossy_windows) == (0, 0)
    assert found.offered_frames == 3_600_000_000
    assert found.loss_ratio_limit == pytest.approx(3 / 3.6e9)
    assert found.lossy_share_high == pytest.approx(1 - 0.025 ** (1 / 60), rel=1e-3)
    assert found.longest_clean_s == 3600.0
    assert found.course.steady


def test_rare_losses_are_counted_exactly() -> None:
    found = run(rare_losses_per_s=1 / 300, rare_loss_frames=50)
    assert found.lost_frames == sum(window.lost_frames for window in found.windows) > 0
    assert found.lost_frames % 50 == 0
    assert found.loss_ratio == found.lost_frames / 3_600_000_000
    assert found.loss_ratio_limit is None


def test_interval_of_lossy_windows_covers() -> None:
    true_share = 1 - 2.718281828459045 ** (-60 / 300)
    covered = 0
    for seed in range(400):
        found = run(seed, rare_losses_per_s=1 / 300)
        covered += found.lossy_share_low <= true_share <= found.lossy_share_high
    assert covered / 400 >= 0.94  # Clopper-Pearson covers at least at its nominal rate


def test_share_interval_equals_published_values() -> None:
    low, high = share_interval(3, 20)
    assert (low, high) == (pytest.approx(0.0321, abs=1e-4), pytest.approx(0.3789, abs=1e-4))
    assert share_interval(0, 1) == (0.0, pytest.approx(0.975))
    assert share_interval(1, 1) == (pytest.approx(0.025), 1.0)


def test_share_interval_of_many_windows_is_normal() -> None:
    """Half of 1440 windows have more combinations than the largest float."""
    for total in (1440, 20_000):
        half = 1.96 * 0.5 / math.sqrt(total)
        found = share_interval(total // 2, total)
        assert found == pytest.approx((0.5 - half, 0.5 + half), abs=1 / total)
    assert share_interval(0, 1440)[1] == pytest.approx(1 - 0.025 ** (1 / 1440))


def test_drift_and_bands_are_detected() -> None:
    sinking = run(load_pps=2.1e6, drift_per_hour=-0.1, trial_noise=0.002)
    assert not sinking.course.steady
    flapping = run(load_pps=2.1e6, second_band=0.8, duration_s=7200.0)
    assert flapping.course.bands is not None


def test_load_below_intended_is_not_met() -> None:
    assert not run(load_pps=1.5e6, sender_ceiling_pps=1e6).load_met


def test_budget_ends_soak_with_its_windows() -> None:
    dice = random.Random(1)
    for _ in range(20):
        budget = dice.uniform(60, 4000)
        found = run(budget_s=budget)
        assert sum(window.cost_s for window in found.windows) <= budget
        assert len(found.windows) == min(60, int(budget // 60))
    with pytest.raises(BudgetError):
        run(budget_s=59.0)


def test_window_longer_than_soak_is_refused() -> None:
    with pytest.raises(UsageError, match="window"):
        run(duration_s=30.0)


class Scripted:
    """Windows of ten samples with these rates. At "dies", the switch ends."""

    def __init__(self, *windows: Any) -> None:
        self.windows = list(windows)

    def measure(self, duration_s: Any, load_pps: Any) -> Any:
        rates = self.windows.pop(0)
        if rates == "dies":
            raise TrialFailed("bridge: was killed by signal 9")
        arrived = round(sum(rates) * duration_s / 10)
        return LoadPoint(
            intended_pps=load_pps, offered_pps=arrived / duration_s, offered_frames=arrived,
            forwarded_pps=arrived / duration_s, lost_frames=0, duration_s=duration_s,
            samples_pps=tuple(rates), sample_s=duration_s / 10,
        )  # fmt: skip


ALL, HALF_1, HALF_2 = [1e4] * 10, [1e4] * 5 + [0.0] * 5, [0.0] * 3 + [1e4] * 7


def test_soak_with_outage_continues() -> None:
    """The port accepted no frame, so no frame was lost, and loss alone would not show it."""
    found = soak(Scripted(ALL, HALF_1, HALF_2, ALL), 1e4, duration_s=40.0, window_s=10.0)
    assert len(found.windows) == 4
    assert found.loss_ratio == 0.0
    assert found.silence_s == pytest.approx(8.0)
    assert found.silence_window == 2
    assert not any(window.samples_pps for window in found.windows), "memory would grow for hours"
    assert found.unoffered_ratio == pytest.approx(8 / 40)
    assert not found.load_met


def test_load_of_few_frames_has_no_silence() -> None:
    found = soak(Scripted([10.0, 0.0] * 5), 5.0, duration_s=10.0, window_s=10.0)
    assert found.silence_s is None


def test_dead_switch_ends_soak_with_its_result() -> None:
    with pytest.raises(TrialFailed) as failed:
        soak(Scripted(ALL, ALL, "dies"), 1e4, duration_s=40.0, window_s=10.0)
    assert str(failed.value) == (
        "bridge: was killed by signal 9; 2 windows of 10 s had passed, in which 0 of 200000 "
        "frames were lost"
    )
    with pytest.raises(TrialFailed, match=r"signal 9$"):
        soak(Scripted("dies"), 1e4, duration_s=40.0, window_s=10.0)
