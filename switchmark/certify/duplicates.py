"""Checks the number of duplicates: the kernel copies every 16th frame."""

from __future__ import annotations

from switchmark.certify.support.frame_faults import copy, index_of, inject
from switchmark.certify.support.reference_check import ReferenceCheck, RigKind, Round
from switchmark.certify.support.rig import Rig

DURATION_S, RATE_PPS, EVERY = 0.5, 20_000, 16
FRAMES_DUE = 3_000  # copied frames for a decision


def measure(rig: Rig) -> Round:
    """Run one trial at a set rate."""
    measurer = rig.measurer
    with inject(rig.bridge, copy(EVERY, index_of(rig.bridge, 1)), 0) as injected:
        point = measurer.measure(DURATION_S, RATE_PPS)
        frames, due = injected.counts()
    side = measurer.side_counts[-1]
    lost = point.lost_frames + point.lost_away
    doubled = missing(due, side.duplicates, lost, side.socket_drops)
    return Round({"doubled": doubled, "sent": point.offered_frames - frames}, frames=due)


def missing(due: int, duplicates: int, lost: int, socket_drops: int) -> int:
    """Return the number of copies that were not counted. A frame that was dropped at the receiver's
    socket is one duplicate less if the other copy arrived, and otherwise one lost frame."""
    return due - duplicates + lost - socket_drops


CHECK = ReferenceCheck(
    "duplicates", "frames doubled", "a BPF program that copies every 16th", RigKind.COUNTS,
    "frames", 0, measure, frames_due=FRAMES_DUE,
)  # fmt: skip
