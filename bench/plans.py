"""How soon a campaign's planned looks prove a lead, and how often they claim one where there is
none: looks planned for what the campaign is."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tools.own_python  # noqa: F401 - runs this program by a Python that has the packages

# isort: split

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import beta

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.boundaries import StoppingRule, planned_analyses
from switchmark.statistics.sequential import Outcome, PairedComparison, analyse
from switchmark.statistics.simulation import Design, Machine, blocks

LEAD = 1.10
LEVEL = 0.05


@dataclass(frozen=True)
class Asked:
    """The shape of a campaign."""

    contenders: int
    points: int
    budget_s: float

    @property
    def turn_s(self) -> float:
        """Of one trial, all told."""
        return Design().trial_s + Design().overhead_s

    @property
    def round_s(self) -> float:
        """Of a block at every point."""
        return self.contenders * self.points * self.turn_s

    @property
    def blocks(self) -> int:
        """At one point, while everything is asked."""
        return int(self.budget_s / self.round_s)

    def rule(self) -> StoppingRule:
        """Its planned looks."""
        quickest = math.ceil(self.budget_s / (2 * self.turn_s))
        return StoppingRule(
            planned_analyses(quickest),
            LEVEL,
            family=math.comb(self.contenders, 2),
            expected=min(quickest, self.blocks),
        )


MOST_DRAWS = 300  # a campaign of nine contenders takes a second: of those, a third
CAMPAIGNS = (Asked(2, 1, 120), Asked(3, 1, 180), Asked(3, 4, 360), Asked(9, 1, 300))


def told(
    trials: Sequence[BlockTrial], asked: Asked, rule: StoppingRule
) -> Iterator[tuple[int, list[PairedComparison]]]:
    """Each look with what is known by then; the last one when the time is over."""
    known: list[PairedComparison] = []
    for count in [*(one for one in rule.analyses if one < asked.blocks), asked.blocks]:
        part = trials[: count * asked.contenders]
        known = analyse(part, rule, count, earlier=known, is_last=count == asked.blocks)
        yield count, known


def campaigns(asked: Asked, lead: float, draws: int, seed: int) -> Iterator[list[BlockTrial]]:
    """Simulated ones, the first contender that much ahead of the others, which are equal."""
    rates = {f"c{place}": lead if place == 0 else 1.0 for place in range(asked.contenders)}
    for draw in range(draws):
        generator = np.random.default_rng([seed, draw])
        yield blocks(Machine(), Design(), rates, asked.blocks, generator)


def false_claims(asked: Asked, rule: StoppingRule, draws: int, seed: int) -> int:
    """Campaigns of equal contenders in which any is said to lead."""
    return sum(
        any(
            decision.outcome in (Outcome.HIGHER, Outcome.LOWER)
            for _, known in told(trials, asked, rule)
            for one in known
            for decision in one.decisions
        )
        for trials in campaigns(asked, 1.0, draws, seed)
    )


def times_s(asked: Asked, rule: StoppingRule, draws: int, seed: int) -> list[float]:
    """When the lead over the second contender is proven in each campaign; infinite if it is not."""
    found = []
    for trials in campaigns(asked, LEAD, draws, seed):
        at_s = math.inf
        for count, known in told(trials, asked, rule):
            (pair,) = (one for one in known if (one.a, one.b) == ("c0", "c1"))
            if pair.decisions and all(one.outcome is Outcome.HIGHER for one in pair.decisions):
                at_s = count * asked.round_s
                break
        found.append(at_s)
    return found


def table(draws: int, seed: int) -> str:
    """A row for each campaign."""
    draws = min(draws, MOST_DRAWS)
    lines = [
        "| campaign | level of a pair's first interim analysis | false claims | at most (95 %) | "
        f"median time to prove {LEAD:g}x | proven in time |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for asked in CAMPAIGNS:
        pairs = len(list(combinations(range(asked.contenders), 2)))
        few = draws if pairs < 10 else max(1, draws // 3)
        rule = asked.rule()
        false = false_claims(asked, rule, few, seed)
        limit = float(beta.ppf(0.95, false + 1, few - false))
        proven = times_s(asked, rule, few, seed)
        share = np.mean(np.isfinite(proven))
        median = f"{np.median(proven):.0f} s" if share > 0.5 else "none"
        points = "1 point" if asked.points == 1 else f"{asked.points} points"
        what = f"{asked.contenders} contenders, {points}, {asked.budget_s:g} s"
        lines.append(
            f"| {what} | {rule.level_at(rule.analyses[0]):.5f} | {false / few:.1%} | "
            f"{limit:.1%} | {median} | {share:.0%} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(MOST_DRAWS, 1))
