"""The engine's own ceiling, its one-way floor, and how late it sends, over the bare wire."""

from __future__ import annotations

from collections.abc import Iterator

from switchmark.errors import Refusal
from switchmark.method.r_plus import of_trial
from switchmark.method.support.method import Method, trials_of_full_length
from switchmark.method.support.one_way import figures_of, latency_at
from switchmark.method.support.task import Task, figure, pps_text
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import WIRE
from switchmark.record import MethodFigure, MethodResult
from switchmark.record.metric import method_metric
from switchmark.statistics.outliers import in_words

LATENESS_FRACTIONS = (0.1, 0.5, 0.9)
CEILING, FLOOR = "ceiling", "one-way floor, median"


def run(task: Task) -> MethodResult:
    """Measure the ceiling by saturated trials, then paced trials at fractions of it."""
    paced_s = task.trial.duration_s * (len(LATENESS_FRACTIONS) + 1)  # and the floor
    found = of_trial(task, later_s=paced_s)
    figures = [figure(CEILING, found.estimate, "pps")]
    for fraction in LATENESS_FRACTIONS:
        task.measurer.measure(task.trial.duration_s, fraction * found.pps)
        late_ns = task.measurer.trials()[-1].late_max_ns
        if late_ns is not None:
            name = f"latest frame at {fraction * 100:g} % of the ceiling"
            figures.append(MethodFigure(name=name, value=late_ns, unit="ns"))
    floor = latency_at(task, 0.1, 0.1 * found.pps)
    (median,) = figures_of(floor.latency, ["median"])
    figures.append(median.model_copy(update={"name": FLOOR}))
    return task.result(
        CEILING,
        figures,
        stopped=found.stopped,
        warm_up_trials=1,
        notes=in_words(found.outliers, found.bands, "trial", pps_text),
        latency=[floor],
    )


def refusals(_sweep: Sweep, switch: str, _can: Capabilities) -> Iterator[Refusal]:
    """Return why this trial cannot be calibrated: only a bare wire tells about the traffic
    applications alone."""
    if switch != WIRE:
        yield Refusal(
            "method calibrate measures the bare wire", f"use switch: {WIRE}, not {switch}"
        )


METHOD = Method(
    name="calibrate",
    meaning="highest rate and shortest time of the engine itself, without a switch",
    run=run,
    usual_time_s=trials_of_full_length(10),
    compared=(method_metric(CEILING, "pps"), method_metric(FLOOR, "ns")),
    refuse=refusals,
    times_frames=True,
)
