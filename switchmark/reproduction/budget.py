"""Scales an item to the time there is: fewer points, shorter trials, fewer repetitions.

Repetitions decide: each is a block in which all contenders ran once, and a finding is judged by
such blocks (docs/proof.md, designs: short trials in many blocks prove more than long ones in few).
So points go first, to those that the item names as enough for its shape; then durations, down to
half a second, and a paper's few long trials become more of shorter ones; then repetitions. An item
that fits is not scaled, and every change is reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from switchmark.language.values import format_seconds
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.choices import PLAIN

OVERHEAD_S = 1.0  # around a trial, until some have run
SHORTEST_S = 0.5  # of a trial
SHORTEST_SEARCH_S = 1.0  # of a method that makes several trials
DECIDING_REPETITIONS = 8  # the blocks of the first look that can prove anything
FULL = "in full"


@dataclass(frozen=True, slots=True)
class Scale:
    """The changed settings, and the changes in words."""

    settings: tuple[str, ...]
    words: str
    expected_s: float


def fit(
    campaign: CampaignDefinition,
    trials: int,
    budget_s: float,
    overhead_s: float,
    usual_s: Callable[[float], float],
    coarse: tuple[str, ...] = (),
    coarse_trials: int | None = None,
) -> Scale:
    """The campaign scaled to the budget.

    `trials` are of one repetition, with `coarse` set `coarse_trials`; `usual_s` gives the time of a
    trial of some duration (methods: longer)."""
    full_s = max(d for sweep in campaign.sweeps for d in sweep.duration_s)
    repetitions = campaign.repetitions

    def cost_s(count: int, rounds: int, duration_s: float) -> float:
        return count * rounds * (usual_s(duration_s) + overhead_s)

    if cost_s(trials, repetitions, full_s) <= budget_s:
        return Scale((), FULL, cost_s(trials, repetitions, full_s))
    shortest_s = min(full_s, SHORTEST_SEARCH_S if searches(campaign) else SHORTEST_S)
    wanted = max(repetitions, DECIDING_REPETITIONS)
    settings: list[str] = []
    words: list[str] = []
    count = trials
    if coarse and coarse_trials and cost_s(trials, DECIDING_REPETITIONS, shortest_s) > budget_s:
        settings += coarse
        words.append(f"fewer points ({'; '.join(coarse)})")
        count = coarse_trials
    rounds = max(1, min(wanted, int(budget_s / cost_s(count, 1, shortest_s))))
    there_s = (budget_s / (count * rounds) - overhead_s) / usual_s(1.0)
    duration_s = min(full_s, max(shortest_s, math.floor(10 * there_s + 1e-9) / 10))
    if rounds != repetitions:
        settings.append(f"repetitions={rounds}")
        words.append(f"{rounds} repetitions for {repetitions}")
    if duration_s != full_s:
        settings.append(f"duration={format_seconds(duration_s)}")
        words.append(f"trials of {format_seconds(duration_s)} for {format_seconds(full_s)}")
    return Scale(tuple(settings), ", ".join(words) or FULL, cost_s(count, rounds, duration_s))


def searches(campaign: CampaignDefinition) -> set[str]:
    """The methods that make several trials."""
    return {name for sweep in campaign.sweeps for name in sweep.method} - {PLAIN}


def usual_share(campaign: CampaignDefinition) -> Callable[[float], float]:
    """The usual time of a trial over its duration: methods of many trials take several of them."""
    from switchmark.method.registry import METHODS

    methods = searches(campaign)
    if not methods:
        return lambda duration_s: duration_s
    times = 30 if "r-plus" in methods else 2
    assert methods <= set(METHODS)
    return lambda duration_s: times * duration_s
