"""One-way times grow by the delay that the kernel was told to add, by its own clock.

Two delays and none are measured in turns: the floor moves from trial to trial, so only differences
within a turn count. The shortest time of each trial is compared, since noise only ever adds.
"""

from __future__ import annotations

from contextlib import nullcontext

from switchmark.certify.support.frame_faults import delayed, struck
from switchmark.certify.support.stand import Rig
from switchmark.certify.support.truth import Stand, Truth, Turn

DURATION_S, RATE_PPS = 0.25, 1_000
DELAYS_US = (30, 400)  # 1 % of the longer one is twice the tolerance
WITHIN_NS = 2_000


def turn(rig: Rig) -> Turn:
    """Measure without a delay, and with each of the two."""
    floor_ns = shortest_ns(rig, 0)
    return Turn(
        {f"{us} us": shortest_ns(rig, us) - floor_ns - 1e3 * us for us in DELAYS_US},
        figures={"floor, us": floor_ns / 1e3},
    )


def shortest_ns(rig: Rig, delay_us: int) -> float:
    """The shortest time in ns of a trial in which every frame takes so much longer in the
    bridge."""
    hold = struck(rig.bridge, delayed(1000 * delay_us), 0) if delay_us else nullcontext()
    with hold:
        _, found = rig.measurer.measure_latency(DURATION_S, RATE_PPS, 1)
    return found.min_ns


TRUTH = Truth(
    "delay", "latency, one way", "a BPF program that waits for 30 and 400 us", Stand.TIMES,
    "ns", WITHIN_NS, turn,
)  # fmt: skip
