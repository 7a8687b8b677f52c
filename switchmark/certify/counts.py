"""Frames sent and received are those that the switch's ports count, to the frame.

The counters are those of the kernel's devices or, where the kernel sees no frames, of DPDK's own
drivers in DPDK's own program. The sender goes as fast as it can, so that many frames are counted in
little time. The kernel counts the frames that found no room at the receiver's socket.
"""

from __future__ import annotations

from switchmark.certify.support.stand import Rig
from switchmark.certify.support.truth import Stand, Truth, Turn
from switchmark.method.support.measurer import SATURATING

DURATION_S = 0.5


def turn(rig: Rig) -> Turn:
    """Saturate, and compare both ends with the switch's two ports."""
    switch = rig.deployment.switch
    before = switch.counters()
    measurer = rig.measurer
    point = measurer.measure(DURATION_S, SATURATING)
    after, beside = switch.counters(), measurer.side_counts[-1]
    came = after.ports[0].rx_frames - before.ports[0].rx_frames
    went = after.ports[1].tx_frames - before.ports[1].tx_frames
    taken = went - beside.socket_drops
    counted = sum(pair.b.result.totals.rx_frames for pair in rig.deployment.ends)
    told_apart = point.offered_frames - point.lost_frames - point.lost_away
    return Turn(
        {
            "sent": point.offered_frames - came,
            "received": counted + beside.stale - taken,
            "not lost": told_apart - taken,
        },
        frames=min(came, went),
        figures={"frames a second": point.forwarded_pps},
    )


TRUTH = Truth(
    "counts", "frames sent and lost", "the kernel's device counters", Stand.COUNTS,
    "frames", 0, turn, needs_kernel=False,
)  # fmt: skip
