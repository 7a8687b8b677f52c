"""Methods of many trials as one trial of a campaign: which one, with what, and what it found.

Each method is a pure search or series (its own module); here it gets a measurer on the
deployment, the highest load worth asking, and its budget, and its answer becomes the typed
`MethodResult` of the record. The highest load is the trial's own rate, else what the bare
wire carried, else what this switch took when everything was offered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from switchmark.campaign.model import Method, Trial
from switchmark.errors import TrialFailed
from switchmark.method import back_to_back, loss_vs_load, ndr_pdr, plateau, r_plus, soak
from switchmark.method.bounds import GoalBounds
from switchmark.method.deployed import as_trials
from switchmark.method.deployment import Deployment
from switchmark.method.disturbances import reconfiguration_answer, recovery_answer
from switchmark.method.disturbed import DisturbedMeasurer
from switchmark.method.goal import preset
from switchmark.method.judge import refused_in_kernel
from switchmark.method.measurer import SATURATING, BudgetError
from switchmark.method.seen import Seen
from switchmark.method.task import Answer, Task, figure
from switchmark.method.throughput import Tick
from switchmark.results.outliers import in_words
from switchmark.results.record import (
    LatencyAtLoad,
    MethodBounds,
    MethodFigure,
    MethodResult,
)

SWEEP_STEPS = 12
BEYOND = 1.3  # of what the switch took, where the wire's ceiling is not known
FIRST_LOOK_S = 1.0
BURSTS_BUDGET_S = 120.0
MIN_LOAD_SHARE = 0.001  # of the highest load, where that is below the usual lowest
LATENESS_FRACTIONS = (0.1, 0.5, 0.9)
pps_text = "{:.6g} pps".format


def run_method(
    trial: Trial,
    measurer: DisturbedMeasurer,
    deployment: Deployment,
    ceiling_pps: float | None,
) -> MethodResult:
    """Run the trial's method; `ceiling_pps` is the bare wire's, total over all pairs.

    Raises `TrialFailed` when it cannot say anything at all."""
    max_pps = _max_pps(trial, measurer, ceiling_pps)
    first_looks = len(measurer.points)
    task = Task(
        trial=trial,
        measurer=measurer,
        deployment=deployment,
        max_pps=max_pps,
        budget_s=trial.budget_s,
        wire_pps=ceiling_pps,
        in_kernel=not deployment.switch.process_ids(),
    )
    try:
        answer = RUNS[trial.method](task)
    except BudgetError as error:
        raise TrialFailed(f"{trial.method}: {error}; raise budget") from None
    return MethodResult(
        method=trial.method.value,
        headline=answer.headline,
        figures=answer.figures,
        bounds=list(answer.bounds),
        latency=list(answer.latency),
        stopped=answer.stopped,
        spent_s=math.fsum(point.cost_s for point in measurer.points),
        budget_s=answer.budget_s,
        warm_up_trials=first_looks + answer.warm_up_trials,
        notes=[*answer.notes, *_strange(measurer)],
        trial_count=len(measurer.points),
        trials=as_trials(measurer.points, measurer.asides),
    )


def measure(trial: Trial, deployment: Deployment, baseline_pps: float | None, tick: Tick) -> Seen:
    """Run the method on applications that are ready and verified."""
    measurer = DisturbedMeasurer(trial, deployment.streams, tick, deployment.plan.far)
    found = run_method(trial, measurer, deployment, baseline_pps)
    return Seen(
        method=found,
        trim=None,
        kept_samples=len(measurer.points),
        source_counters=measurer.source_counters,
        sink_counters=measurer.sink_counters,
        sent_frames=sum(one.offered_frames for one in measurer.points),
        socket_drops=sum(one.socket_drops for one in measurer.asides),
        on_schedule=all(one.load_met for one in found.latency),
        stretch=measurer.stretch,
        passed_frames=sum(one.offered_frames - one.lost_frames for one in measurer.points),
        results=measurer.cpu_results,
        far_results=measurer.far_cpu_results,
    )


def _max_pps(trial: Trial, measurer: DisturbedMeasurer, ceiling_pps: float | None) -> float:
    if trial.rate_pps is not None:
        return float(trial.rate_pps * trial.streams)
    if ceiling_pps is not None:
        return ceiling_pps
    seen = measurer.measure(FIRST_LOOK_S, SATURATING)
    if seen.offered_pps <= 0:
        raise TrialFailed("the sender could not offer a single frame")
    return BEYOND * seen.offered_pps


def _ndr_pdr(task: Task) -> Answer:
    budget_s = task.budget_or(ndr_pdr.DEFAULT_BUDGET_S)
    found = ndr_pdr.search(
        task.measurer,
        preset(task.trial.goals),
        max_pps=task.max_pps,
        min_pps=min(ndr_pdr.DEFAULT_MIN_PPS, MIN_LOAD_SHARE * task.max_pps),
        budget_s=budget_s,
    )
    figures = [_bound_figure(task, one) for one in found.bounds if one.lower_pps is not None]
    paused = f"{found.paused} trials were repeated: the sender had paused, the port not pushed back"
    return Answer(
        headline=figures[0].name if figures else None,
        figures=figures,
        stopped=found.stopped,
        budget_s=budget_s,
        warm_up_trials=found.warm_up_trials,
        notes=[paused] if found.paused else [],
        bounds=[_bounds(one) for one in found.bounds],
    )


def _bound_figure(task: Task, found: GoalBounds) -> MethodFigure:
    """The lower bound; where the sender decided, under a name that does not claim to be the
    switch's, and without an upper bound."""
    assert found.lower_pps is not None, "asked of goals with a lower bound only"
    best = max(point.forwarded_pps for point in task.measurer.points)
    switchs = found.decided_by != "sender" or refused_in_kernel(
        found.lower_pps, best, task.wire_pps, in_kernel=task.in_kernel
    )
    return MethodFigure(
        name=found.goal.name if switchs else f"{found.goal.name} at least",
        value=found.lower_pps,
        unit="pps",
        low=found.lower_pps,
        high=found.upper_pps if switchs else None,
    )


def _bounds(found: GoalBounds) -> MethodBounds:
    return MethodBounds(
        goal=found.goal.name,
        loss_ratio=found.goal.loss_ratio,
        width=found.goal.width,
        lower_pps=found.lower_pps,
        upper_pps=found.upper_pps,
        conditional_throughput_pps=found.conditional_throughput_pps,
        decided_by=found.decided_by,
        mixed_from_pps=found.mixed_from_pps,
        mixed_to_pps=found.mixed_to_pps,
        notes=list(found.notes),
    )


def _r_plus(task: Task) -> Answer:
    found = _measure_r_plus(task)
    latency = [
        _latency_at(task, fraction, load) for fraction, load in r_plus.loads_at(found.pps).items()
    ]
    notes = in_words(found.outliers, found.bands, "trial", pps_text)
    notes += [
        f"latency at {one.fraction:g} R+: the load was not met, so it is of a lower one"
        for one in latency
        if not one.load_met
    ]
    return Answer(
        headline="R+",
        figures=[figure("R+", found.estimate, "pps"), *one_way_figures(latency)],
        stopped=found.stopped,
        budget_s=task.budget_s,
        warm_up_trials=1,
        notes=notes,
        latency=latency,
    )


def one_way_figures(latency: Sequence[LatencyAtLoad]) -> list[MethodFigure]:
    """Median and 99th percentile of the one-way times, with what two hosts' clocks leave open."""
    return [
        MethodFigure(
            name=f"one-way {name} at {one.fraction:g} R+",
            value=(value := one.latency.percentiles_ns[key]),
            unit="ns",
            low=None if unsure is None else max(0.0, value - unsure),
            high=None if unsure is None else value + unsure,
            count=one.latency.count,
        )
        for one in latency
        for name, key in (("median", "50"), ("p99", "99"))
        for unsure in (one.latency.clock_uncertainty_ns,)
    ]


def _measure_r_plus(task: Task) -> r_plus.RPlus:
    budget_s = math.inf if task.budget_s is None else task.budget_s
    return r_plus.measure_r_plus(task.measurer, trial_s=task.trial.duration_s, budget_s=budget_s)


def _latency_at(task: Task, fraction: float, load_pps: float) -> LatencyAtLoad:
    """Probes beside the load, where the trial has a rate for them; the load keeps its bursts.
    Else every frame is timed, and they go singly, since a burst measures its own queue; a sender
    that cannot offer the load so takes the trial's burst."""
    probes = task.trial.probe_rate_pps
    burst = 1 if probes is None else task.trial.burst
    point, latency = task.measurer.measure_latency(task.trial.duration_s, load_pps, burst)
    if not point.load_met and task.trial.burst > burst:
        burst = task.trial.burst
        point, latency = task.measurer.measure_latency(task.trial.duration_s, load_pps, burst)
    return LatencyAtLoad(
        fraction=fraction,
        load_pps=load_pps,
        burst=burst,
        probe_rate_pps=None if probes is None else float(probes * task.trial.streams),
        load_met=point.load_met,
        loss_ratio=point.loss_ratio,
        latency=latency,
    )


def _plateau(task: Task) -> Answer:
    loads = [task.max_pps * step / SWEEP_STEPS for step in range(1, SWEEP_STEPS + 1)]
    found = plateau.sweep(
        task.measurer,
        loads,
        trial_s=task.trial.duration_s,
        budget_s=math.inf if task.budget_s is None else task.budget_s,
    ).plateau
    figures = [] if found.pps is None else [figure("plateau", found.pps, "pps")]
    if found.follows_to_pps is not None:
        figures.append(MethodFigure(name="followed to", value=found.follows_to_pps, unit="pps"))
    notes = [*found.notes, f"trend above the knee: {found.trend}"]
    headline = figures[0].name if figures else None
    return Answer(headline=headline, figures=figures, stopped="done", budget_s=task.budget_s,
                  notes=notes)  # fmt: skip


def _loss_vs_load(task: Task) -> Answer:
    found = loss_vs_load.loss_vs_load(
        task.measurer,
        max_pps=task.max_pps,
        trial_s=task.trial.duration_s,
        budget_s=math.inf if task.budget_s is None else task.budget_s,
    )
    worst = max(found.points, key=lambda point: point.loss_ratio, default=None)
    figures = []
    if found.lossless_from_pps is not None:
        figures.append(MethodFigure(name="lossless to", value=found.lossless_from_pps, unit="pps"))
    if worst is not None:
        figures.append(MethodFigure(name="worst loss", value=worst.loss_ratio, unit="ratio"))
    notes = [f"{len(found.unmet)} loads were not really offered"] if found.unmet else []
    return Answer(headline=figures[0].name if figures else None, figures=figures,
                  stopped=found.stopped, budget_s=task.budget_s, notes=notes)  # fmt: skip


def _back_to_back(task: Task) -> Answer:
    look = task.measurer.measure(FIRST_LOOK_S, task.max_pps)
    budget_s = task.budget_or(BURSTS_BUDGET_S)
    found = back_to_back.back_to_back(
        task.measurer,
        rate_pps=task.max_pps,
        throughput_pps=look.forwarded_pps,
        budget_s=budget_s,
    )
    figures = []
    if found.burst_frames is not None:
        figures.append(figure("longest burst", found.burst_frames, "frames"))
    if found.buffer_frames is not None and found.buffer_s is not None:
        figures.append(MethodFigure(name="buffer", value=found.buffer_frames, unit="frames"))
        figures.append(MethodFigure(name="buffer time", value=found.buffer_s, unit="s"))
    figures.append(MethodFigure(name="burst rate", value=found.rate_pps, unit="pps"))
    notes = [f"{found.refused_share:.1%} of transmit calls of clean bursts met a full ring"]
    if found.endless_repetitions:
        notes.append(f"{found.endless_repetitions} times the longest burst (2 s) passed whole")
    if found.clean_none_repetitions:
        notes.append(f"{found.clean_none_repetitions} times even the shortest burst lost frames")
    return Answer(
        headline="longest burst" if found.burst_frames is not None else None,
        figures=figures,
        stopped="done" if found.finished else "budget",
        budget_s=budget_s,
        warm_up_trials=1,
        notes=notes,
    )


def _soak(task: Task) -> Answer:
    duration_s = task.trial.duration_s
    found = soak.soak(
        task.measurer,
        task.max_pps,
        duration_s=duration_s,
        window_s=min(soak.DEFAULT_WINDOW_S, max(duration_s / 20, min(duration_s, 0.5))),
        budget_s=math.inf if task.budget_s is None else task.budget_s,
    )
    figures = [
        MethodFigure(name="loss ratio", value=found.loss_ratio, unit="ratio", low=0.0,
                     high=found.loss_ratio_limit)
        if found.loss_ratio_limit is not None
        else MethodFigure(name="loss ratio", value=found.loss_ratio, unit="ratio"),
        MethodFigure(
            name="lossy windows",
            value=found.lossy_windows / len(found.windows),
            unit="ratio",
            low=found.lossy_share_low,
            high=found.lossy_share_high,
            count=len(found.windows),
        ),
        MethodFigure(name="longest clean", value=found.longest_clean_s, unit="s"),
        figure("forwarded", found.forwarded_pps, "pps"),
        MethodFigure(name="not offered", value=found.unoffered_ratio, unit="ratio"),
    ]  # fmt: skip
    notes = [
        f"course: {found.course.reason}",
        *in_words(found.course.outliers, None, "window", pps_text),
    ]
    if not found.load_met:
        notes.append("not every window was offered what was intended")
    if found.silence_s is not None:
        figures.append(MethodFigure(name="longest silence", value=found.silence_s, unit="s"))
    if found.silence_s:
        notes.append(
            f"nothing arrived for {found.silence_s:.3g} s, until window {found.silence_window + 1}"
        )
    planned = max(1, round(duration_s / found.windows[0].duration_s))
    return Answer(headline="loss ratio", figures=figures, budget_s=task.budget_s, notes=notes,
                  stopped="done" if len(found.windows) >= planned else "budget")  # fmt: skip


def _calibrate(task: Task) -> Answer:
    """The engine's own ceiling, its one-way floor, and how late it sends, over the bare wire."""
    found = _measure_r_plus(task)
    figures = [figure("ceiling", found.estimate, "pps")]
    for fraction in LATENESS_FRACTIONS:
        task.measurer.measure(task.trial.duration_s, fraction * found.pps)
        late_ns = task.measurer.asides[-1].late_max_ns
        if late_ns is not None:
            name = f"latest frame at {fraction * 100:g} % of the ceiling"
            figures.append(MethodFigure(name=name, value=late_ns, unit="ns"))
    floor = _latency_at(task, 0.1, 0.1 * found.pps)
    median, unsure = floor.latency.percentiles_ns["50"], floor.latency.clock_uncertainty_ns
    figures.append(
        MethodFigure(
            name="one-way floor, median",
            value=median,
            unit="ns",
            count=floor.latency.count,
            low=None if unsure is None else max(0.0, median - unsure),
            high=None if unsure is None else median + unsure,
        )
    )
    return Answer(
        headline="ceiling",
        figures=figures,
        stopped=found.stopped,
        budget_s=task.budget_s,
        warm_up_trials=1,
        notes=in_words(found.outliers, found.bands, "trial", pps_text),
        latency=[floor],
    )


def _strange(measurer: DisturbedMeasurer) -> list[str]:
    """What happened beside the loads."""
    counts = {
        "duplicated": sum(one.duplicates for one in measurer.asides),
        "reordered": sum(one.reordered for one in measurer.asides),
        "dropped at the receivers' own sockets": sum(one.socket_drops for one in measurer.asides),
    }
    stale = sum(one.stale for one in measurer.asides)
    counts["stragglers of an earlier trial (left out)"] = stale
    notes = [f"{count} frames were {what}" for what, count in counts.items() if count]
    restless = sum(not one.drained for one in measurer.asides)
    if restless:
        notes.append(f"in {restless} trials frames still arrived when the receiver was stopped")
    return notes


RUNS: dict[Method, Callable[[Task], Answer]] = {
    Method.NDR_PDR: _ndr_pdr,
    Method.R_PLUS: _r_plus,
    Method.PLATEAU: _plateau,
    Method.LOSS_VS_LOAD: _loss_vs_load,
    Method.BACK_TO_BACK: _back_to_back,
    Method.SOAK: _soak,
    Method.CALIBRATE: _calibrate,
    Method.RECOVERY: recovery_answer,
    Method.RECONFIGURATION: reconfiguration_answer,
}
