"""One-way times, absolute: from the call that sends a frame to the return of the one that gets it.

A shift of all times alike shows in no difference. The kernel times both calls of each frame; the
application reads its clock right before the one and right after the other. The shortest and the
median of a trial must agree with the kernel's. The application's times enclose the kernel's, so
that a shortest time may hardly be below.
"""

from __future__ import annotations

from switchmark.certify.support.stand import Rig
from switchmark.certify.support.system_calls import BELOW_NS, calls_timed, middle_and_least
from switchmark.certify.support.system_calls import why_not as calls_why_not
from switchmark.certify.support.truth import Stand, Truth, Turn

DURATION_S, RATE_PPS = 0.3, 2_000
WITHIN_NS = 2_500  # around each call: entry, the kernel's look, return


def turn(rig: Rig) -> Turn:
    """Run one trial of single frames."""
    (pair,) = rig.deployment.ends
    with calls_timed(pair.a.spawned.pid, pair.b.spawned.pid) as calls:
        _, found = rig.measurer.measure_latency(DURATION_S, RATE_PPS, 1)
        median_ns, least_ns = middle_and_least(calls.times_ns(), found.count)
    return Turn(
        {
            "shortest": found.min_ns - least_ns,
            "median": found.percentiles_ns["50"] - median_ns,
        },
        figures={"floor, us": found.min_ns / 1e3, "median, us": found.percentiles_ns["50"] / 1e3},
    )


TRUTH = Truth(
    "one-way", "latency, one way", "the kernel's times of the system calls",
    Stand.TIMES, "ns", WITHIN_NS, turn,
    wider={"median": 4_000}, below={"shortest": BELOW_NS}, why_not=calls_why_not,
)  # fmt: skip
