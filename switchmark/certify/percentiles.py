"""Percentiles are those of the frames: of every four, one takes 200 us longer, by the kernel's clock.

So the median is a short time and the 90th percentile a long one, and they lie that far apart.
"""

from __future__ import annotations

from switchmark.certify.support.frame_faults import delayed, struck
from switchmark.certify.support.stand import Rig
from switchmark.certify.support.truth import Stand, Truth, Turn

DURATION_S, RATE_PPS = 0.25, 1_000
DELAY_US, EVERY = 200, 4
WITHIN_NS = 50_000  # the 90th percentile is a median of the long times, and has their noise


def turn(rig: Rig) -> Turn:
    """One trial of single frames."""
    with struck(rig.bridge, delayed(1000 * DELAY_US, EVERY), 0):
        _, found = rig.measurer.measure_latency(DURATION_S, RATE_PPS, 1)
    low_ns, high_ns = (found.percentiles_ns[one] for one in ("50", "90"))
    return Turn({"90th less 50th": high_ns - low_ns - 1e3 * DELAY_US})


TRUTH = Truth(
    "percentiles", "latency, percentiles", "a BPF program that delays every 4th by 200 us",
    Stand.TIMES, "ns", WITHIN_NS, turn,
)  # fmt: skip
