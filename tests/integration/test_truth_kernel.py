"""Truths that are not ours: the kernel's token bucket, its device counters, ping, /proc; and a
meter of Open vSwitch.

The switch is the Linux bridge; what it lets pass is set by `tc tbf` on its port, and what
passed is counted by the kernel's devices. Only our figures are under test.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from switchmark.method import latency
from switchmark.method.measurer import SATURATING
from switchmark.method.r_plus import measure_r_plus
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.ovs_netdev import OvsNetdev
from switchmark.switch.ports import device_of
from switchmark.testbed.cpu_time import process_cpu_s
from tests.integration.machine import needs_root
from tests.integration.truth_rig import Rig, deployed, find, meter, shape

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]

RATE_PPS = 20_000
FRAME_BYTES = 1000  # with FCS; the kernel counts 4 less
TOLERANCE = 0.01


def test_r_plus_is_what_the_kernels_token_bucket_lets_pass() -> None:
    switch = LinuxBridge()
    with deployed(switch, packet_size=str(FRAME_BYTES)) as rig:
        shape(switch, RATE_PPS, FRAME_BYTES)
        find(RATE_PPS, TOLERANCE * RATE_PPS, lambda: r_plus_of(rig))


def test_r_plus_is_what_a_meter_of_open_vswitch_lets_pass() -> None:
    switch = OvsNetdev()
    if not (probe := switch.probe()).available:
        pytest.skip(f"{switch.name}: {probe.reason}")
    with deployed(switch) as rig:
        meter(rig, RATE_PPS)
        find(RATE_PPS, TOLERANCE * RATE_PPS, lambda: r_plus_of(rig))


def r_plus_of(rig: Rig) -> float:
    return measure_r_plus(
        rig.measurer, trial_s=2.0, min_repetitions=2, max_repetitions=2, warm_up_s=0.5
    ).pps


def test_counts_are_those_of_the_kernels_devices() -> None:
    """Saturated, so that frames are lost: in and out of the bridge, to the frame."""
    switch = LinuxBridge()
    with deployed(switch, packet_size=str(FRAME_BYTES)) as rig:
        shape(switch, RATE_PPS, FRAME_BYTES)
        before = switch.counters()
        measurer = rig.measurer
        point = measurer.measure(1.0, SATURATING)
        after = switch.counters()
        came = after.ports[0].rx_frames - before.ports[0].rx_frames
        went = after.ports[1].tx_frames - before.ports[1].tx_frames
        drops = measurer.asides[-1].socket_drops
        assert point.offered_frames == came > 0
        assert point.offered_frames - point.lost_frames + drops == went
        assert point.lost_frames > drops  # the bucket was really too small


DROP_EVERY = 64
DROPPER = """
unsigned long long seen;
__attribute__((section("tc"), used)) int drop_nth(void *frame)
{
    return ++seen % %d == 0 ? 2 /* TC_ACT_SHOT */ : -1 /* TC_ACT_UNSPEC: go on */;
}
char _license[] __attribute__((section("license"), used)) = "GPL";
"""


CLANG = next(filter(None, map(shutil.which, ["clang", *(f"clang-{n}" for n in range(14, 24))])), "")


@pytest.mark.skipif(not CLANG, reason="needs clang to compile a BPF program")
def test_a_bpf_program_that_drops_every_nth_frame_is_found_out(tmp_path: Path) -> None:
    source, program = tmp_path / "drop.c", tmp_path / "drop.o"
    source.write_text(DROPPER.replace("%d", str(DROP_EVERY)))
    subprocess.run([CLANG, "-O2", "-g", "-target", "bpf", "-c", source, "-o", program], check=True)
    switch = LinuxBridge()
    with deployed(switch) as rig:
        device = device_of(switch.ports[0])
        switch.namespace.batch(
            "tc",
            [f"qdisc add dev {device} clsact",
             f"filter add dev {device} ingress bpf direct-action obj {program} sec tc"],
        )  # fmt: skip
        sent = 0
        for load in (1_000, 5_000, 20_000):
            measurer = rig.measurer
            point = measurer.measure(1.0, load)
            # The program counts on, from trial to trial; nothing else passes the bridge.
            due = (sent + point.offered_frames) // DROP_EVERY - sent // DROP_EVERY
            sent += point.offered_frames
            assert point.lost_frames - measurer.asides[-1].socket_drops == due > 0


def test_round_trips_are_those_of_ping() -> None:
    """ping's own way through the kernel is longer than that of raw sockets, never shorter by
    more than a little; both see the same two bridges crossings, so they lie close."""
    switch = LinuxBridge()
    with deployed(switch, dimension="latency", rate="1000", io="udp") as rig:
        ours, theirs = [], []
        for _ in range(4):
            trial = rig.plan.trial.model_copy(update={"duration_s": 0.5})
            seen = latency.measure(trial, rig.deployment.ends, rig.plan.policy, lambda: None)
            assert seen.latency is not None
            ours.append(seen.latency.percentiles_ns["50"])
            theirs.append(ping_median_ns(rig))
        ratio = min(ours) / min(theirs)
        assert 0.2 < ratio < 5, (ours, theirs)


def ping_median_ns(rig: Rig) -> float:
    """The median round trip that ping sees between the two namespaces, in ns."""
    client, server = rig.deployment.ends[0].a, rig.deployment.ends[0].b
    address = server.args[server.args.index("--src-ip") + 1]
    command = ["nsenter", f"--net=/proc/{client.spawned.pid}/ns/net",
               "ping", "-c", "100", "-i", "0.005", address]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    times = sorted(float(ms) for ms in re.findall(r"time=([\d.]+) ms", done.stdout))
    assert len(times) >= 90, done.stdout + done.stderr
    return times[len(times) // 2] * 1e6


def test_cpu_time_is_what_the_kernel_charges() -> None:
    """The engine's own account of a run against the process's clock read from outside."""
    with deployed(LinuxBridge()) as rig:
        sender = rig.deployment.ends[0].a
        before = process_cpu_s(sender.spawned.pid)
        rig.measurer.measure(2.0, SATURATING)
        outside = process_cpu_s(sender.spawned.pid) - before
        inside = (sender.result or {})["cpu"]["cpu_ns"] / 1e9
        assert inside > 0
        # Idle time between the two readings and the run costs a little on the outside.
        assert inside <= outside + 0.01
        assert outside - inside < 0.1
