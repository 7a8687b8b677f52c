"""Checks the forwarded rate by the kernel's timestamps.

The receiver uses the processor's tick counter, and the kernel CLOCK_REALTIME.
"""

from __future__ import annotations

from switchmark.certify.support.reference_check import ReferenceCheck, RigKind, Round
from switchmark.certify.support.rig import Rig, check_sent
from switchmark.certify.support.watch import rate_pps, watch_bridge, within
from switchmark.engine.loads import forwarded_pps
from switchmark.errors import TrialFailed
from switchmark.trial.throughput import common_time
from switchmark.trial.trim import kept_intervals

DURATION_S, RATE_PPS = 0.5, 10_000


def measure(rig: Rig) -> Round:
    """Run one trial of single frames at a set rate."""
    with watch_bridge(rig.bridge) as (_, exit_):
        measurer = rig.measurer
        point, _ = measurer.measure_latency(DURATION_S, RATE_PPS, 1)
        frames = exit_.data_frames()
    check_sent(measurer)
    (pair,) = rig.deployment.ends
    samples = list(kept_intervals(pair.b.intervals, common_time([pair.a])))
    if not samples or forwarded_pps(samples) != point.forwarded_pps:
        raise TrialFailed("too few samples for a rate")
    begin_ns, end_ns = samples[0].t_ns - samples[0].duration_ns, samples[-1].t_ns
    true_pps = rate_pps(within(frames, begin_ns, end_ns))
    return Round({"forwarded": point.forwarded_pps / true_pps - 1})


CHECK = ReferenceCheck(
    "rate",
    "forwarded rate",
    "the kernel's packet time stamps",
    RigKind.TIMES,
    "ratio",
    0.005,
    measure,
)
