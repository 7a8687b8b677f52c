"""The forwarded rate is that of the kernel's time stamps.

The receiver's clock counts ticks of the processor; the kernel stamps each frame by CLOCK_REALTIME.
"""

from __future__ import annotations

from switchmark.certify.support.stand import Rig, check_sent
from switchmark.certify.support.truth import Stand, Truth, Turn
from switchmark.certify.support.watch import rate_pps, watched_ways, within
from switchmark.engine.loads import forwarded_pps
from switchmark.errors import TrialFailed
from switchmark.trial.throughput import common_time
from switchmark.trial.trim import kept_intervals

DURATION_S, RATE_PPS = 0.5, 10_000


def turn(rig: Rig) -> Turn:
    """Run one trial of single frames at a set rate."""
    with watched_ways(rig.bridge) as (_, went):
        measurer = rig.measurer
        point, _ = measurer.measure_latency(DURATION_S, RATE_PPS, 1)
        frames = went.data_frames()
    check_sent(measurer)
    (pair,) = rig.deployment.ends
    kept = list(kept_intervals(pair.b.intervals, common_time([pair.a])))
    if not kept or forwarded_pps(kept) != point.forwarded_pps:
        raise TrialFailed("too few samples for a rate")
    begin_ns, end_ns = kept[0].t_ns - kept[0].duration_ns, kept[-1].t_ns
    true_pps = rate_pps(within(frames, begin_ns, end_ns))
    return Turn({"forwarded": point.forwarded_pps / true_pps - 1})


TRUTH = Truth(
    "rate", "forwarded rate", "the kernel's packet time stamps", Stand.TIMES, "ratio", 0.005, turn
)
