"""Methods against faults that a BPF program injects frame by frame: losses on the Linux bridge, and
slow recovery after an overload. The faults are independent of the engine. `certify` checks counts,
order and times themselves (test_certify.py)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from switchmark.certify.support.frame_faults import drop, inject
from switchmark.certify.support.rig import Rig, deploy
from switchmark.errors import TrialFailed
from switchmark.method.ndr_pdr import search
from switchmark.method.recovery import OVERLOAD, RELIEF
from switchmark.method.soak import soak
from switchmark.method.support.goal import Goal
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.trial.disturbed import DisturbedMeasurer
from tests.integration.bpf_faults import dropped_at_random, held_after_overload
from tests.integration.machine import needs_root
from tests.integration.truth_rig import find
from tests.truths import truth

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    pytest.mark.usefixtures("module_state_dir"),
    needs_root,
]

DROP_EVERY = 64
DROP_SHARE = 0.003
LIMIT_PPS, WINDOW_S, HOLD_S = 20_000, 0.01, 0.3
HELD_WITHIN_S = 0.03  # a window, a sample, and the delays of the bench


@pytest.fixture(scope="module")
def rig(module_state_dir: None) -> Iterator[Rig]:
    """One bridge for all tests. Both applications share a core; the sender catches up after
    pauses."""
    with deploy(LinuxBridge(), application_cpus="1") as deployment:
        yield deployment


@truth("ndr-pdr", "every 64th dropped by BPF", "kernel", "loss ratio between 1.5 and 1.6 %")
def test_search_finds_the_loss_ratio_of_every_nth_frame(rig: Rig) -> None:
    """1/64 at every load: higher goals are met up to the highest load, lower goals nowhere."""
    ratios = {"NDR": 0.0, "below": 0.015, "above": 0.016}
    goals = [
        Goal(name=name, loss_ratio=ratio, initial_trial_s=0.5, final_trial_s=0.5,
             duration_sum_s=0.5, exceed_ratio=0.5, width=0.005)
        for name, ratio in ratios.items()
    ]  # fmt: skip
    lowest, highest = 8_000.0, 20_000.0

    def wrong() -> float:
        found = search(
            rig.measurer, goals, min_pps=lowest, max_pps=highest, warm_up_s=0, budget_s=30
        )
        passed = found["above"].conditional_throughput_pps or 0.0
        return sum([
            found["NDR"].lower_pps is not None,
            found["below"].lower_pps is not None,
            found["above"].lower_pps != highest,
            abs(passed / highest - (1 - 1 / DROP_EVERY)) > 1e-3,
        ])  # fmt: skip

    with inject(rig.bridge, drop(DROP_EVERY), 0):
        find(0, 0, wrong)


@truth("soak", "frames dropped at random by BPF", "kernel", "4 standard deviations")
def test_soak_finds_the_share_of_randomly_dropped_frames(rig: Rig) -> None:
    def deviations() -> float:
        with inject(rig.bridge, dropped_at_random(DROP_SHARE), 0) as truth_of_it:
            measurer = rig.measurer
            found = soak(measurer, 20_000, duration_s=1.5, window_s=0.5)
            assert truth_of_it.counts()[0] >= found.offered_frames
        if found.offered_frames <= 10_000:
            raise TrialFailed(f"the sender had its core for {found.offered_frames} frames")
        due = DROP_SHARE * found.offered_frames
        lost = found.lost_frames - sum(one.socket_drops for one in measurer.side_counts)
        assert found.lossy_windows == len(found.windows) == 3
        return (lost - due) / math.sqrt(due)

    find(0, 4, deviations)


@truth("recovery", "BPF that drops for 300 ms after an overload", "kernel", "30 ms")
def test_recovery_is_the_time_without_frames_after_overload(rig: Rig) -> None:
    window_ns, hold_ns = round(WINDOW_S * 1e9), round(HOLD_S * 1e9)
    limit = round(LIMIT_PPS * WINDOW_S)

    def recovered_s() -> float:
        measurer = DisturbedMeasurer(rig.plan.trial, rig.deployment.ends, lambda: None)
        step = measurer.step_down(0.4, OVERLOAD * LIMIT_PPS, 0.8, RELIEF * LIMIT_PPS)
        return step.gap_s + (step.last_loss.seconds if step.last_loss else 0.0)

    with inject(rig.bridge, held_after_overload(window_ns, limit, hold_ns), 0):
        find(HOLD_S, HELD_WITHIN_S, recovered_s)
