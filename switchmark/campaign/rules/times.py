"""Limits of time that the trials of a campaign together exceed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from switchmark.campaign import sweeps
from switchmark.campaign.expand import trials_of
from switchmark.campaign.sweeps import Entry
from switchmark.errors import Refusal
from switchmark.language.values import format_seconds
from switchmark.method.registry import usual_time_s
from switchmark.model.campaign import TrimPolicy
from switchmark.model.choices import PLAIN, Dimension
from switchmark.statistics.defaults import BUDGET_S


def time_refusals(
    grids: Sequence[Mapping[str, Entry]], options: Mapping[str, Any], trim: TrimPolicy
) -> Iterator[Refusal]:
    """Yield refusals of impossible times of a campaign, each with its key."""
    most_s, proves = options.get("time_budget_s"), stops_when_decided(options)
    if most_s is None and not proves:
        return  # the sum over many trials takes a while
    block_s = sum(_measuring_s(_first_of(grid, options), trim) for grid in grids)
    if proves:
        if options.get("until_ci") is not None:
            yield Refusal(
                "is another rule for the end of a campaign than prove and budget",
                "leave one of them out",
                key="until_ci",
            )
        budget_s = options.get("budget_s") or BUDGET_S
        if block_s > budget_s:
            yield Refusal(
                f"{format_seconds(budget_s)} ends within the first block, whose trials measure "
                f"{block_s:,.6g} s",
                "raise it, shorten duration, or drop values",
                key="budget",
            )
    measuring_s = options.get("repetitions", 1) * block_s
    if most_s is not None and measuring_s > most_s + 1e-9:
        yield Refusal(
            f"the trials measure {measuring_s:,.6g} s, above the budget of {most_s:,.6g} s",
            "shorten duration, or drop values or repetitions",
            key="time_budget",
        )


def stops_when_decided(options: Mapping[str, Any]) -> bool:
    """Return True if the campaign ends when all comparisons are decided. A given number of
    repetitions is always measured completely."""
    is_requested = options.get("prove") is not None or options.get("budget_s") is not None
    return is_requested and "repetitions" not in options


def _first_of(grid: Mapping[str, Entry], options: Mapping[str, Any]) -> Mapping[str, Entry]:
    """Return the grid with the numbers of switches and environments of `first_available`."""
    counts = {key: options.get(f"first_available.{key}") for key in ("switch", "environment")}
    cut = {
        key: replace(grid[key], values=grid[key].values[:count])
        for key, count in counts.items()
        if count is not None
    }
    return {**grid, **cut}


def _measuring_s(grid: Mapping[str, Entry], trim: TrimPolicy) -> float:
    durations = grid["duration"].values
    trials = sweeps.count(grid)
    if grid["method"].values != (PLAIN,):
        return sum(usual_time_s(trial) for trial in trials_of(sweeps.to_sweep(grid)))
    latency = grid["dimension"].values == (Dimension.LATENCY,)
    each_s = (d + (trim.over(d).warm_up_s if latency else 0.0) for d in durations)
    return float(trials / len(durations) * sum(each_s))
