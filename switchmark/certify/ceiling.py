"""The highest rate of this I/O through the switch, by its port's counter and CLOCK_MONOTONIC.

While the traffic runs the counter of the port to the receiver is read with CLOCK_MONOTONIC beside
it; the receiver's figure for the same time must agree, with the frames left out that the kernel
counted as finding no room at its socket.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from switchmark.certify.support.stand import Rig
from switchmark.certify.support.truth import Stand, Truth, Turn
from switchmark.engine.events import IntervalEvent
from switchmark.engine.loads import forwarded_pps
from switchmark.errors import TrialFailed
from switchmark.method.support.measurer import SATURATING
from switchmark.trial.deployed_measurer import DeployedMeasurer
from switchmark.trial.throughput import common_time
from switchmark.trial.trim import kept_intervals

DURATION_S = 0.6


def turn(rig: Rig) -> Turn:
    """Run one saturated trial."""
    read: list[tuple[int, int]] = []

    def look() -> None:
        before_ns = time.monotonic_ns()
        frames = rig.deployment.switch.counters().ports[1].tx_frames
        read.append(((before_ns + time.monotonic_ns()) // 2, frames))

    measurer = DeployedMeasurer(rig.plan.trial, rig.deployment.ends, look)
    point = measurer.measure(DURATION_S, SATURATING)
    (pair,) = rig.deployment.ends
    window = common_time([pair.a])
    kept = [
        one
        for one in kept_intervals(pair.b.intervals, window)
        if read and read[0][0] <= one.t_ns - one.duration_ns and one.t_ns <= read[-1][0]
    ]
    if len(kept) < 3:
        raise TrialFailed("too few samples between two looks at the kernel's counter")
    return Turn(
        {"saturated": saturated_error(kept, read)},
        figures={"ceiling, kpps": point.forwarded_pps / 1e3},
    )


def saturated_error(kept: Sequence[IntervalEvent], read: Sequence[tuple[int, int]]) -> float:
    """How far the receiver's rate is off, as a share of that of the frames that it could take.
    Raises TrialFailed where that were none."""
    true_pps = counted_pps(read, kept[0].t_ns - kept[0].duration_ns, kept[-1].t_ns)
    dropped = sum(one.rx_socket_drops for one in kept)
    taken_pps = true_pps - dropped * 1e9 / sum(one.duration_ns for one in kept)
    if taken_pps <= 0:
        raise TrialFailed("the receiver had no core to take frames from its socket")
    return forwarded_pps(kept) / taken_pps - 1


def counted_pps(read: Sequence[tuple[int, int]], begin_ns: int, end_ns: int) -> float:
    """The counter's rate between two moments in frames/s, interpolated between readings."""
    times, counts = zip(*read, strict=True)
    begin, end = np.interp([begin_ns, end_ns], times, counts)
    return float(end - begin) * 1e9 / (end_ns - begin_ns)


TRUTH = Truth(
    "ceiling", "saturated rate", "the kernel's counter and clock", Stand.COUNTS, "ratio", 0.02,
    turn, needs_kernel=False,
)  # fmt: skip
