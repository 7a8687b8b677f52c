"""Checks percentiles: the kernel delays every fourth frame by 200 us.

The difference of the 90th percentile and the median must therefore be 200 us. A round does not
count if the difference is also large without the delay, since other programs are then active.
"""

from __future__ import annotations

from switchmark.certify.support.frame_faults import delay, inject
from switchmark.certify.support.reference_check import ReferenceCheck, RigKind, Round
from switchmark.certify.support.rig import Rig
from switchmark.errors import TrialFailed

DURATION_S, RATE_PPS = 0.25, 1_000
DELAY_US, EVERY = 200, 4
WITHIN_NS = 50_000  # the 90th percentile is a median of the long times, and has their noise


def measure(rig: Rig) -> Round:
    """Run one trial of single frames, and one without the delay."""
    with inject(rig.bridge, delay(1000 * DELAY_US, EVERY), 0):
        difference_ns = distance_ns(rig)
    if distance_ns(rig) > WITHIN_NS:
        raise TrialFailed("times vary too much for percentiles: other programs are active")
    return Round({"90th minus 50th": difference_ns - 1e3 * DELAY_US})


def distance_ns(rig: Rig) -> float:
    """Return the distance from the median to the 90th percentile, in ns."""
    _, times = rig.measurer.measure_latency(DURATION_S, RATE_PPS, 1)
    return times.percentiles_ns["90"] - times.percentiles_ns["50"]


CHECK = ReferenceCheck(
    "percentiles", "latency, percentiles", "a BPF program that delays every 4th by 200 us",
    RigKind.TIMES, "ns", WITHIN_NS, measure,
)  # fmt: skip
