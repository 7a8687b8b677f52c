"""One-way times from scripted applications that send and receive: both ways together and apart."""

from __future__ import annotations

import pytest

from switchmark.errors import TrialFailed
from switchmark.method.support.one_way import figures_of
from switchmark.record import Latency
from switchmark.trial.deployed_measurer import DeployedMeasurer
from switchmark.trial.verification import PairEnds
from tests.unit.method_fakes import TIMED
from tests.unit.trial_fakes import (
    T0,
    FakeEngine,
    event,
    latency_of,
    process,
    result,
    samples,
    trial,
)

STARTED = event("started", t_ns=T0)
BOTH = trial(bidirectional=True, rate_pps=1000, probe_rate_pps=100, method="one-way")


def end(times_ns: dict[int, int], sent: int) -> FakeEngine:
    """One end, which sent so many probes and timed those of the other."""
    output = {
        "totals": {"tx_offered": sent},
        "loss": {"received_unique": sum(times_ns.values())},
        "latency": latency_of(times_ns),
    }
    load = {"totals": {"tx_offered": 1000}, "loss": {"received_unique": 990}}
    lines = samples(10, tx_offered=100, rx_frames=99)
    return FakeEngine({"start": lambda _: [STARTED, *lines, result(probe=output, **load)]})


def measured(a: FakeEngine, b: FakeEngine) -> Latency:
    ends = process(a, "duplex"), process(b, "duplex")
    streams = [PairEnds(*ends), PairEnds(*reversed(ends), "reverse")]
    point, found = DeployedMeasurer(BOTH, streams, lambda: None).measure_latency(1.0, 2000, 32)
    assert (point.offered_frames, point.lost_frames) == (2000, 20), "the load's own count"
    return found


def test_probe_times_are_given_together_and_by_direction() -> None:
    a, b = end({30_000: 40}, sent=100), end({10_000: 90}, sent=50)
    found = measured(a, b)
    assert (found.count, found.lost, found.min_ns, found.max_ns) == (130, 20, 10_000, 30_000)
    forward, reverse = found.directions
    assert (forward.direction, reverse.direction) == ("forward", "reverse")
    assert (forward.latency.count, forward.latency.lost, forward.latency.mean_ns) == (90, 10, 1e4)
    assert (reverse.latency.count, reverse.latency.lost, reverse.latency.mean_ns) == (40, 10, 3e4)
    for item in (a, b):
        (start,) = item.commands
        assert {"probe-rate=100", "probes=1"} <= set(start.split()), "both send and time them"


def test_silent_direction_fails_the_trial() -> None:
    with pytest.raises(TrialFailed, match="no probe arrived going reverse"):
        measured(end({}, sent=100), end({10_000: 90}, sent=100))


def test_clock_uncertainty_moves_times_and_not_deviation() -> None:
    unsure = TIMED.model_copy(update={"clock_uncertainty_ns": 400})
    mean, deviation = figures_of(unsure, ["mean", "stdev"])
    assert (mean.low, mean.high) == (mean.value - 400, mean.value + 400)
    assert (deviation.value, deviation.low, deviation.high) == (TIMED.stdev_ns, None, None)
