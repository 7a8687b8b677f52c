"""Probes beside bidirectional traffic time each direction separately: a BPF program at one port of
the bridge delays one direction by a set time, by the kernel's clock."""

from __future__ import annotations

import pytest

from switchmark.certify.support.frame_faults import delay, inject
from switchmark.certify.support.rig import Rig, deploy
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.trial.deployed_measurer import DeployedMeasurer
from tests.integration.machine import needs_root
from tests.integration.truth_rig import find
from tests.truths import truth

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    pytest.mark.usefixtures("module_state_dir"),
    needs_root,
]

DELAY_NS = 1_000_000
RATE_PPS, PROBE_RATE_PPS, DURATION_S = 100, 200, 0.3
ASKED = {"bidirectional": "true", "method": "one-way", "burst": "4"}


@truth(
    "latency, one way, both ways at once", "a BPF program that waits for 1 ms, one way",
    "kernel", "1 to 2 ms; the other way less",
)  # fmt: skip
def test_each_direction_has_its_own_times() -> None:
    """Frames that enter by port 0 go forward, frames that enter by port 1 go back."""
    probes = {"rate": str(RATE_PPS), "probe_rate": str(PROBE_RATE_PPS)}
    with deploy(LinuxBridge(), **ASKED, **probes) as rig:
        for port in (0, 1):
            find(0, 0, lambda port=port: wrong_directions(rig, port))


def wrong_directions(rig: Rig, slow_port: int) -> int:
    """Return the number of directions with wrong times when one port is slow. Load and probes of
    both directions are complete."""
    measurer = DeployedMeasurer(rig.plan.trial, rig.deployment.streams, lambda: None)
    with inject(rig.bridge, delay(DELAY_NS), slow_port):
        point, found = measurer.measure_latency(DURATION_S, 2 * RATE_PPS, 4)
    slow, other = found.directions if slow_port == 0 else reversed(found.directions)
    assert slow.latency.min_ns >= DELAY_NS, "no frame is faster than the program"
    assert slow.latency.count + other.latency.count == found.count
    assert found.min_ns == min(slow.latency.min_ns, other.latency.min_ns)
    assert point.offered_frames > 0
    return (slow.latency.min_ns >= 2 * DELAY_NS) + (other.latency.min_ns >= DELAY_NS)
