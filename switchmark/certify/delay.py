"""Checks one-way times by a known delay that the kernel injects, by the kernel's clock.

Each round measures without a delay and with two delays, since the shortest time changes between
trials and only differences within a round count. The shortest times are compared, since noise only
makes times longer.
"""

from __future__ import annotations

from contextlib import nullcontext

from switchmark.certify.support.frame_faults import delay, inject
from switchmark.certify.support.reference_check import ReferenceCheck, RigKind, Round
from switchmark.certify.support.rig import Rig

DURATION_S, RATE_PPS = 0.25, 1_000
DELAYS_US = (30, 400)  # 1 % of the longer one is twice the tolerance
WITHIN_NS = 2_000


def measure(rig: Rig) -> Round:
    """Measure without a delay, and with each delay."""
    floor_ns = shortest_ns(rig, 0)
    return Round(
        {f"{us} us": shortest_ns(rig, us) - floor_ns - 1e3 * us for us in DELAYS_US},
        figures={"floor, us": floor_ns / 1e3},
    )


def shortest_ns(rig: Rig, delay_us: int) -> float:
    """Return the shortest time in ns of a trial with this delay in the bridge."""
    fault = inject(rig.bridge, delay(1000 * delay_us), 0) if delay_us else nullcontext()
    with fault:
        _, times = rig.measurer.measure_latency(DURATION_S, RATE_PPS, 1)
    return times.min_ns


CHECK = ReferenceCheck(
    "delay", "latency, one way", "a BPF program that waits for 30 and 400 us", RigKind.TIMES,
    "ns", WITHIN_NS, measure,
)  # fmt: skip
