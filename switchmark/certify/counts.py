"""Checks the numbers of sent and received frames against counters of the switch's ports, exactly.

The counters are those of the kernel's devices or, for ports outside the kernel, of dpdk-testpmd.
The sender saturates, so that many frames are counted in a short time. The kernel counts the frames
that it dropped at the receiver's socket.
"""

from __future__ import annotations

from switchmark.certify.support.reference_check import ReferenceCheck, RigKind, Round
from switchmark.certify.support.rig import Rig
from switchmark.method.support.measurer import SATURATING

DURATION_S = 0.5


def measure(rig: Rig) -> Round:
    """Saturate, and compare both ends with the switch's two ports."""
    switch = rig.deployment.switch
    before = switch.counters()
    measurer = rig.measurer
    point = measurer.measure(DURATION_S, SATURATING)
    after, side = switch.counters(), measurer.side_counts[-1]
    entered = after.ports[0].rx_frames - before.ports[0].rx_frames
    left = after.ports[1].tx_frames - before.ports[1].tx_frames
    accepted = left - side.socket_drops
    counted = sum(pair.b.result.totals.rx_frames for pair in rig.deployment.ends)
    not_lost = point.offered_frames - point.lost_frames - point.lost_away
    return Round(
        {
            "sent": point.offered_frames - entered,
            "received": counted + side.stale - accepted,
            "not lost": not_lost - accepted,
        },
        frames=min(entered, left),
        figures={"frames a second": point.forwarded_pps},
    )


CHECK = ReferenceCheck(
    "counts", "frames sent and lost", "the kernel's device counters", RigKind.COUNTS,
    "frames", 0, measure, needs_kernel=False,
)  # fmt: skip
