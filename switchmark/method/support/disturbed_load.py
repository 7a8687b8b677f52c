"""The load under which methods disturb a switch, and the figures that they give.

Without a set rate, the loads are shares of the rate that the switch forwards under saturation,
which is measured first.
"""

from __future__ import annotations

from switchmark.errors import TrialFailed
from switchmark.method.support.disturbance import Disturbance
from switchmark.method.support.measurer import SATURATING
from switchmark.method.support.outage import Span
from switchmark.method.support.task import Task
from switchmark.record import MethodFigure

THROUGHPUT_TRIAL_S = 2.0
RELIEF = 0.50  # share of the throughput that every switch carries


def throughput(task: Task) -> tuple[float, int]:
    """Return the reference load in frames/s, and the number of trials that measured it."""
    if task.trial.rate_pps is not None:
        return task.max_pps, 0
    point = task.measurer.measure(THROUGHPUT_TRIAL_S, SATURATING)
    if point.forwarded_pps <= 0:
        raise TrialFailed(f"{task.trial.switch} forwarded no frame under saturation")
    return point.forwarded_pps, 1


def outage_figures(name: str, disturbance: Disturbance) -> list[MethodFigure]:
    """Return the outage by missing frames, and by silence."""
    return [
        MethodFigure(name=f"{name}: outage", value=disturbance.outage_s, unit="s"),
        time_figure(f"{name}: silence", disturbance.silence),
    ]


def time_figure(name: str, time: Span) -> MethodFigure:
    """Return a time as a figure, with its bounds."""
    return MethodFigure(name=name, value=time.seconds, unit="s", low=time.low_s, high=time.high_s)
