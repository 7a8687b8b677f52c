"""Checks absolute one-way times, from the call that sends a frame to the return of the call that
receives it.

A constant error of all times is not visible in differences. The kernel times both calls of each
frame, and the application reads its clock immediately before the first and after the second. The
shortest and the median time of a trial must agree with the kernel's. The application's times
include the kernel's, so its shortest time can hardly be below.
"""

from __future__ import annotations

from switchmark.certify.support.reference_check import ReferenceCheck, RigKind, Round
from switchmark.certify.support.rig import Rig
from switchmark.certify.support.system_calls import BELOW_NS, median_and_least, time_calls
from switchmark.certify.support.system_calls import why_not as calls_why_not

DURATION_S, RATE_PPS = 0.3, 2_000
WITHIN_NS = 2_500  # entry and return of both calls, and the BPF programs


def measure(rig: Rig) -> Round:
    """Run one trial of single frames."""
    (pair,) = rig.deployment.ends
    with time_calls(pair.a.spawned.pid, pair.b.spawned.pid) as calls:
        _, times = rig.measurer.measure_latency(DURATION_S, RATE_PPS, 1)
        median_ns, least_ns = median_and_least(calls.times_ns(), times.count)
    return Round(
        {
            "shortest": times.min_ns - least_ns,
            "median": times.percentiles_ns["50"] - median_ns,
        },
        figures={"floor, us": times.min_ns / 1e3, "median, us": times.percentiles_ns["50"] / 1e3},
    )


CHECK = ReferenceCheck(
    "one-way", "latency, one way", "the kernel's times of the system calls",
    RigKind.TIMES, "ns", WITHIN_NS, measure,
    wider={"median": 4_000}, below={"shortest": BELOW_NS}, why_not=calls_why_not,
)  # fmt: skip
