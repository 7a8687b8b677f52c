"""Checks round trips: absolute times by the kernel's times of the client's calls, and differences
by a known delay that the kernel injects in each direction."""

from __future__ import annotations

from contextlib import nullcontext

from switchmark.certify.support.frame_faults import delay, inject
from switchmark.certify.support.reference_check import ReferenceCheck, RigKind, Round
from switchmark.certify.support.rig import Rig
from switchmark.certify.support.system_calls import (
    BELOW_NS,
    median_and_least,
    time_calls,
    why_not,
)
from switchmark.model.campaign import TrimPolicy
from switchmark.record import Latency
from switchmark.trial import latency

DURATION_S = 0.3
DELAY_US = 100  # in each direction
WITHIN_NS = 2_500


def measure(rig: Rig) -> Round:
    """Run one trial with the calls timed, and two for the difference."""
    (pair,) = rig.deployment.ends
    with time_calls(pair.a.spawned.pid, pair.a.spawned.pid) as calls:
        times = round_trips(rig)
        median_ns, least_ns = median_and_least(calls.times_ns(), times.count)
    floor_ns, added_ns = (round_trips(rig, us).min_ns for us in (0, DELAY_US))
    return Round(
        {
            "shortest": times.min_ns - least_ns,
            "median": times.percentiles_ns["50"] - median_ns,
            f"{DELAY_US} us each way": added_ns - floor_ns - 2e3 * DELAY_US,
        },
        figures={"floor, us": floor_ns / 1e3, "median, us": times.percentiles_ns["50"] / 1e3},
    )


def round_trips(rig: Rig, delay_us: int = 0) -> Latency:
    """Return the round trips of a trial with this delay in the bridge in both directions."""
    fault = inject(rig.bridge, delay(1000 * delay_us), 0, 1) if delay_us else nullcontext()
    trial = rig.plan.trial.model_copy(update={"duration_s": DURATION_S})
    with fault:
        times = latency.measure(
            trial, rig.deployment.ends, TrimPolicy(), lambda: None
        ).figures.latency
    assert times is not None
    return times


CHECK = ReferenceCheck(
    "round-trip", "latency, round trip",
    "the kernel's times of the system calls; a BPF program that waits for 100 us each way",
    RigKind.ROUND_TRIPS, "ns", WITHIN_NS, measure,
    wider={"median": 6_000, f"{DELAY_US} us each way": 6_000}, below={"shortest": BELOW_NS},
    why_not=why_not,
)  # fmt: skip
