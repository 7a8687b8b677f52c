"""Round trips, absolute and added: by the kernel's times of the client's calls, and by the delay
that it was told to add each way."""

from __future__ import annotations

from contextlib import nullcontext

from switchmark.certify.support.frame_faults import delayed, struck
from switchmark.certify.support.stand import Rig
from switchmark.certify.support.system_calls import (
    BELOW_NS,
    calls_timed,
    middle_and_least,
    why_not,
)
from switchmark.certify.support.truth import Stand, Truth, Turn
from switchmark.model.campaign import TrimPolicy
from switchmark.record import Latency
from switchmark.trial import latency

DURATION_S = 0.3
DELAY_US = 100  # each way
WITHIN_NS = 2_500


def turn(rig: Rig) -> Turn:
    """Run one trial with the calls timed, and two for the difference."""
    (pair,) = rig.deployment.ends
    with calls_timed(pair.a.spawned.pid, pair.a.spawned.pid) as calls:
        seen = round_trips(rig)
        median_ns, least_ns = middle_and_least(calls.times_ns(), seen.count)
    floor_ns, added_ns = (round_trips(rig, us).min_ns for us in (0, DELAY_US))
    return Turn(
        {
            "shortest": seen.min_ns - least_ns,
            "median": seen.percentiles_ns["50"] - median_ns,
            f"{DELAY_US} us each way": added_ns - floor_ns - 2e3 * DELAY_US,
        },
        figures={"floor, us": floor_ns / 1e3, "median, us": seen.percentiles_ns["50"] / 1e3},
    )


def round_trips(rig: Rig, delay_us: int = 0) -> Latency:
    """Round trips of a trial in which every frame takes so much longer in the bridge, both ways."""
    hold = struck(rig.bridge, delayed(1000 * delay_us), 0, 1) if delay_us else nullcontext()
    trial = rig.plan.trial.model_copy(update={"duration_s": DURATION_S})
    with hold:
        found = latency.measure(
            trial, rig.deployment.ends, TrimPolicy(), lambda: None
        ).figures.latency
    assert found is not None
    return found


TRUTH = Truth(
    "round-trip", "latency, round trip",
    "the kernel's times of the system calls; a BPF program that waits for 100 us each way",
    Stand.ROUND_TRIPS, "ns", WITHIN_NS, turn,
    wider={"median": 6_000, f"{DELAY_US} us each way": 6_000}, below={"shortest": BELOW_NS},
    why_not=why_not,
)  # fmt: skip
