"""What the figures of a method may claim, checked against the trials that the method made.

A search is only as good as its rule for a load that was carried, and no single trial shows that the
rule is wrong. So a result is checked against its own trials before it is written. A result that
breaks a rule is kept, marked as not valid, and names the rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.record import GoalBounds, MethodFigure, MethodResult, MethodTrial

SLACK = 0.01  # forwarded rates are of whole samples, and a burst may fall into either of two
_FORWARDED = {
    "R+": "R+",
    "plateau": "the plateau",
    "followed to": "the load that was followed",
    "lossless to": "the load without loss",
    "forwarded": "the forwarded load",
}  # figures of all methods that say how much a switch carried


def broken_claims(found: MethodResult) -> list[str]:
    """The rules that a result breaks, each as a sentence with its figures. Empty if it is sound."""
    broken = [text for one in found.bounds if (text := _beyond_its_trials(one, found.trials))]
    broken += _out_of_order(found.bounds)
    broken += [text for one in found.figures if (text := _never_forwarded(one, found.trials))]
    return broken


def _beyond_its_trials(bounds: GoalBounds, trials: Sequence[MethodTrial]) -> str | None:
    """A lower bound is at most the highest rate forwarded in trials at or above it."""
    if bounds.lower_pps is None:
        return None
    at_or_above = [one for one in trials if _is_at_least(one, bounds.lower_pps)]
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
    """The rate of the frames that arrived in their trial, over the whole of it."""
    missing = trial.lost_frames + trial.lost_away + trial.queued_frames
    return max(0, trial.offered_frames - missing) / trial.duration_s if trial.duration_s else 0.0


def _out_of_order(bounds: Sequence[GoalBounds]) -> list[str]:
    """A goal that tolerates less loss is found at a load that is at most as high."""
    found = [(one.loss_ratio, one.goal, one.lower_pps) for one in bounds if one.lower_pps]
    return [
        f"{strict} ({low:.0f} pps) is above {tolerant} ({high:.0f} pps), which tolerates more loss"
        for ratio, strict, low in found
        for other_ratio, tolerant, high in found
        if ratio < other_ratio and low > high
    ]


def _never_forwarded(figure: MethodFigure, trials: Sequence[MethodTrial]) -> str | None:
    """A figure that says how much was carried is at most the most that any trial forwarded."""
    words = _FORWARDED.get(figure.name)
    if words is None or figure.unit != "pps":
        return None
    best = max((max(one.forwarded_pps, _carried_pps(one)) for one in trials), default=0.0)
    if figure.value <= best * (1 + SLACK):
        return None
    return f"{words}, {figure.value:.0f} pps, is above what any trial forwarded, {best:.0f} pps"
