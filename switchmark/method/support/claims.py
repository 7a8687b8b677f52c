"""Checks the figures of a method against the trials that the method made.

A search depends on its rule for a carried load, and no single trial shows an error of this rule.
Therefore each result is checked before it is written. A result that contradicts its trials is
stored, marked as not valid, and has a note with the contradiction.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.record import GoalBounds, MethodFigure, MethodResult, MethodTrial

SLACK = 0.01  # rates come from whole samples, and a burst may belong to either of two samples
_FORWARDED = {
    "R+": "R+",
    "plateau": "the plateau",
    "followed to": "the load that was followed",
    "lossless to": "the load without loss",
    "forwarded": "the forwarded load",
}  # figures of all methods that state how much a switch carried


def broken_claims(result: MethodResult) -> list[str]:
    """Return the contradictions of a result, each as a sentence; empty if there are none."""
    bounds = [_beyond_its_trials(bounds, result.trials) for bounds in result.bounds]
    figures = [_never_forwarded(figure, result.trials) for figure in result.figures]
    return [text for text in (*bounds, *_out_of_order(result.bounds), *figures) if text]


def _beyond_its_trials(bounds: GoalBounds, trials: Sequence[MethodTrial]) -> str | None:
    """Check that trials at or above a lower bound forwarded at least this rate."""
    if bounds.lower_pps is None:
        return None
    at_or_above = [trial for trial in trials if _is_at_least(trial, bounds.lower_pps)]
    best = max(map(_carried_pps, at_or_above), default=0.0)
    if bounds.lower_pps * (1 - bounds.loss_ratio) <= best * (1 + SLACK):
        return None
    return (
        f"{bounds.goal}: the lower bound of {bounds.lower_pps:.0f} pps is above the highest rate "
        f"that its trials forwarded, {best:.0f} pps"
    )


def _is_at_least(trial: MethodTrial, load_pps: float) -> bool:
    return trial.intended_pps is None or trial.intended_pps >= load_pps * (1 - SLACK)


def _carried_pps(trial: MethodTrial) -> float:
    """Return the mean rate of the frames that arrived in their trial."""
    missing = trial.lost_frames + trial.lost_away + trial.queued_frames
    return max(0, trial.offered_frames - missing) / trial.duration_s if trial.duration_s else 0.0


def _out_of_order(bounds: Sequence[GoalBounds]) -> list[str]:
    """Check that goals that tolerate less loss do not have higher lower bounds."""
    result = [(goal.loss_ratio, goal.goal, goal.lower_pps) for goal in bounds if goal.lower_pps]
    return [
        f"{strict} ({low:.0f} pps) is above {tolerant} ({high:.0f} pps), which tolerates more loss"
        for ratio, strict, low in result
        for other_ratio, tolerant, high in result
        if ratio < other_ratio and low > high
    ]


def _never_forwarded(figure: MethodFigure, trials: Sequence[MethodTrial]) -> str | None:
    """Check that a figure of a carried load is at most the highest rate that a trial forwarded."""
    label = _FORWARDED.get(figure.name)
    if label is None or figure.unit != "pps":
        return None
    rates = (max(trial.forwarded_pps, _carried_pps(trial)) for trial in trials)
    best = max(rates, default=0.0)
    if figure.value <= best * (1 + SLACK):
        return None
    return (
        f"{label}, {figure.value:.0f} pps, is above the highest rate that its trials forwarded, "
        f"{best:.0f} pps"
    )
