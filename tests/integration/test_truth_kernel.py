"""Independent references: the kernel's shapers and device counters, ping, /proc, and a meter of
Open vSwitch.

The switch is the Linux bridge. `tc tbf` on its port limits the rate, and the kernel's devices count
the frames that pass. Only the bench's figures are under test.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import partial

import pytest

from switchmark.certify.support.rig import Rig, deploy
from switchmark.host.cores.cpu_time import process_cpu_s
from switchmark.method.loss_vs_load import loss_vs_load
from switchmark.method.plateau import sweep
from switchmark.method.r_plus import measure_r_plus
from switchmark.method.support.measurer import SATURATING
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.ovs_netdev import OvsNetdev
from switchmark.trial import latency
from tests.integration.machine import needs_root
from tests.integration.truth_rig import (
    buffer_frames,
    find,
    meter,
    search_over_truth,
    shape,
    shape_by_htb,
    unshape,
)
from tests.truths import percent, truth

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    pytest.mark.usefixtures("module_state_dir"),
    needs_root,
]

RATE_PPS = 20_000
FRAME_BYTES = 1000  # with FCS; the kernel counts 4 less
BUCKET_S = 0.005  # seconds of frames in the bucket, and as many in the queue before it
BUCKET_FRAMES = round(RATE_PPS * BUCKET_S)
TOLERANCE, BURST_TOLERANCE = 0.01, 0.06


@pytest.fixture(scope="class")
def shaped(module_state_dir: None) -> Iterator[Rig]:
    """A bridge behind a token bucket. The applications share a core, so that the sender catches up
    after pauses of up to 9 ms, which fit into bucket and queue."""
    switch = LinuxBridge()
    with deploy(switch, packet_size=str(FRAME_BYTES), application_cpus="1") as rig:
        shape(switch, RATE_PPS, FRAME_BYTES, BUCKET_S)
        yield rig


@pytest.fixture(scope="class")
def metered(module_state_dir: None) -> Iterator[Rig]:
    """An Open vSwitch with a meter."""
    switch = OvsNetdev()
    if not (availability := switch.availability()).available:
        pytest.skip(f"{switch.name}: {availability.reason}")
    with deploy(switch, application_cpus="1") as rig:
        meter(rig, RATE_PPS, 2 * BUCKET_S)
        yield rig


class TestTokenBucketOfTheKernel:
    """One deployment for all tests of `tc tbf`; then `tc htb` replaces it."""

    @truth("r-plus", "`tc tbf` behind linux-bridge", "kernel", percent(TOLERANCE))
    def test_r_plus(self, shaped: Rig) -> None:
        find(RATE_PPS, TOLERANCE * RATE_PPS, lambda: r_plus_of(shaped))

    @pytest.mark.slow
    @truth("ndr-pdr", "`tc tbf` behind linux-bridge", "kernel", percent(TOLERANCE))
    def test_ndr_and_pdr(self, shaped: Rig) -> None:
        find(1, TOLERANCE, lambda: ndr_and_pdr_over_truth(shaped))

    @truth("loss-vs-load", "`tc tbf` behind linux-bridge", "kernel",
           f"a step; the losses {percent(TOLERANCE)} of the load")  # fmt: skip
    def test_loss_vs_load(self, shaped: Rig) -> None:
        """From twice the rate down: the frames above the rate are lost, at every load."""
        trial_s = 0.5

        def worst() -> float:
            found = loss_vs_load(shaped.measurer, max_pps=2 * RATE_PPS, trial_s=trial_s)
            if found.lossless_from_pps != RATE_PPS or found.stopped != "two clean trials":
                return 1.0
            passes = RATE_PPS * trial_s + 2 * BUCKET_FRAMES
            losses = [max(0.0, 1 - passes / point.offered_frames) for point in found.points]
            ratios = [point.loss_ratio for point in found.points]
            return max(abs(a - b) for a, b in zip(ratios, losses, strict=True))

        find(0, TOLERANCE, worst)

    @pytest.mark.slow
    @truth("plateau", "`tc tbf` behind linux-bridge", "kernel", percent(TOLERANCE))
    def test_plateau(self, shaped: Rig) -> None:
        def height() -> float:
            found = sweep(shaped.measurer, [5e3, 10e3, 15e3, 25e3, 30e3, 40e3], trial_s=1.0)
            known = found.plateau.pps is not None
            return found.plateau.pps.mean if known and found.plateau.pps else 0.0

        find(RATE_PPS, TOLERANCE * RATE_PPS, height)

    @pytest.mark.slow
    @truth("back-to-back", "bucket and queue of `tc tbf`", "kernel", percent(BURST_TOLERANCE))
    def test_back_to_back(self, shaped: Rig) -> None:
        truth_frames = 2 * BUCKET_FRAMES
        find(truth_frames, BURST_TOLERANCE * truth_frames, partial(buffer_frames, shaped, RATE_PPS))

    @pytest.mark.slow
    @truth("r-plus", "`tc htb` behind linux-bridge", "kernel", percent(TOLERANCE))
    def test_r_plus_behind_another_shaper(self, shaped: Rig) -> None:
        """The last test, as it replaces the token bucket."""
        switch = shaped.deployment.switch
        assert isinstance(switch, LinuxBridge)
        unshape(switch)
        shape_by_htb(switch, RATE_PPS, FRAME_BYTES)
        find(RATE_PPS, TOLERANCE * RATE_PPS, lambda: r_plus_of(shaped))


class TestMeterOfOpenVswitch:
    """One deployment for both tests."""

    @truth("r-plus", "a meter of ovs-netdev", "Open vSwitch", percent(TOLERANCE))
    def test_r_plus(self, metered: Rig) -> None:
        find(RATE_PPS, TOLERANCE * RATE_PPS, lambda: r_plus_of(metered))

    @pytest.mark.slow
    @truth("ndr-pdr", "a meter of ovs-netdev", "Open vSwitch", percent(TOLERANCE))
    def test_ndr_and_pdr(self, metered: Rig) -> None:
        find(1, TOLERANCE, lambda: ndr_and_pdr_over_truth(metered))


def r_plus_of(rig: Rig) -> float:
    return measure_r_plus(
        rig.measurer, trial_s=2.0, min_repetitions=2, max_repetitions=2, warm_up_s=0.5
    ).pps


def ndr_and_pdr_over_truth(rig: Rig) -> float:
    return search_over_truth(rig, RATE_PPS + 2 * BUCKET_FRAMES, 0.8 * RATE_PPS, 1.3 * RATE_PPS)


@truth("latency, round trip", "ping", "other tool", "a factor of 5")
def test_round_trips_are_those_of_ping() -> None:
    """ping's path through the kernel is longer than that of raw sockets, and shorter by a little at
    most. Both cross the same two bridges, so the times are close."""
    switch = LinuxBridge()
    with deploy(switch, dimension="latency", rate="1000", io="udp") as rig:
        own_ns, ping_ns = [], []
        for _ in range(4):
            trial = rig.plan.trial.model_copy(update={"duration_s": 0.5})
            measured = latency.measure(trial, rig.deployment.ends, rig.plan.policy, lambda: None)
            assert measured.figures.latency is not None
            own_ns.append(measured.figures.latency.percentiles_ns["50"])
            ping_ns.append(ping_median_ns(rig))
        ratio = min(own_ns) / min(ping_ns)
        assert 0.2 < ratio < 5, (own_ns, ping_ns)


def ping_median_ns(rig: Rig) -> float:
    """Return the median round trip of ping between the two namespaces, in ns."""
    client, server = rig.deployment.ends[0].a, rig.deployment.ends[0].b
    address = server.args[server.args.index("--src-ip") + 1]
    command = ["nsenter", f"--net=/proc/{client.spawned.pid}/ns/net",
               "ping", "-c", "100", "-i", "0.005", address]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    times = sorted(float(ms) for ms in re.findall(r"time=([\d.]+) ms", done.stdout))
    assert len(times) >= 90, done.stdout + done.stderr
    return times[len(times) // 2] * 1e6


@truth("CPU cost", "/proc/PID, from outside", "kernel", "0.1 s of 2 s")
def test_cpu_time_agrees_with_the_kernel() -> None:
    """The engine's own CPU time of a run against the process's clock read from outside."""
    with deploy(LinuxBridge()) as rig:
        sender = rig.deployment.ends[0].a
        before = process_cpu_s(sender.spawned.pid)
        rig.measurer.measure(2.0, SATURATING)
        outside = process_cpu_s(sender.spawned.pid) - before
        inside = sender.result.cpu.cpu_ns / 1e9
        assert inside > 0
        # Idle time around the run adds a little to the outside reading.
        assert inside <= outside + 0.01
        assert outside - inside < 0.1
