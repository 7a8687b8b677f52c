"""Scales an item to the time there is: fewer points, shorter trials, fewer repetitions.

Repetitions decide: each is a block in which all contenders ran once, and a finding is judged by
such blocks (docs/evidence/proof.md, designs: short trials in many blocks prove more than long
ones in few).
So points go first, to those that the item names as enough for its shape; then durations, down to
half a second, and a paper's few long trials become more of shorter ones; then repetitions. Time
that is left makes trials as long as what is around them, then blocks, then longer trials. An item
that fits is not scaled, and every change is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchmark.campaign.overhead import usual_around_s
from switchmark.language.values import format_seconds
from switchmark.method.registry import usual_time_s
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.trial import Trial

SHORTEST_S = 0.5  # of a trial, and of each that a method makes
STEP_S = 0.1
DECIDING = 8  # repetitions: the blocks of the first look that can prove anything
MOST_REPETITIONS = 16  # beyond which longer trials tell more
FULL = "in full"
Seconds = Callable[[Trial], float]  # around a trial


@dataclass(frozen=True, slots=True)
class Scale:
    """The changed settings, and the changes in words."""

    settings: tuple[str, ...]
    words: str
    expected_s: float


def fit(
    campaign: CampaignDefinition,
    trials: Sequence[Trial],
    budget_s: float,
    around: Seconds = usual_around_s,
    coarse: tuple[str, ...] = (),
    coarse_trials: Sequence[Trial] = (),
) -> Scale:
    """The campaign scaled to the budget.

    `trials` are those of one repetition; with `coarse` set, `coarse_trials` are."""
    full_s, least_s = max(trial.duration_s for trial in trials), shortest_s(trials)
    whole_s = campaign.repetitions * block_s(trials, full_s, around)
    if whole_s <= budget_s:
        return Scale((), FULL, whole_s)
    settings: list[str] = []
    words: list[str] = []
    if coarse_trials and DECIDING * block_s(trials, least_s, around) > budget_s:
        settings += coarse
        words.append(f"coarser ({'; '.join(coarse)})")
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
        words.append(
            f"{rounds} repetition{'s' if rounds > 1 else ''} instead of {campaign.repetitions}"
        )
    if duration_s != full_s:
        settings.append(f"duration={format_seconds(duration_s)}")
        words.append(f"trials of {format_seconds(duration_s)} instead of {format_seconds(full_s)}")
    expected_s = rounds * block_s(trials, duration_s, around)
    return Scale(tuple(settings), ", ".join(words) or FULL, expected_s)


def _blocks(
    cost_s: Callable[[float], float],
    budget_s: float,
    wanted: int,
    lengths_s: tuple[float, float, float],
) -> tuple[int, float]:
    """How many blocks of which length: first the blocks that can decide, at the shortest; then
    trials up to the length of what is around them, which costs least; then more blocks."""
    least_s, fair_s, full_s = lengths_s
    rounds = max(1, min(wanted, int(budget_s / cost_s(least_s))))
    if rounds == wanted:
        rounds = max(wanted, min(MOST_REPETITIONS, int(budget_s / cost_s(fair_s) + 1e-9)))
    duration_s = least_s
    while duration_s < full_s and rounds * cost_s(round(duration_s + STEP_S, 1)) <= budget_s + 1e-6:
        duration_s = round(duration_s + STEP_S, 1)
    return rounds, min(full_s, duration_s)


def block_s(trials: Sequence[Trial], duration_s: float, around: Seconds = usual_around_s) -> float:
    """The usual time of one repetition of these trials, if each takes no longer than this."""
    times = (
        usual_time_s(one.model_copy(update={"duration_s": min(duration_s, one.duration_s)}))
        for one in trials
    )
    return sum(times) + sum(map(around, trials))


def shortest_s(trials: Sequence[Trial]) -> float:
    """The shortest duration to which these trials are scaled."""
    return min(SHORTEST_S, *(trial.duration_s for trial in trials))
