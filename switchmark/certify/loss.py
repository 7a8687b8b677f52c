"""Frames lost are those that the kernel was told to drop, to the frame: every 16th.

The kernel counts apart the frames that found no room at the receiver's socket.
"""

from __future__ import annotations

from switchmark.certify.support.frame_faults import dropped, struck
from switchmark.certify.support.stand import Rig
from switchmark.certify.support.truth import Stand, Truth, Turn

DURATION_S, RATE_PPS, EVERY = 0.5, 20_000, 16
FRAMES_DUE = 3_000  # that are struck, and counted right


def turn(rig: Rig) -> Turn:
    """Run one trial at a set rate."""
    measurer = rig.measurer
    with struck(rig.bridge, dropped(EVERY), 0) as truth:
        point = measurer.measure(DURATION_S, RATE_PPS)
        frames, due = truth.counts()
    beside = measurer.side_counts[-1]
    lost = point.lost_frames + point.lost_away - beside.socket_drops
    return Turn({"lost": lost - due, "sent": point.offered_frames - frames}, frames=due)


TRUTH = Truth(
    "loss", "frames lost", "a BPF program that drops every 16th", Stand.COUNTS, "frames", 0, turn,
    frames_due=FRAMES_DUE,
)  # fmt: skip
