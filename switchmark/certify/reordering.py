"""Checks the number of reordered frames: the kernel holds back every 50th frame.

These frames wait in a class of `tc htb` that passes two fifths of their rate. Its bucket holds one
frame and can be overdrawn by one frame. Two frames therefore pass immediately, and each later frame
waits until after the next frame of the stream. If the sender pauses, a held frame may pass before
the next frame.
"""

from __future__ import annotations

from switchmark.certify.support.frame_faults import classify, inject
from switchmark.certify.support.reference_check import ReferenceCheck, RigKind, Round
from switchmark.certify.support.rig import Rig, check_sent
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.support.ports import device_of

DURATION_S, RATE_PPS, EVERY = 0.4, 5_000, 50
SLOW_CLASS = 0x10002  # 1:2
FRAME_BYTES = 60  # a frame of 64 bytes without FCS, as the kernel counts it


def measure(rig: Rig) -> Round:
    """Run one trial, and remove the class at its end."""
    bridge, measurer = rig.bridge, rig.measurer
    lines = slow_class(bridge, RATE_PPS, EVERY)
    bridge.namespace.batch("tc", lines)
    try:
        with inject(bridge, classify(EVERY, SLOW_CLASS), 0) as injected:
            measurer.measure(DURATION_S, RATE_PPS)
            _, due = injected.counts()
    finally:
        bridge.namespace.batch("tc", [f"qdisc del dev {device_of(bridge.ports[1])} root"])
    check_sent(measurer)
    return Round({"reordered": measurer.side_counts[-1].reordered - due})


def slow_class(bridge: LinuxBridge, rate_pps: int, every: int) -> list[str]:
    """Return lines for `tc` that make the class at the bridge's port to the receiver."""
    device = device_of(bridge.ports[1])
    slow_bits = round(0.4 * rate_pps / every * FRAME_BYTES * 8)
    shape = f"burst {FRAME_BYTES} cburst {FRAME_BYTES} quantum 1514"
    return [
        f"qdisc replace dev {device} root handle 1: htb default 1",
        f"class replace dev {device} parent 1: classid 1:1 htb rate 1gbit burst 100k quantum 1514",
        f"class replace dev {device} parent 1: classid 1:2 htb rate {slow_bits} {shape}",
    ]


CHECK = ReferenceCheck(
    "reordering", "frames reordered", "a class of `tc htb` that holds every 50th", RigKind.COUNTS,
    "frames", 6, measure,
)  # fmt: skip
