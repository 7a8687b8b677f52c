"""The load under which methods disturb a switch, and the figures that they give.

Without a set rate, the loads are shares of what this switch forwards when everything is offered,
which is measured first.
"""

from __future__ import annotations

from switchmark.errors import TrialFailed
from switchmark.method.support.disturbance import Disturbance
from switchmark.method.support.measurer import SATURATING
from switchmark.method.support.outage import Span
from switchmark.method.support.task import Task
from switchmark.record import MethodFigure

THROUGHPUT_LOOK_S = 2.0
RELIEF = 0.50  # of the throughput: a load that every switch carries


def throughput(task: Task) -> tuple[float, int]:
    """The load that the others are shares of, in frames/s, and how many trials it took."""
    if task.trial.rate_pps is not None:
        return task.max_pps, 0
    point = task.measurer.measure(THROUGHPUT_LOOK_S, SATURATING)
    if point.forwarded_pps <= 0:
        raise TrialFailed(f"{task.trial.switch} forwarded no frame when everything was offered")
    return point.forwarded_pps, 1


def outage_figures(name: str, seen: Disturbance) -> list[MethodFigure]:
    """The outage by missing frames, and by silence."""
    return [
        MethodFigure(name=f"{name}: outage", value=seen.outage_s, unit="s"),
        time_figure(f"{name}: silence", seen.silence),
    ]


def time_figure(name: str, time: Span) -> MethodFigure:
    """A time as a figure, with the bounds between which it lies."""
    return MethodFigure(name=name, value=time.seconds, unit="s", low=time.low_s, high=time.high_s)
