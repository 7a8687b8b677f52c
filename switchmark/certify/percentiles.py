"""Percentiles are those of the frames: one of four takes 200 us longer, by the kernel's clock.

So the median is a short time and the 90th percentile a long one, and they lie that far apart. A
turn does not count where they do so without a delay, since other programs are at work.
"""

from __future__ import annotations

from switchmark.certify.support.frame_faults import delayed, struck
from switchmark.certify.support.stand import Rig
from switchmark.certify.support.truth import Stand, Truth, Turn
from switchmark.errors import TrialFailed

DURATION_S, RATE_PPS = 0.25, 1_000
DELAY_US, EVERY = 200, 4
WITHIN_NS = 50_000  # the 90th percentile is a median of the long times, and has their noise


def turn(rig: Rig) -> Turn:
    """Run one trial of single frames, and one without the delay."""
    with struck(rig.bridge, delayed(1000 * DELAY_US, EVERY), 0):
        apart_ns = distance_ns(rig)
    if distance_ns(rig) > WITHIN_NS:
        raise TrialFailed("times vary too much for percentiles: other programs are at work")
    return Turn({"90th less 50th": apart_ns - 1e3 * DELAY_US})


def distance_ns(rig: Rig) -> float:
    """The distance from the median to the 90th percentile, in ns."""
    _, found = rig.measurer.measure_latency(DURATION_S, RATE_PPS, 1)
    return found.percentiles_ns["90"] - found.percentiles_ns["50"]


TRUTH = Truth(
    "percentiles", "latency, percentiles", "a BPF program that delays every 4th by 200 us",
    Stand.TIMES, "ns", WITHIN_NS, turn,
)  # fmt: skip
