"""Back-to-back frames: the longest burst without loss, RFC 2544 section 26.4 and RFC 9004.

A burst is a short trial at the highest rate the sender has. Its length is searched by
halving; the search is repeated and the mean over repetitions reported, as the RFC asks. The
buffer behind the burst follows by RFC 9004: what the switch forwarded meanwhile is
subtracted.

The length that counts is what was really sent (`offered_frames`), not what was asked for,
so a sender that starts or stops unevenly costs resolution, never truth.
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
LOOK_S = 1.0  # at the highest load, for what the switch forwards of it
DEFAULT_REPETITIONS = 50  # RFC 2544
LONGEST_BURST_S = 2.0  # RFC 2544: a burst of 2 s that passes whole ends the test
RESOLUTION = 0.02  # (shortest failed - longest passed) / shortest failed


@dataclass(frozen=True, slots=True, kw_only=True)
class BackToBack:
    """The longest clean bursts; frames are totals over all pairs."""

    burst_frames: Estimate | None  # longest clean burst, mean over repetitions; None: none clean
    endless_repetitions: int  # in so many, even the longest burst passed: nothing is lost at all
    clean_none_repetitions: int  # in so many, even the shortest burst lost frames
    rate_pps: float  # mean rate at which bursts were offered
    buffer_s: float | None  # RFC 9004 corrected buffer time; None without a throughput
    buffer_frames: float | None
    refused_share: float  # transmit calls of clean bursts that met a full ring, at most: from
    # some percent on, the port slowed the sender down and "clean" says little
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

    `throughput_pps`, the switch's own (NDR), gives the buffer. Raises `BudgetError` when not
    even one repetition fits.
    """
    if not 0 < shortest_s < longest_s or repetitions < 1 or not 0 < rate_pps < math.inf:
        raise UsageError(
            "back-to-back: the shortest burst must be above 0 and below the longest, the rate "
            "finite and above 0, repetitions 1 or more"
        )
    budgeted = BudgetedMeasurer(measurer, budget_s)
    lengths: list[float] = []
    endless = none_clean = 0
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
        none_clean += longest is None
        if longest is not None and longest is not math.inf:
            lengths.append(longest)
    sent = sum(point.offered_frames for point in budgeted.points)
    real_pps = sent / math.fsum(point.duration_s for point in budgeted.points)
    frames = estimate(lengths) if lengths else None
    buffer = _buffer_frames(frames, throughput_pps, real_pps)
    return BackToBack(
        burst_frames=frames,
        endless_repetitions=endless,
        clean_none_repetitions=none_clean,
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
    """Frames in the longest clean burst; infinity when the longest passes, None when none does."""
    point = budgeted.measure(longest_s, rate_pps)
    if not point.offered_frames:
        raise SwitchmarkError("back-to-back: a burst sent no frame: is the sender alive?")
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
    """The buffer by RFC 9004: the part of the burst that the switch could not forward meanwhile."""
    if frames is None or throughput_pps is None:
        return None
    return frames.mean * max(0.0, 1 - throughput_pps / rate_pps)


def run(task: Task) -> MethodResult:
    """Search at the highest load; what the switch forwards there gives the buffer."""
    look = task.measurer.measure(LOOK_S, task.max_pps)
    found = back_to_back(
        task.measurer,
        rate_pps=task.max_pps,
        throughput_pps=look.forwarded_pps,
        budget_s=task.limit_s,
    )
    figures = []
    if found.burst_frames is not None:
        figures.append(figure("longest burst", found.burst_frames, "frames"))
    if found.buffer_frames is not None and found.buffer_s is not None:
        figures.append(MethodFigure(name="buffer", value=found.buffer_frames, unit="frames"))
        figures.append(MethodFigure(name="buffer time", value=found.buffer_s, unit="s"))
    figures.append(MethodFigure(name="burst rate", value=found.rate_pps, unit="pps"))
    notes = [f"{percent(found.refused_share)} of transmit calls of clean bursts met a full ring"]
    if found.endless_repetitions:
        notes.append(f"{found.endless_repetitions} times the longest burst (2 s) passed whole")
    if found.clean_none_repetitions:
        notes.append(f"{found.clean_none_repetitions} times even the shortest burst lost frames")
    return task.result(
        "longest burst" if found.burst_frames is not None else None,
        figures,
        stopped="done" if found.finished else "budget",
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
