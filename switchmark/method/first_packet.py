"""First-packet latency: the one-way times of the first frame and of a later frame of each flow.

A switch with a cache of flows decides on the first frame of a flow by its tables, and on later
frames by the cache. The method sends one frame of each flow, and then the same frames again. A
switch without a cache takes the same time for both.
"""

from __future__ import annotations

from collections.abc import Iterator

from switchmark.errors import Refusal
from switchmark.method.support.method import Method, trials_of_full_length
from switchmark.method.support.one_way import EACH_WAY, figures_of, timed_at
from switchmark.method.support.task import Task, pps_text
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Capabilities
from switchmark.model.parameter_table import PARAMETERS
from switchmark.model.rates import BitRate
from switchmark.record import MethodFigure, MethodResult
from switchmark.record.metric import method_metric

FIRST, KNOWN = "first packet", "known flow"
_STATISTICS = (*EACH_WAY, "p99")


def run(task: Task) -> MethodResult:
    """Time one frame of each flow, then the same frames again. Frames are sent singly, since a
    frame in a burst waits for the frames before it."""
    load_pps = task.max_pps
    figures: list[MethodFigure] = []
    latency, notes = [], []
    for name in (FIRST, KNOWN):
        point, timed = timed_at(task, 1.0, load_pps, 1)
        latency.append(timed)
        figures += [
            figure.model_copy(update={"name": f"{name} {statistic}"})
            for statistic, figure in zip(
                _STATISTICS, figures_of(timed.latency, _STATISTICS), strict=True
            )
        ]
        if not point.load_met:
            notes.append(
                f"{name}: of {pps_text(load_pps)} only {pps_text(point.offered_pps)} were offered"
            )
        if point.judged_lost_frames:
            notes.append(f"{name}: {point.judged_lost_frames} frames were lost and have no time")
    by_name = {figure.name: figure for figure in figures}
    first, known = by_name[f"{FIRST} median"], by_name[f"{KNOWN} median"]
    notes.append(
        f"the first packet of a flow takes {first.value / known.value:.3g} times as long as a "
        "packet of a known flow (medians)"
    )
    figures.sort(key=lambda figure: figure not in (first, known))
    return task.result(first.name, figures, notes=notes, latency=latency)


def refusals(sweep: Sweep, _switch: str, _capabilities: Capabilities) -> Iterator[Refusal]:
    """Return why frames of this sweep would not each be the first of their flow."""
    for flows in sweep.flows:
        if flows.zipf is not None:
            yield Refusal(
                "method first-packet sends one frame of each flow, which zipf does not",
                "leave zipf out of flows",
            )
        most = max(
            (
                (rate.pps(size) if isinstance(rate, BitRate) else rate) * duration_s
                for rate in sweep.rate_pps
                if rate is not None
                for size in sweep.packet_size_bytes
                for duration_s in sweep.duration_s
            ),
            default=0,
        )
        if flows.number < most:
            yield Refusal(
                f"method first-packet sends one frame of each flow: {most:.15g} frames need as "
                f"many flows, not {flows.number}",
                f"raise flows, or lower {PARAMETERS['rate_pps'].name} or duration",
            )
    if any(probes is not None for probes in sweep.probe_rate_pps):
        yield Refusal("method first-packet times every frame", "leave probe_rate out")


METHOD = Method(
    name="first-packet",
    meaning="one-way times of the first frame of each flow, and of the same flows when known",
    run=run,
    usual_time_s=trials_of_full_length(2),
    fixed_time=True,
    compared=tuple(
        method_metric(name, "ns") for name in (f"{FIRST} median", f"{KNOWN} median", f"{FIRST} p99")
    ),
    needs_rate=Refusal("method first-packet needs a set load", "give rate, e.g. 5k"),
    refuse=refusals,
    times_frames=True,
    limited_by="rate",
)
