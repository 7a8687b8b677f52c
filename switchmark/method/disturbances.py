"""The methods that disturb a running switch, as trials of a campaign: recovery, reconfiguration.

Without a set rate, both take their loads from what this switch forwards when everything is
offered, measured first.
"""

from __future__ import annotations

from switchmark.errors import TrialFailed
from switchmark.method.disturbed import Disturbance
from switchmark.method.measurer import SATURATING
from switchmark.method.reconfiguration import reconfigure
from switchmark.method.recovery import RELIEF, recover
from switchmark.method.task import Answer, Task
from switchmark.results.record import MethodFigure
from switchmark.switch.changes import changes_of

THROUGHPUT_LOOK_S = 2.0


def recovery_answer(task: Task) -> Answer:
    """Recovery from overload and from a reset."""
    throughput, looks = _throughput(task)
    found = recover(
        task.measurer,
        throughput_pps=throughput,
        overload_s=task.trial.duration_s,
        restart=task.deployment.restart_switch,
    )
    figures = [MethodFigure(name="throughput", value=throughput, unit="pps")]
    if found.seconds is not None:
        figures.insert(0, _time("recovery", found.seconds, found.low_s, found.high_s))
    figures += [
        MethodFigure(name="overload", value=found.step.overload.offered_pps, unit="pps"),
        MethodFigure(name="lost after it", value=found.step.after.lost_frames, unit="frames"),
        *_outage("reset", found.reset),
    ]
    return Answer(
        headline="recovery" if found.seconds is not None else None,
        figures=figures,
        stopped="done",
        budget_s=task.budget_s,
        warm_up_trials=looks,
        notes=found.notes,
    )


def reconfiguration_answer(task: Task) -> Answer:
    """How long forwarding stops while ports or rules are changed."""
    changes = changes_of(task.deployment.switch)
    throughput, looks = _throughput(task)
    load = throughput if task.trial.rate_pps is not None else RELIEF * throughput
    found = reconfigure(task.measurer, changes, load_pps=load, trial_s=task.trial.duration_s)
    figures = [
        MethodFigure(name="longest outage", value=found.worst.seen.outage_s, unit="s"),
        MethodFigure(name="load", value=load, unit="pps"),
        *_outage("nothing done", found.quiet),
    ]
    for one in found.changes:
        figures += _outage(one.name, one.seen)
    return Answer(
        headline="longest outage",
        figures=figures,
        stopped="done",
        budget_s=task.budget_s,
        warm_up_trials=looks,
        notes=[f"longest outage: {found.worst.name}", *found.notes],
    )


def _throughput(task: Task) -> tuple[float, int]:
    """The load that the others are shares of, and how many trials it took."""
    if task.trial.rate_pps is not None:
        return task.max_pps, 0
    point = task.measurer.measure(THROUGHPUT_LOOK_S, SATURATING)
    if point.forwarded_pps <= 0:
        raise TrialFailed(f"{task.trial.switch} forwarded no frame when everything was offered")
    return point.forwarded_pps, 1


def _outage(name: str, seen: Disturbance) -> list[MethodFigure]:
    """By missing frames, and by silence."""
    silence = seen.silence
    return [
        MethodFigure(name=f"{name}: outage", value=seen.outage_s, unit="s"),
        _time(f"{name}: silence", silence.seconds, silence.low_s, silence.high_s),
    ]


def _time(name: str, seconds: float, low_s: float, high_s: float) -> MethodFigure:
    return MethodFigure(name=name, value=seconds, unit="s", low=low_s, high=high_s)
