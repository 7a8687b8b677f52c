"""Soak: one load is offered for a long time, in windows, to find rare losses and slow changes.

A search proves a load over seconds; a soak checks the load for hours. The loss ratio shows how many
frames were lost, and the share of windows with loss shows how often. If no frame was lost, the
result is an upper limit instead of zero (rule of three: at most 3/n with 95 % confidence after n
frames without loss). Nothing is measured between two windows. The samples of a window are
evaluated when it ends and then dropped, so that the memory hardly grows with the duration.

A soak continues during an outage. The time in which nothing arrived is a separate figure, since a
port that accepts no frame also loses no accepted frame.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import groupby

from switchmark.errors import Refusal, TrialFailed, UsageError
from switchmark.method.support.measurer import BudgetedMeasurer, BudgetError, LoadPoint, Measurer
from switchmark.method.support.method import Method, trials_of_full_length
from switchmark.method.support.task import Task, figure, pps_text
from switchmark.record import MethodFigure, MethodResult
from switchmark.record.metric import method_metric
from switchmark.statistics.means import Estimate, estimate
from switchmark.statistics.outliers import in_words
from switchmark.statistics.shares import share_interval
from switchmark.statistics.steady_state import SteadyState, detect

DEFAULT_WINDOW_S = 60.0
MANY_FRAMES = 100  # due in a sample: if none of them arrives, this is not chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """The result of one load over time. Frames and loads are totals over all pairs."""

    windows: tuple[LoadPoint, ...]
    offered_frames: int
    lost_frames: int
    lossy_windows: int
    lossy_share_low: float  # 95 % Clopper-Pearson interval of the share of lossy windows;
    lossy_share_high: float  # holds when windows are independent of each other
    loss_ratio_limit: float | None  # 95 % upper limit if no frame was lost; otherwise None
    longest_clean_s: float  # longest run of windows without loss
    forwarded_pps: Estimate
    course: SteadyState  # drift, steps, bands and outliers of the forwarded loads
    load_met: bool  # the intended load was offered in every window
    unoffered_ratio: float  # share of intended frames that ports refused or senders gave up
    silence_s: float | None  # the longest time in which nothing arrived; None: samples too short
    silence_window: int  # index of the window in which the silence ended

    @property
    def loss_ratio(self) -> float:
        """Lost over offered frames, over all windows."""
        return self.lost_frames / self.offered_frames if self.offered_frames else 0.0


@dataclass(slots=True)
class _Silence:
    """The longest series of samples in which no frame arrived, across the ends of windows."""

    longest_s: float = 0.0
    window: int = 0  # the window in which the silence ended
    is_known: bool = False  # True if the samples of a window had enough due frames
    _running_s: float = 0.0

    def add(self, index: int, window: LoadPoint) -> None:
        """Add the samples of the next window."""
        sample_s = window.sample_s or 0.0
        if not window.samples_pps or (window.intended_pps or 0.0) * sample_s < MANY_FRAMES:
            self._running_s = 0.0
            return
        self.is_known = True
        for rate_pps in window.samples_pps:
            self._running_s = self._running_s + sample_s if rate_pps <= 0 else 0.0
            if self._running_s > self.longest_s:
                self.longest_s, self.window = self._running_s, index


def soak(
    measurer: Measurer,
    load_pps: float,
    *,
    duration_s: float,
    window_s: float = DEFAULT_WINDOW_S,
    budget_s: float = math.inf,
) -> Soak:
    """Offer `load_pps` for `duration_s` of traffic, window by window.

    If the budget ends, return the windows so far. Raise `BudgetError` if not even one window fits,
    and `TrialFailed`, with the result so far, if a window cannot be measured."""
    if not 0 < window_s <= duration_s:
        raise UsageError(f"soak: window of {window_s:g} s must be above 0, at most {duration_s:g}")
    budgeted, silence = BudgetedMeasurer(measurer, budget_s), _Silence()
    for index in range(max(1, round(duration_s / window_s))):
        try:
            silence.add(index, budgeted.measure(window_s, load_pps))
            budgeted.points[-1] = replace(budgeted.points[-1], samples_pps=())
        except BudgetError:
            if index == 0:
                raise
            break
        except TrialFailed as error:
            raise TrialFailed(f"{error}{_progress_text(budgeted.points, window_s)}") from error
    return _summary(budgeted.points, silence)


def _summary(windows: list[LoadPoint], silence: _Silence) -> Soak:
    offered = sum(window.offered_frames for window in windows)
    lost = sum(window.judged_lost_frames for window in windows)
    lossy = sum(window.judged_lost_frames > 0 for window in windows)
    low, high = share_interval(lossy, len(windows))
    values = [window.forwarded_pps for window in windows]
    intended = sum(window.scheduled_frames for window in windows)
    return Soak(
        windows=tuple(windows),
        offered_frames=offered,
        lost_frames=lost,
        lossy_windows=lossy,
        lossy_share_low=low,
        lossy_share_high=high,
        loss_ratio_limit=min(1.0, 3 / offered) if not lost and offered else None,
        longest_clean_s=_longest_clean_s(windows),
        forwarded_pps=estimate(values),
        course=detect(values, max(window.burst_pps for window in windows)),
        load_met=all(window.load_met for window in windows),
        unoffered_ratio=sum(window.unoffered_frames for window in windows) / max(1, intended),
        silence_s=silence.longest_s if silence.is_known else None,
        silence_window=silence.window,
    )


def _progress_text(windows: list[LoadPoint], window_s: float) -> str:
    if not windows:
        return ""
    offered = sum(window.offered_frames for window in windows)
    lost = sum(window.judged_lost_frames for window in windows)
    return (
        f"; {len(windows)} windows of {window_s:g} s had passed, in which {lost} of {offered} "
        "frames were lost"
    )


def _longest_clean_s(windows: list[LoadPoint]) -> float:
    runs = groupby(windows, lambda window: window.judged_lost_frames > 0)
    clean = (run for is_lossy, run in runs if not is_lossy)
    return max((math.fsum(window.duration_s for window in run) for run in clean), default=0.0)


def run(task: Task) -> MethodResult:
    """Offer the set load for the whole duration."""
    duration_s = task.trial.duration_s
    result = soak(
        task.measurer,
        task.max_pps,
        duration_s=duration_s,
        window_s=min(DEFAULT_WINDOW_S, max(duration_s / 20, min(duration_s, 0.5))),
        budget_s=task.limit_s,
    )
    planned = max(1, round(duration_s / result.windows[0].duration_s))
    stopped = "done" if len(result.windows) >= planned else "budget"
    return task.result("loss ratio", _figures(result), stopped=stopped, notes=_notes(result))


def _figures(result: Soak) -> list[MethodFigure]:
    ratio = MethodFigure(name="loss ratio", value=result.loss_ratio, unit="ratio")
    if result.loss_ratio_limit is not None:
        ratio = ratio.model_copy(update={"low": 0.0, "high": result.loss_ratio_limit})
    figures = [
        ratio,
        MethodFigure(
            name="lossy windows",
            value=result.lossy_windows / len(result.windows),
            unit="ratio",
            low=result.lossy_share_low,
            high=result.lossy_share_high,
            count=len(result.windows),
        ),
        MethodFigure(name="longest clean", value=result.longest_clean_s, unit="s"),
        figure("forwarded", result.forwarded_pps, "pps"),
        MethodFigure(name="not offered", value=result.unoffered_ratio, unit="ratio"),
    ]
    if result.silence_s is not None:
        figures.append(MethodFigure(name="longest silence", value=result.silence_s, unit="s"))
    return figures


def _notes(result: Soak) -> list[str]:
    course = result.course
    notes = [] if course.bands is not None else [f"course: {course.reason}"]
    notes += in_words(course.outliers, course.bands, "window", pps_text)
    if not result.load_met:
        notes.append("the intended load was not offered in every window")
    if result.silence_s:
        notes.append(
            f"nothing arrived for {result.silence_s:.3g} s, "
            f"until window {result.silence_window + 1}"
        )
    return notes


METHOD = Method(
    name="soak",
    meaning="one load for hours: how much is lost, and how often",
    picture="course",
    run=run,
    usual_time_s=trials_of_full_length(1),
    compared=(method_metric("loss ratio", "ratio"),),
    needs_rate=Refusal("method soak tests one load", "give its rate"),
    finds_outages=True,
    limited_by="rate",
)
