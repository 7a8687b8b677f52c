"""Soak: one load for a long time, in windows, shows rare losses and slow changes.

A search proves a load over seconds; a soak asks whether it holds for hours. The loss ratio of
frames says how much was lost, the share of windows with loss how often; with no loss at all the
upper limit is stated instead of a zero (rule of three: at most 3/n with 95 % confidence after n
frames without loss). Between two windows nothing is measured. A window's samples are looked at as
it ends and not kept, so that what a soak holds hardly grows with its duration.

A soak goes on through an outage, which it exists to find. The time in which nothing arrived is
given apart, since a port that takes nothing loses nothing of what it took.
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
MANY_FRAMES = 100  # due in a sample: that none of so many came is no chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """The result of one load over time. Frames and loads are totals over all pairs."""

    windows: tuple[LoadPoint, ...]
    offered_frames: int
    lost_frames: int
    lossy_windows: int
    lossy_share_low: float  # 95 % Clopper-Pearson interval of the share of lossy windows;
    lossy_share_high: float  # holds when windows are independent of each other
    loss_ratio_limit: float | None  # no loss seen: the ratio it is below, 95 %; else None
    longest_clean_s: float  # longest run of windows without loss
    forwarded_pps: Estimate
    course: SteadyState  # of the windows' forwarded loads: drift, steps, bands, outliers
    load_met: bool  # whether every window was offered what was intended
    unoffered_ratio: float  # of the intended frames, those that the ports did not take or that
    # the senders gave up
    silence_s: float | None  # the longest time in which nothing arrived; None: samples too short
    silence_window: int  # index of the window in which it ended

    @property
    def loss_ratio(self) -> float:
        """Lost over offered frames, over all windows."""
        return self.lost_frames / self.offered_frames if self.offered_frames else 0.0


@dataclass(slots=True)
class _Silence:
    """The longest run of samples without any of many due frames, across the windows' ends."""

    longest_s: float = 0.0
    window: int = 0  # in which it ended
    is_known: bool = False  # whether any window's samples could tell
    _running_s: float = 0.0

    def add(self, index: int, window: LoadPoint) -> None:
        """The next window."""
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

    Ends early with the windows it has when the budget ends. Raises `BudgetError` when not even one
    window fits, and `TrialFailed` that says what was found so far when a window cannot be measured
    (the switch died)."""
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
            raise TrialFailed(f"{error}{_until_then(budgeted.points, window_s)}") from error
    return _summary(budgeted.points, silence)


def _summary(windows: list[LoadPoint], silence: _Silence) -> Soak:
    offered = sum(window.offered_frames for window in windows)
    lost = sum(window.judged_lost_frames for window in windows)
    lossy = sum(window.judged_lost_frames > 0 for window in windows)
    low, high = share_interval(lossy, len(windows))
    values = [window.forwarded_pps for window in windows]
    wanted = sum(window.wanted_frames for window in windows)
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
        unoffered_ratio=sum(window.unoffered_frames for window in windows) / max(1, wanted),
        silence_s=silence.longest_s if silence.is_known else None,
        silence_window=silence.window,
    )


def _until_then(windows: list[LoadPoint], window_s: float) -> str:
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
    return max((math.fsum(one.duration_s for one in run) for run in clean), default=0.0)


def run(task: Task) -> MethodResult:
    """Offer the set load for the whole duration."""
    duration_s = task.trial.duration_s
    found = soak(
        task.measurer,
        task.max_pps,
        duration_s=duration_s,
        window_s=min(DEFAULT_WINDOW_S, max(duration_s / 20, min(duration_s, 0.5))),
        budget_s=task.limit_s,
    )
    planned = max(1, round(duration_s / found.windows[0].duration_s))
    stopped = "done" if len(found.windows) >= planned else "budget"
    return task.result("loss ratio", _figures(found), stopped=stopped, notes=_notes(found))


def _figures(found: Soak) -> list[MethodFigure]:
    ratio = MethodFigure(name="loss ratio", value=found.loss_ratio, unit="ratio")
    if found.loss_ratio_limit is not None:
        ratio = ratio.model_copy(update={"low": 0.0, "high": found.loss_ratio_limit})
    figures = [
        ratio,
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
    ]
    if found.silence_s is not None:
        figures.append(MethodFigure(name="longest silence", value=found.silence_s, unit="s"))
    return figures


def _notes(found: Soak) -> list[str]:
    course = found.course
    notes = [] if course.bands is not None else [f"course: {course.reason}"]
    notes += in_words(course.outliers, course.bands, "window", pps_text)
    if not found.load_met:
        notes.append("not every window was offered what was intended")
    if found.silence_s:
        notes.append(
            f"nothing arrived for {found.silence_s:.3g} s, until window {found.silence_window + 1}"
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
