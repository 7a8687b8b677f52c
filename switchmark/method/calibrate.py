"""The limits of the engine itself, measured without a switch: its highest rate, its shortest
one-way time, and how late it sends frames."""

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
    paced_s = task.trial.duration_s * (len(LATENESS_FRACTIONS) + 1)  # one more for the floor
    r_plus = of_trial(task, later_s=paced_s)
    figures = [figure(CEILING, r_plus.estimate, "pps")]
    for fraction in LATENESS_FRACTIONS:
        task.measurer.measure(task.trial.duration_s, fraction * r_plus.pps)
        late_ns = task.measurer.trials()[-1].late_max_ns
        if late_ns is not None:
            name = f"latest frame at {fraction * 100:g} % of the ceiling"
            figures.append(MethodFigure(name=name, value=late_ns, unit="ns"))
    floor = latency_at(task, 0.1, 0.1 * r_plus.pps)
    (median,) = figures_of(floor.latency, ["median"])
    figures.append(median.model_copy(update={"name": FLOOR}))
    return task.result(
        CEILING,
        figures,
        stopped=r_plus.stopped,
        warm_up_trials=1,
        notes=in_words(r_plus.outliers, r_plus.bands, "trial", pps_text),
        latency=[floor],
    )


def refusals(_sweep: Sweep, switch: str, _capabilities: Capabilities) -> Iterator[Refusal]:
    """Return a refusal of every switch: only the baseline shows the limits of the engine."""
    if switch != WIRE:
        yield Refusal("method calibrate measures the baseline", f"use switch: {WIRE}, not {switch}")


METHOD = Method(
    name="calibrate",
    meaning="highest rate and shortest time of the engine itself, without a switch",
    run=run,
    usual_time_s=trials_of_full_length(10),
    compared=(method_metric(CEILING, "pps"), method_metric(FLOOR, "ns")),
    refuse=refusals,
    times_frames=True,
)
