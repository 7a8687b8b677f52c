"""Frames reordered are those that the kernel was told to hold back: every 50th.

They wait in a class of `tc htb` that passes two fifths of what comes into it. Its bucket holds one
frame, and may be overdrawn by one: two pass at once, each later one waits for longer than the next
frame needs. A stall of the sender lets a held frame pass before the next one comes.
"""

from __future__ import annotations

from switchmark.certify.support.frame_faults import classed, struck
from switchmark.certify.support.stand import Rig, check_sent
from switchmark.certify.support.truth import Stand, Truth, Turn
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.support.ports import device_of

DURATION_S, RATE_PPS, EVERY = 0.4, 5_000, 50
SLOW_CLASS = 0x10002  # 1:2
FRAME_BYTES = 60  # as the kernel counts a frame of 64


def turn(rig: Rig) -> Turn:
    """Run one trial; the class is removed with it."""
    bridge, measurer = rig.bridge, rig.measurer
    lines = slow_class(bridge, RATE_PPS, EVERY)
    bridge.namespace.batch("tc", lines)
    try:
        with struck(bridge, classed(EVERY, SLOW_CLASS), 0) as truth:
            measurer.measure(DURATION_S, RATE_PPS)
            _, due = truth.counts()
    finally:
        bridge.namespace.batch("tc", [f"qdisc del dev {device_of(bridge.ports[1])} root"])
    check_sent(measurer)
    return Turn({"reordered": measurer.side_counts[-1].reordered - due})


def slow_class(bridge: LinuxBridge, rate_pps: int, every: int) -> list[str]:
    """Lines of `tc` that make the class, behind the bridge's port to the receiver."""
    device = device_of(bridge.ports[1])
    slow_bits = round(0.4 * rate_pps / every * FRAME_BYTES * 8)
    shape = f"burst {FRAME_BYTES} cburst {FRAME_BYTES} quantum 1514"
    return [
        f"qdisc replace dev {device} root handle 1: htb default 1",
        f"class replace dev {device} parent 1: classid 1:1 htb rate 1gbit burst 100k quantum 1514",
        f"class replace dev {device} parent 1: classid 1:2 htb rate {slow_bits} {shape}",
    ]


TRUTH = Truth(
    "reordering", "frames reordered", "a class of `tc htb` that holds every 50th", Stand.COUNTS,
    "frames", 6, turn,
)  # fmt: skip
