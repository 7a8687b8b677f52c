"""Checks the number of lost frames: the kernel drops every 16th frame.

The kernel has a separate count of frames that it dropped at the receiver's socket.
"""

from __future__ import annotations

from switchmark.certify.support.frame_faults import drop, inject
from switchmark.certify.support.reference_check import ReferenceCheck, RigKind, Round
from switchmark.certify.support.rig import Rig

DURATION_S, RATE_PPS, EVERY = 0.5, 20_000, 16
FRAMES_DUE = 3_000  # dropped frames for a decision


def measure(rig: Rig) -> Round:
    """Run one trial at a set rate."""
    measurer = rig.measurer
    with inject(rig.bridge, drop(EVERY), 0) as injected:
        point = measurer.measure(DURATION_S, RATE_PPS)
        frames, due = injected.counts()
    lost = point.lost_frames + point.lost_away - measurer.side_counts[-1].socket_drops
    return Round({"lost": lost - due, "sent": point.offered_frames - frames}, frames=due)


CHECK = ReferenceCheck(
    "loss", "frames lost", "a BPF program that drops every 16th", RigKind.COUNTS, "frames", 0,
    measure, frames_due=FRAMES_DUE,
)  # fmt: skip
