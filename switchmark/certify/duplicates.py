"""Frames doubled are those that the kernel was told to copy, to the frame: every 16th."""

from __future__ import annotations

from switchmark.certify.support.frame_faults import copied, index_of, struck
from switchmark.certify.support.stand import Rig
from switchmark.certify.support.truth import Stand, Truth, Turn

DURATION_S, RATE_PPS, EVERY = 0.5, 20_000, 16
FRAMES_DUE = 3_000  # that are struck, and counted right


def turn(rig: Rig) -> Turn:
    """Run one trial at a set rate."""
    measurer = rig.measurer
    with struck(rig.bridge, copied(EVERY, index_of(rig.bridge, 1)), 0) as truth:
        point = measurer.measure(DURATION_S, RATE_PPS)
        frames, due = truth.counts()
    beside = measurer.side_counts[-1]
    lost = point.lost_frames + point.lost_away
    doubled = missing(due, beside.duplicates, lost, beside.socket_drops)
    return Turn({"doubled": doubled, "sent": point.offered_frames - frames}, frames=due)


def missing(due: int, duplicates: int, lost: int, socket_drops: int) -> int:
    """How many copies were not counted. A frame that found no room at the receiver's socket is one
    duplicate less where the other of the two came, and one frame lost where none came."""
    return due - duplicates + lost - socket_drops


TRUTH = Truth(
    "duplicates", "frames doubled", "a BPF program that copies every 16th", Stand.COUNTS,
    "frames", 0, turn, frames_due=FRAMES_DUE,
)  # fmt: skip
