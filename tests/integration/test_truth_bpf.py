"""Truths that a BPF program makes, frame by frame, on the Linux bridge: losses, copies, overtaken
frames, delays, and a switch that needs its time after an overload. Nothing of it is ours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from switchmark.certify.support.stand import Rig, deployed
from switchmark.method.ndr_pdr import search
from switchmark.method.recovery import OVERLOAD, RELIEF
from switchmark.method.soak import soak
from switchmark.method.support.goal import Goal
from switchmark.model.campaign import TrimPolicy
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.support.ports import device_of
from switchmark.trial import latency
from switchmark.trial.disturbed import DisturbedMeasurer
from tests.integration import bpf_rig
from tests.integration.bpf_rig import hooked, index_of
from tests.integration.machine import needs_root
from tests.integration.truth_rig import find, find_difference
from tests.truths import truth

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("module_state_dir"),
    pytest.mark.skipif(not bpf_rig.CLANG, reason=bpf_rig.WHY_NOT),
    needs_root,
]

DROP_EVERY, COPY_EVERY, SLOW_EVERY = 64, 50, 50
DROP_SHARE = 0.003
DELAY_NS, WITHIN_NS = 30_000, 2_000
LATENCY_RUN_S = 0.3
SHORT = TrimPolicy(warm_up_s=0.1)
LIMIT_PPS, WINDOW_S, HOLD_S = 20_000, 0.01, 0.3
HELD_WITHIN_S = 0.03  # a window, a sample, and the ways of the bench
SLOW_CLASS = 0x10002  # 1:2


@pytest.fixture(scope="module")
def rig(module_state_dir: None) -> Iterator[Rig]:
    """One bridge for all. Both applications on one core: pauses of the sender are made up for."""
    with deployed(LinuxBridge(), application_cpus="1") as made:
        yield made


def bridge_of(rig: Rig) -> LinuxBridge:
    switch = rig.deployment.switch
    assert isinstance(switch, LinuxBridge)
    return switch


@truth("frames lost", "every 64th dropped by BPF", "kernel", "exact")
def test_every_nth_frame_dropped_is_counted_exactly(rig: Rig, tmp_path: Path) -> None:
    with hooked(bridge_of(rig), tmp_path, bpf_rig.DROP_EVERY, 0, EVERY=DROP_EVERY):
        sent = 0
        for load in (1_000, 5_000, 20_000):
            measurer = rig.measurer
            point = measurer.measure(0.5, load)
            # The program counts on, from trial to trial; nothing else passes the bridge.
            due = (sent + point.offered_frames) // DROP_EVERY - sent // DROP_EVERY
            sent += point.offered_frames
            assert point.lost_frames - measurer.asides[-1].socket_drops == due > 0


@truth("ndr-pdr", "every 64th dropped by BPF", "kernel", "loss ratio between 1.5 and 1.6 %")
def test_a_search_tells_the_loss_ratio_of_every_nth_frame_dropped(rig: Rig, tmp_path: Path) -> None:
    """1/64 whatever the load: goals above it are met to the highest load, those below nowhere."""
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

    with hooked(bridge_of(rig), tmp_path, bpf_rig.DROP_EVERY, 0, EVERY=DROP_EVERY):
        find(0, 0, wrong)


@truth("soak", "frames dropped at random by BPF", "kernel", "4 standard deviations")
def test_a_soak_finds_the_share_of_frames_dropped_at_random(rig: Rig, tmp_path: Path) -> None:
    share = round(DROP_SHARE * 2**32)
    with hooked(bridge_of(rig), tmp_path, bpf_rig.DROP_SHARE, 0, SHARE=share):
        measurer = rig.measurer
        found = soak(measurer, 20_000, duration_s=1.5, window_s=0.5)
    due = DROP_SHARE * found.offered_frames
    lost = found.lost_frames - sum(one.socket_drops for one in measurer.asides)
    assert found.offered_frames > 1_000
    assert abs(lost - due) <= 4 * math.sqrt(due)
    assert found.lossy_windows == len(found.windows) == 3


@truth("frames doubled", "every 50th copied by BPF", "kernel", "exact")
def test_copies_are_counted_exactly_and_are_no_gain(rig: Rig, tmp_path: Path) -> None:
    switch = bridge_of(rig)
    with hooked(switch, tmp_path, bpf_rig.COPY_EVERY, 0, EVERY=COPY_EVERY,
                DEVICE=index_of(switch, 1)):  # fmt: skip
        measurer = rig.measurer
        point = measurer.measure(0.5, 5_000)
    assert measurer.asides[-1].duplicates == point.offered_frames // COPY_EVERY > 0
    assert point.lost_frames == measurer.asides[-1].socket_drops == 0


@truth("frames reordered", "every 50th held in a class of `tc htb`", "kernel", "exact")
def test_overtaken_frames_are_counted_exactly_and_are_no_loss(rig: Rig, tmp_path: Path) -> None:
    """The class lets pass two fifths of what comes into it. Its bucket holds one frame, and may be
    overdrawn by one: two pass at once, each later one waits for longer than the next frame needs.
    """
    switch, load = bridge_of(rig), 5_000
    device = device_of(switch.ports[1])
    slow_bits = round(0.4 * load / SLOW_EVERY * 60 * 8)
    switch.namespace.batch("tc", [
        f"qdisc add dev {device} root handle 1: htb default 1",
        f"class add dev {device} parent 1: classid 1:1 htb rate 1gbit burst 100k quantum 1514",
        f"class add dev {device} parent 1: classid 1:2 htb rate {slow_bits} burst 60 cburst 60 "
        "quantum 1514",
    ])  # fmt: skip

    def not_overtaken() -> float:
        measurer = rig.measurer
        with hooked(switch, tmp_path, bpf_rig.CLASS_EVERY, 0, EVERY=SLOW_EVERY, CLASS=SLOW_CLASS):
            point = measurer.measure(0.3, load)
        assert point.lost_frames == measurer.asides[-1].socket_drops
        return point.offered_frames // SLOW_EVERY - measurer.asides[-1].reordered

    try:
        find(2, 0, not_overtaken)
    finally:
        switch.namespace.batch("tc", [f"qdisc del dev {device} root"])


@truth("latency, one way", "BPF that spins for 30 us", "kernel", "2 us above the floor")
def test_one_way_times_are_the_floor_and_the_time_spun(rig: Rig, tmp_path: Path) -> None:
    def shortest_ns(what: str) -> float:
        with spinning(rig, tmp_path, *([0] if what else [])):
            _, found = rig.measurer.measure_latency(LATENCY_RUN_S, 2_000, 1)
        return found.min_ns

    find_difference({"spin": DELAY_NS}, WITHIN_NS, shortest_ns)


@truth("latency, round trip", "BPF that spins for 30 us each way", "kernel", "4 us above the floor")
def test_round_trips_are_the_floor_and_the_time_spun_both_ways(tmp_path: Path) -> None:
    with deployed(LinuxBridge(), dimension="latency", rate="2000") as rig:
        trial = rig.plan.trial.model_copy(update={"duration_s": LATENCY_RUN_S})

        def shortest_ns(what: str) -> float:
            with spinning(rig, tmp_path, *([0, 1] if what else [])):
                found = latency.measure(trial, rig.deployment.ends, SHORT, lambda: None).latency
            assert found is not None
            return found.min_ns

        find_difference({"spin": 2 * DELAY_NS}, 2 * WITHIN_NS, shortest_ns)


@contextmanager
def spinning(rig: Rig, folder: Path, *ports: int) -> Iterator[None]:
    """Every frame that comes in by these ports costs the bridge so long; none: by no port."""
    with ExitStack() as stack:
        if ports:
            delay = hooked(bridge_of(rig), folder, bpf_rig.DELAY, *ports, DELAY_NS=DELAY_NS)
            stack.enter_context(delay)
        yield


@truth("recovery", "BPF that drops for 300 ms after an overload", "kernel", "30 ms")
def test_recovery_is_as_long_as_nothing_passes_after_the_overload(rig: Rig, tmp_path: Path) -> None:
    window_ns, hold_ns = round(WINDOW_S * 1e9), round(HOLD_S * 1e9)
    limit = round(LIMIT_PPS * WINDOW_S)

    def recovered_s() -> float:
        measurer = DisturbedMeasurer(rig.plan.trial, rig.deployment.ends, lambda: None)
        step = measurer.step_down(0.4, OVERLOAD * LIMIT_PPS, 0.8, RELIEF * LIMIT_PPS)
        return step.gap_s + (step.last_loss.seconds if step.last_loss else 0.0)

    with hooked(bridge_of(rig), tmp_path, bpf_rig.HOLD_AFTER_OVERLOAD, 0, WINDOW_NS=window_ns,
                LIMIT=limit, HOLD_NS=hold_ns):  # fmt: skip
        find(HOLD_S, HELD_WITHIN_S, recovered_s)
