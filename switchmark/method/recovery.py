"""Recovery: from overload (RFC 2544 section 26.5), and from a reset of the switch (26.6).

Overload: 110 % of the throughput is offered, and immediately after it 50 %. The recovery time is
the time from the end of the overload to the last lost frame. Reset: a steady load passes while the
switch is killed and started again. The outage is computed from missing frames and from silence;
RFC 6201 defines both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from switchmark.method.support.disturbance import Disturbance, Disturber, StepDown
from switchmark.method.support.disturbed_load import (
    RELIEF,
    outage_figures,
    throughput,
    time_figure,
)
from switchmark.method.support.method import Method, trials_of_full_length
from switchmark.method.support.outage import Span
from switchmark.method.support.task import Task
from switchmark.record import MethodFigure, MethodResult
from switchmark.record.metric import method_metric

OVERLOAD = 1.10
RFC_OVERLOAD_S = 60.0
SHORTEST_RELIEF_S, LONGEST_RELIEF_S = 2.0, 30.0
LONGEST_RESET_S = 120.0
RESET_TAIL_S = 3.0  # traffic after the restart, in which the switch begins to forward
RESET_AT_S = 1.5
NEVER_SHARE = 0.9  # a loss after this share of the lower load: the switch has not recovered


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The recovery from the overload, and the effect of the reset."""

    step: StepDown
    time: Span | None  # from the end of the overload to the last loss; None: not recovered
    reset: Disturbance
    notes: tuple[str, ...]


def relief_s(overload_s: float) -> float:
    """Return the seconds for which the lower load is offered."""
    return min(LONGEST_RELIEF_S, max(SHORTEST_RELIEF_S, overload_s))


def recover(
    switch: Disturber,
    *,
    throughput_pps: float,
    overload_s: float,
    restart: Callable[[], None],
) -> Recovery:
    """Overload the switch and lower the load, then restart the switch at half its throughput."""
    step = switch.step_down(
        overload_s, OVERLOAD * throughput_pps, relief_s(overload_s), RELIEF * throughput_pps
    )
    recovered = _recovered(step)
    reset = switch.disturb(
        LONGEST_RESET_S, RELIEF * throughput_pps, RESET_AT_S, restart, RESET_TAIL_S
    )
    return Recovery(
        step=step,
        time=recovered,
        reset=reset,
        notes=(*_step_notes(step, overload_s, recovered), *_reset_notes(reset)),
    )


def _recovered(step: StepDown) -> Span | None:
    if step.last_loss is None:
        return Span(0.0, 0.0, step.gap_s)
    last, gap_s = step.last_loss, step.gap_s
    if last.seconds > NEVER_SHARE * step.after.duration_s:
        return None
    return Span(gap_s + last.seconds, gap_s + last.low_s, gap_s + last.high_s)


def _step_notes(step: StepDown, overload_s: float, recovered: Span | None) -> list[str]:
    notes = []
    if overload_s < RFC_OVERLOAD_S:
        notes.append(f"overloaded for {overload_s:g} s; RFC 2544 requires {RFC_OVERLOAD_S:g} s")
    if not step.overload.load_met:
        notes.append(
            f"the overload: only {step.overload.offered_pps:.0f} of "
            f"{step.overload.intended_pps or 0.0:.0f} pps were offered: smaller than intended"
        )
    if step.overload.judged_lost_frames == 0:
        notes.append("the overload lost no frame: there was nothing to recover from")
    if recovered is None:
        notes.append(
            f"not recovered: frames were still lost after {step.after.duration_s:g} s at half the "
            "throughput"
        )
    return notes


def _reset_notes(reset: Disturbance) -> list[str]:
    notes = [f"the bench took {reset.action_s:.2f} s to kill and restart the switch"]
    if not reset.resumed:
        notes.append("no frames arrived after the reset until the end of the trial")
    return notes


def run(task: Task) -> MethodResult:
    """Measure recovery from overload and from a reset."""
    throughput_pps, warm_up_trials = throughput(task)
    recovery = recover(
        task.measurer,
        throughput_pps=throughput_pps,
        overload_s=task.trial.duration_s,
        restart=task.restart_switch,
    )
    figures = [MethodFigure(name="throughput", value=throughput_pps, unit="pps")]
    if recovery.time is not None:
        figures.insert(0, time_figure("recovery", recovery.time))
    figures += [
        MethodFigure(name="overload", value=recovery.step.overload.offered_pps, unit="pps"),
        MethodFigure(
            name="lost after it", value=recovery.step.after.judged_lost_frames, unit="frames"
        ),
        *outage_figures("reset", recovery.reset),
    ]
    headline = "recovery" if recovery.time is not None else None
    return task.result(headline, figures, warm_up_trials=warm_up_trials, notes=recovery.notes)


METHOD = Method(
    name="recovery",
    meaning="time until loss ends after an overload; outage of a restart (RFC 2544, 26.5, 26.6)",
    run=run,
    usual_time_s=trials_of_full_length(3),
    compared=(method_metric("recovery", "s"), method_metric("reset: outage", "s")),
    needs_switch=True,
    one_host="it restarts one switch, and here there are two; leave location: remote out",
    finds_outages=True,
    restarts_switch=True,
)
