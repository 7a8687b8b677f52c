"""Scales an item to the available time: fewer points, shorter trials, fewer repetitions.

A repetition is a block in which all contenders run once, and many blocks of short trials prove more
than few blocks of long trials (docs/evidence/proof.md). Therefore the number of points is reduced
first, to those that the item names as enough for its shape; then the durations, down to half a
second, while the number of trials may grow; then the repetitions. Remaining time is used for trials
as long as their overhead, then for blocks, then for longer trials. An item that fits is not scaled,
and every change is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchmark.campaign.overhead import usual_around_s
from switchmark.language.values import format_seconds
from switchmark.method.registry import usual_time_s
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.trial import Trial

SHORTEST_S = 0.5  # shortest duration of a trial, also of the trials of a method
STEP_S = 0.1
DECIDING = 8  # repetitions: the blocks of the first interim analysis that can prove a lead
MOST_REPETITIONS = 16  # with more, longer trials are better than more repetitions
FULL = "in full"
Seconds = Callable[[Trial], float]  # overhead of a trial


@dataclass(frozen=True, slots=True)
class Scale:
    """The changed settings, and a description of the changes."""

    settings: tuple[str, ...]
    changes: str
    expected_s: float


def fit(
    campaign: CampaignDefinition,
    trials: Sequence[Trial],
    budget_s: float,
    around: Seconds = usual_around_s,
    coarse: tuple[str, ...] = (),
    coarse_trials: Sequence[Trial] = (),
) -> Scale:
    """Scale the campaign to the budget.

    `trials` are the trials of one repetition, and `coarse_trials` those with the settings
    `coarse`."""
    full_s, least_s = max(trial.duration_s for trial in trials), shortest_s(trials)
    whole_s = campaign.repetitions * block_s(trials, full_s, around)
    if whole_s <= budget_s:
        return Scale((), FULL, whole_s)
    settings: list[str] = []
    changes: list[str] = []
    if coarse_trials and DECIDING * block_s(trials, least_s, around) > budget_s:
        settings += coarse
        changes.append(f"coarser ({'; '.join(coarse)})")
        trials = coarse_trials
    fair_s = sum(map(around, trials)) / len(trials)
    rounds, duration_s = _blocks(
        lambda duration_s: block_s(trials, duration_s, around),
        budget_s,
        max(campaign.repetitions, DECIDING),
        (least_s, min(full_s, max(least_s, fair_s)), full_s),
    )
    if rounds != campaign.repetitions:
        settings.append(f"repetitions={rounds}")
        changes.append(
            f"{rounds} repetition{'s' if rounds > 1 else ''} instead of {campaign.repetitions}"
        )
    if duration_s != full_s:
        settings.append(f"duration={format_seconds(duration_s)}")
        changes.append(
            f"trials of {format_seconds(duration_s)} instead of {format_seconds(full_s)}"
        )
    expected_s = rounds * block_s(trials, duration_s, around)
    return Scale(tuple(settings), ", ".join(changes) or FULL, expected_s)


def _blocks(
    cost_s: Callable[[float], float],
    budget_s: float,
    requested: int,
    lengths_s: tuple[float, float, float],
) -> tuple[int, float]:
    """Return the number of blocks and the duration of trials: first the blocks that can decide with
    the shortest trials; then trials as long as their overhead; then more blocks."""
    least_s, fair_s, full_s = lengths_s
    rounds = max(1, min(requested, int(budget_s / cost_s(least_s))))
    if rounds == requested:
        rounds = max(requested, min(MOST_REPETITIONS, int(budget_s / cost_s(fair_s) + 1e-9)))
    duration_s = least_s
    while duration_s < full_s and rounds * cost_s(round(duration_s + STEP_S, 1)) <= budget_s + 1e-6:
        duration_s = round(duration_s + STEP_S, 1)
    return rounds, min(full_s, duration_s)


def block_s(trials: Sequence[Trial], duration_s: float, around: Seconds = usual_around_s) -> float:
    """Return the usual time of one repetition of these trials with at most this duration."""
    times = (
        usual_time_s(trial.model_copy(update={"duration_s": min(duration_s, trial.duration_s)}))
        for trial in trials
    )
    return sum(times) + sum(map(around, trials))


def shortest_s(trials: Sequence[Trial]) -> float:
    """Return the shortest duration to which these trials are scaled."""
    return min(SHORTEST_S, *(trial.duration_s for trial in trials))
