"""Recovery: from overload (RFC 2544 section 26.5), and from a reset of the switch (26.6).

Overload: 110 % of the throughput, then at once 50 %; the recovery time runs from the end of the
overload to the last frame that is lost. Reset: a steady load while the switch is killed and
started again; the outage is given by missing frames and by silence, as RFC 6201 has both.
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
RESET_TAIL_S = 3.0  # of traffic after the bench has done its part: switches wake up in it
RESET_AT_S = 1.5
NEVER_SHARE = 0.9  # losses later than this share of the relief: it has not recovered within


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How the switch recovered."""

    step: StepDown
    time: Span | None  # from the end of the overload to the last loss; None: not within
    reset: Disturbance
    notes: tuple[str, ...]


def relief_s(overload_s: float) -> float:
    """How long the lower load is offered, in seconds."""
    return min(LONGEST_RELIEF_S, max(SHORTEST_RELIEF_S, overload_s))


def recover(
    switch: Disturber,
    *,
    throughput_pps: float,
    overload_s: float,
    restart: Callable[[], None],
) -> Recovery:
    """Overload the switch and relieve it, then kill and restart it under half its throughput."""
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
    found, gap_s = step.last_loss, step.gap_s
    if found.seconds > NEVER_SHARE * step.after.duration_s:
        return None
    return Span(gap_s + found.seconds, gap_s + found.low_s, gap_s + found.high_s)


def _step_notes(step: StepDown, overload_s: float, recovered: Span | None) -> list[str]:
    notes = []
    if overload_s < RFC_OVERLOAD_S:
        notes.append(f"overloaded for {overload_s:g} s; RFC 2544 asks for {RFC_OVERLOAD_S:g} s")
    if not step.overload.load_met:
        notes.append(
            f"the overload: only {step.overload.offered_pps:.0f} of "
            f"{step.overload.intended_pps or 0.0:.0f} pps were offered: smaller than intended"
        )
    if step.overload.judged_lost_frames == 0:
        notes.append("the overload lost no frame: there was nothing to recover from")
    if recovered is None:
        notes.append(
            f"frames were still lost at the end of {step.after.duration_s:g} s at half the "
            "throughput: not recovered within"
        )
    return notes


def _reset_notes(reset: Disturbance) -> list[str]:
    notes = [f"the bench took {reset.action_s:.2f} s to kill and restart the switch"]
    if not reset.resumed:
        notes.append("frames did not flow again after the reset while the trial ran")
    return notes


def run(task: Task) -> MethodResult:
    """Measure recovery from overload and from a reset."""
    throughput_pps, looks = throughput(task)
    found = recover(
        task.measurer,
        throughput_pps=throughput_pps,
        overload_s=task.trial.duration_s,
        restart=task.restart_switch,
    )
    figures = [MethodFigure(name="throughput", value=throughput_pps, unit="pps")]
    if found.time is not None:
        figures.insert(0, time_figure("recovery", found.time))
    figures += [
        MethodFigure(name="overload", value=found.step.overload.offered_pps, unit="pps"),
        MethodFigure(
            name="lost after it", value=found.step.after.judged_lost_frames, unit="frames"
        ),
        *outage_figures("reset", found.reset),
    ]
    headline = "recovery" if found.time is not None else None
    return task.result(headline, figures, warm_up_trials=looks, notes=found.notes)


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
