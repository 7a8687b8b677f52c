"""How an item is scaled to the time there is: fewer points, fewer repetitions, shorter trials.

Points go first, to those that the item names as enough for its shape; then repetitions, down to
three; then durations, down to a second; then repetitions again, down to one. Nothing is scaled
that fits, and everything that is said so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from switchmark.language.values import format_seconds
from switchmark.model.campaign import Campaign
from switchmark.model.choices import PLAIN

OVERHEAD_S = 4.0  # around a trial, until some have run
SHORTEST_S = 1.0  # of a trial
FEW_REPETITIONS = 3  # below, an interval says next to nothing
FULL = "in full"


@dataclass(frozen=True, slots=True)
class Scale:
    """What is set, and in words what it changes."""

    settings: tuple[str, ...]
    words: str
    expected_s: float


def fit(
    campaign: Campaign,
    trials: int,
    budget_s: float,
    overhead_s: float,
    usual_s: Callable[[float], float],
    coarse: tuple[str, ...] = (),
    coarse_trials: int | None = None,
) -> Scale:
    """The campaign scaled to the budget. `trials` are of one repetition, with `coarse` set
    `coarse_trials`; `usual_s` says how long a trial of some duration takes (methods: longer)."""
    full_s = max(d for sweep in campaign.sweeps for d in sweep.duration_s)
    repetitions = campaign.repetitions

    def cost_s(count: int, rounds: int, duration_s: float) -> float:
        return count * rounds * (usual_s(duration_s) + overhead_s)

    if cost_s(trials, repetitions, full_s) <= budget_s:
        return Scale((), FULL, cost_s(trials, repetitions, full_s))
    few = min(FEW_REPETITIONS, repetitions)
    settings: list[str] = []
    words: list[str] = []
    count = trials
    if coarse and coarse_trials and cost_s(trials, few, SHORTEST_S) > budget_s:
        settings += coarse
        words.append(f"fewer points ({'; '.join(coarse)})")
        count = coarse_trials
    rounds = max(few, min(repetitions, int(budget_s / cost_s(count, 1, full_s))))
    duration_s = full_s
    while duration_s > SHORTEST_S and cost_s(count, rounds, duration_s) > budget_s:
        duration_s = max(SHORTEST_S, duration_s * 0.8)
    while rounds > 1 and cost_s(count, rounds, duration_s) > budget_s:
        rounds -= 1
    duration_s = round(duration_s, 1)
    if rounds != repetitions:
        settings.append(f"repetitions={rounds}")
        words.append(f"{rounds} repetitions of {repetitions}")
    if duration_s != full_s:
        settings.append(f"duration={format_seconds(duration_s)}")
        words.append(f"trials of {format_seconds(duration_s)} for {format_seconds(full_s)}")
    return Scale(tuple(settings), ", ".join(words) or FULL, cost_s(count, rounds, duration_s))


def usual_share(campaign: Campaign) -> Callable[[float], float]:
    """How long a trial of some duration takes: methods of many trials take several of them."""
    from switchmark.method.registry import METHODS

    methods = {name for sweep in campaign.sweeps for name in sweep.method} - {PLAIN}
    if not methods:
        return lambda duration_s: 1.3 * duration_s
    times = 9 if "r-plus" in methods else 2
    assert methods <= set(METHODS)
    return lambda duration_s: times * duration_s
