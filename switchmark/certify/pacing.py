"""Frames leave at the rate that was asked for, by the kernel's time stamps.

The time from the first frame to the last is that of the scheduled number of frames, less one, at
this rate. Frames in between that the sender gave up, since it was away from its core, count as
scheduled.
"""

from __future__ import annotations

from switchmark.certify.support.stand import Rig, check_sent
from switchmark.certify.support.truth import Stand, Truth, Turn
from switchmark.certify.support.watch import LEAST_FRAMES, watched_ways
from switchmark.errors import TrialFailed

DURATION_S, RATE_PPS = 0.5, 5_000


def turn(rig: Rig) -> Turn:
    """Run one trial of single frames at a set rate."""
    with watched_ways(rig.bridge) as (came, _):
        measurer = rig.measurer
        point, _ = measurer.measure_latency(DURATION_S, RATE_PPS, 1)
        frames = came.data_frames()
    if len(frames) < LEAST_FRAMES:
        raise TrialFailed(f"only {len(frames)} of {point.offered_frames} frames were seen to pass")
    took_s = (frames[-1].at_ns - frames[0].at_ns) / 1e9
    check_sent(measurer)
    assert point.intended_frames is not None
    due_s = (point.intended_frames - 1) / RATE_PPS
    return Turn({"schedule": took_s / due_s - 1})


TRUTH = Truth(
    "pacing", "frames sent at a set rate", "the kernel's packet time stamps", Stand.TIMES,
    "ratio", 0.005, turn,
)  # fmt: skip
