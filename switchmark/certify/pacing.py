"""Checks that frames leave at the set rate, by the kernel's timestamps.

The time from the first frame to the last must be the number of scheduled frames minus one, divided
by the rate. Frames that the sender gave up in between, because it did not run on its core, count as
scheduled.
"""

from __future__ import annotations

from switchmark.certify.support.reference_check import ReferenceCheck, RigKind, Round
from switchmark.certify.support.rig import Rig, check_sent
from switchmark.certify.support.watch import LEAST_FRAMES, watch_bridge
from switchmark.errors import TrialFailed

DURATION_S, RATE_PPS = 0.5, 5_000


def measure(rig: Rig) -> Round:
    """Run one trial of single frames at a set rate."""
    with watch_bridge(rig.bridge) as (entry, _):
        measurer = rig.measurer
        point, _ = measurer.measure_latency(DURATION_S, RATE_PPS, 1)
        frames = entry.data_frames()
    if len(frames) < LEAST_FRAMES:
        raise TrialFailed(f"the kernel timed only {len(frames)} of {point.offered_frames} frames")
    took_s = (frames[-1].at_ns - frames[0].at_ns) / 1e9
    check_sent(measurer)
    assert point.intended_frames is not None
    due_s = (point.intended_frames - 1) / RATE_PPS
    return Round({"schedule": took_s / due_s - 1})


CHECK = ReferenceCheck(
    "pacing", "frames sent at a set rate", "the kernel's packet time stamps", RigKind.TIMES,
    "ratio", 0.005, measure,
)  # fmt: skip
