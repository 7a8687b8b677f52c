"""Checks the highest rate of an I/O by the switch's port counter and CLOCK_MONOTONIC.

While the traffic runs, the counter of the port to the receiver is read together with
CLOCK_MONOTONIC. The receiver's figure for the same time must agree, without the frames that the
kernel dropped because the receiver's socket was full.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from switchmark.certify.support.reference_check import ReferenceCheck, RigKind, Round
from switchmark.certify.support.rig import Rig
from switchmark.engine.events import IntervalEvent
from switchmark.engine.loads import forwarded_pps
from switchmark.errors import TrialFailed
from switchmark.method.support.measurer import SATURATING
from switchmark.trial.deployed_measurer import DeployedMeasurer
from switchmark.trial.throughput import common_time
from switchmark.trial.trim import kept_intervals

DURATION_S = 0.6


def measure(rig: Rig) -> Round:
    """Run one saturated trial."""
    readings: list[tuple[int, int]] = []

    def read() -> None:
        before_ns = time.monotonic_ns()
        frames = rig.deployment.switch.counters().ports[1].tx_frames
        readings.append(((before_ns + time.monotonic_ns()) // 2, frames))

    measurer = DeployedMeasurer(rig.plan.trial, rig.deployment.ends, read)
    point = measurer.measure(DURATION_S, SATURATING)
    (pair,) = rig.deployment.ends
    window = common_time([pair.a])
    samples = [
        sample
        for sample in kept_intervals(pair.b.intervals, window)
        if readings
        and readings[0][0] <= sample.t_ns - sample.duration_ns
        and sample.t_ns <= readings[-1][0]
    ]
    if len(samples) < 3:
        raise TrialFailed("too few samples between two readings of the kernel's counter")
    return Round(
        {"saturated": saturated_error(samples, readings)},
        figures={"ceiling, kpps": point.forwarded_pps / 1e3},
    )


def saturated_error(samples: Sequence[IntervalEvent], readings: Sequence[tuple[int, int]]) -> float:
    """Return the relative error of the receiver's rate, compared with the frames that its socket
    accepted. Raise TrialFailed if it accepted none."""
    true_pps = counted_pps(readings, samples[0].t_ns - samples[0].duration_ns, samples[-1].t_ns)
    dropped = sum(sample.rx_socket_drops for sample in samples)
    accepted_pps = true_pps - dropped * 1e9 / sum(sample.duration_ns for sample in samples)
    if accepted_pps <= 0:
        raise TrialFailed("the receiver had no core to read frames from its socket")
    return forwarded_pps(samples) / accepted_pps - 1


def counted_pps(readings: Sequence[tuple[int, int]], begin_ns: int, end_ns: int) -> float:
    """Return the counter's rate between two moments, interpolated between readings."""
    times, counts = zip(*readings, strict=True)
    begin, end = np.interp([begin_ns, end_ns], times, counts)
    return float(end - begin) * 1e9 / (end_ns - begin_ns)


CHECK = ReferenceCheck(
    "ceiling", "saturated rate", "the kernel's counter and clock", RigKind.COUNTS, "ratio", 0.02,
    measure, needs_kernel=False,
)  # fmt: skip
