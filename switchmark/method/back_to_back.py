"""Back-to-back frames: the longest burst without loss, RFC 2544 section 26.4 and RFC 9004.

A burst is a short trial at the highest rate of the sender. The method searches its length by
halving, repeats the search, and reports the mean over the repetitions, as RFC 2544 requires. The
buffer is the mean burst minus the frames that the switch forwarded meanwhile (RFC 9004).

The length of a burst is the number of frames that were sent (`offered_frames`), not the number
that was intended. A sender that starts or stops unevenly costs resolution, but no error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.formatting import percent
from switchmark.method.support.measurer import BudgetedMeasurer, BudgetError, LoadPoint, Measurer
from switchmark.method.support.method import Method
from switchmark.method.support.task import Task, figure
from switchmark.record import MethodFigure, MethodResult
from switchmark.record.metric import method_metric
from switchmark.statistics.means import Estimate, estimate

BUDGET_S = 120.0
RATE_TRIAL_S = 1.0  # duration of the first trial, which measures the forwarding rate
DEFAULT_REPETITIONS = 50  # RFC 2544
LONGEST_BURST_S = 2.0  # RFC 2544: a burst of 2 s that passes whole ends the test
RESOLUTION = 0.02  # (shortest failed - longest passed) / shortest failed


@dataclass(frozen=True, slots=True, kw_only=True)
class BackToBack:
    """The longest clean bursts; frames are totals over all pairs."""

    burst_frames: Estimate | None  # mean over repetitions; None: no burst was clean
    endless_repetitions: int  # repetitions in which even the longest burst passed
    all_lossy_repetitions: int  # repetitions in which even the shortest burst lost frames
    rate_pps: float  # mean rate at which bursts were offered
    buffer_s: float | None  # RFC 9004 corrected buffer time; None without a throughput
    buffer_frames: float | None
    # The largest share of transmit calls of a clean burst that met a full ring. From some percent
    # on, the port slowed the sender down, and a clean burst proves little.
    refused_share: float
    trials: tuple[LoadPoint, ...]
    finished: bool  # False: the budget ended first


def back_to_back(
    measurer: Measurer,
    *,
    rate_pps: float,
    throughput_pps: float | None = None,
    shortest_s: float = 100e-6,
    longest_s: float = LONGEST_BURST_S,
    repetitions: int = DEFAULT_REPETITIONS,
    budget_s: float = math.inf,
) -> BackToBack:
    """Search the longest clean burst at `rate_pps` (line rate, or the sender's ceiling).

    The buffer is computed from the switch's `throughput_pps`. Raise `BudgetError` if not even one
    repetition fits into the budget."""
    if not 0 < shortest_s < longest_s or repetitions < 1 or not 0 < rate_pps < math.inf:
        raise UsageError(
            "back-to-back: the shortest burst must be above 0 and below the longest, the rate "
            "finite and above 0, repetitions 1 or more"
        )
    budgeted = BudgetedMeasurer(measurer, budget_s)
    lengths: list[float] = []
    endless = all_lossy = 0
    finished = True
    for index in range(repetitions):
        try:
            longest = _longest_clean(budgeted, rate_pps, shortest_s, longest_s)
        except BudgetError:
            if index == 0:
                raise
            finished = False
            break
        endless += longest is math.inf
        all_lossy += longest is None
        if longest is not None and longest is not math.inf:
            lengths.append(longest)
    sent = sum(point.offered_frames for point in budgeted.points)
    real_pps = sent / math.fsum(point.duration_s for point in budgeted.points)
    frames = estimate(lengths) if lengths else None
    buffer = _buffer_frames(frames, throughput_pps, real_pps)
    return BackToBack(
        burst_frames=frames,
        endless_repetitions=endless,
        all_lossy_repetitions=all_lossy,
        rate_pps=real_pps,
        buffer_s=None if buffer is None or throughput_pps is None else buffer / real_pps,
        buffer_frames=buffer,
        refused_share=max(
            (p.ring_full_share or 0.0 for p in budgeted.points if not p.judged_lost_frames),
            default=0.0,
        ),
        trials=tuple(budgeted.points),
        finished=finished,
    )


def _longest_clean(
    budgeted: BudgetedMeasurer, rate_pps: float, shortest_s: float, longest_s: float
) -> float | None:
    """Return the frames of the longest clean burst: infinity if the longest burst passes, None if
    no burst does."""
    point = budgeted.measure(longest_s, rate_pps)
    if not point.offered_frames:
        raise SwitchmarkError("back-to-back: the sender sent no frame in a burst; is it running?")
    if not point.judged_lost_frames:
        return math.inf
    point = budgeted.measure(shortest_s, rate_pps)
    if point.judged_lost_frames:
        return None
    best = point.offered_frames
    clean_s, lossy_s = shortest_s, longest_s
    while (lossy_s - clean_s) > RESOLUTION * lossy_s:
        # Buffers are short and the range is wide: halve the exponent until it is narrow.
        middle_s = math.sqrt(clean_s * lossy_s)
        point = budgeted.measure(middle_s, rate_pps)
        if point.judged_lost_frames:
            lossy_s = middle_s
        else:
            clean_s, best = middle_s, max(best, point.offered_frames)
    return float(best)


def _buffer_frames(
    frames: Estimate | None, throughput_pps: float | None, rate_pps: float
) -> float | None:
    """Return the part of the burst that the switch could not forward meanwhile (RFC 9004)."""
    if frames is None or throughput_pps is None:
        return None
    return frames.mean * max(0.0, 1 - throughput_pps / rate_pps)


def run(task: Task) -> MethodResult:
    """Measure the forwarding rate at the highest load, then search the longest burst there."""
    first = task.measurer.measure(RATE_TRIAL_S, task.max_pps)
    result = back_to_back(
        task.measurer,
        rate_pps=task.max_pps,
        throughput_pps=first.forwarded_pps,
        budget_s=task.limit_s,
    )
    figures = []
    if result.burst_frames is not None:
        figures.append(figure("longest burst", result.burst_frames, "frames"))
    if result.buffer_frames is not None and result.buffer_s is not None:
        figures.append(MethodFigure(name="buffer", value=result.buffer_frames, unit="frames"))
        figures.append(MethodFigure(name="buffer time", value=result.buffer_s, unit="s"))
    figures.append(MethodFigure(name="burst rate", value=result.rate_pps, unit="pps"))
    notes = [f"{percent(result.refused_share)} of transmit calls of clean bursts met a full ring"]
    if result.endless_repetitions:
        notes.append(f"the longest burst (2 s) passed in {result.endless_repetitions} repetitions")
    if result.all_lossy_repetitions:
        notes.append(
            f"the shortest burst lost frames in {result.all_lossy_repetitions} repetitions"
        )
    return task.result(
        "longest burst" if result.burst_frames is not None else None,
        figures,
        stopped="done" if result.finished else "budget",
        warm_up_trials=1,
        notes=notes,
    )


METHOD = Method(
    name="back-to-back",
    meaning="longest burst without loss (RFC 2544, 26.4)",
    run=run,
    usual_time_s=lambda _trial: BUDGET_S,
    default_budget_s=BUDGET_S,
    compared=(method_metric("longest burst", "frames"),),
)
