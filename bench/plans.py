"""Measure how soon a campaign's planned interim analyses prove a lead, and how often they claim a
false lead. The analyses are planned from the shape of the campaign."""

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
class CampaignShape:
    """The shape of a campaign."""

    contenders: int
    points: int
    budget_s: float

    @property
    def turn_s(self) -> float:
        """Return the whole time of one trial."""
        return Design().trial_s + Design().overhead_s

    @property
    def round_s(self) -> float:
        """Return the time of a block at every point."""
        return self.contenders * self.points * self.turn_s

    @property
    def blocks(self) -> int:
        """Return the number of blocks at one point, while every pair is open."""
        return int(self.budget_s / self.round_s)

    def rule(self) -> StoppingRule:
        """Return its planned interim analyses."""
        quickest = math.ceil(self.budget_s / (2 * self.turn_s))
        return StoppingRule(
            planned_analyses(quickest),
            LEVEL,
            family=math.comb(self.contenders, 2),
            expected=min(quickest, self.blocks),
        )


MOST_DRAWS = 300  # a third of these for campaigns of nine contenders, which take a second each
CAMPAIGNS = (
    CampaignShape(2, 1, 120),
    CampaignShape(3, 1, 180),
    CampaignShape(3, 4, 360),
    CampaignShape(9, 1, 300),
)


def analyses(
    trials: Sequence[BlockTrial], shape: CampaignShape, rule: StoppingRule
) -> Iterator[tuple[int, list[PairedComparison]]]:
    """Yield each analysis with its results; the last one when the time is over."""
    known: list[PairedComparison] = []
    for count in [*(one for one in rule.analyses if one < shape.blocks), shape.blocks]:
        part = trials[: count * shape.contenders]
        known = analyse(part, rule, count, earlier=known, is_last=count == shape.blocks)
        yield count, known


def campaigns(
    shape: CampaignShape, lead: float, draws: int, seed: int
) -> Iterator[list[BlockTrial]]:
    """Yield simulated campaigns with the first contender ahead of the others, which are equal."""
    rates = {f"c{place}": lead if place == 0 else 1.0 for place in range(shape.contenders)}
    for draw in range(draws):
        generator = np.random.default_rng([seed, draw])
        yield blocks(Machine(), Design(), rates, shape.blocks, generator)


def false_claims(shape: CampaignShape, rule: StoppingRule, draws: int, seed: int) -> int:
    """Return the number of campaigns of equal contenders in which a lead is claimed."""
    return sum(
        any(
            decision.outcome in (Outcome.HIGHER, Outcome.LOWER)
            for _, known in analyses(trials, shape, rule)
            for one in known
            for decision in one.decisions
        )
        for trials in campaigns(shape, 1.0, draws, seed)
    )


def times_s(shape: CampaignShape, rule: StoppingRule, draws: int, seed: int) -> list[float]:
    """Return when the lead over the second contender is proven in each campaign; infinite if
    never."""
    found = []
    for trials in campaigns(shape, LEAD, draws, seed):
        at_s = math.inf
        for count, known in analyses(trials, shape, rule):
            (pair,) = (one for one in known if (one.a, one.b) == ("c0", "c1"))
            if pair.decisions and all(one.outcome is Outcome.HIGHER for one in pair.decisions):
                at_s = count * shape.round_s
                break
        found.append(at_s)
    return found


def table(draws: int, seed: int) -> str:
    """Return a row for each campaign."""
    draws = min(draws, MOST_DRAWS)
    lines = [
        "| campaign | level of a pair's first interim analysis | false claims | at most (95 %) | "
        f"median time to prove {LEAD:g}x | proven in time |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for shape in CAMPAIGNS:
        pairs = len(list(combinations(range(shape.contenders), 2)))
        few = draws if pairs < 10 else max(1, draws // 3)
        rule = shape.rule()
        false = false_claims(shape, rule, few, seed)
        limit = float(beta.ppf(0.95, false + 1, few - false))
        proven = times_s(shape, rule, few, seed)
        share = np.mean(np.isfinite(proven))
        median = f"{np.median(proven):.0f} s" if share > 0.5 else "none"
        points = "1 point" if shape.points == 1 else f"{shape.points} points"
        title = f"{shape.contenders} contenders, {points}, {shape.budget_s:g} s"
        lines.append(
            f"| {title} | {rule.level_at(rule.analyses[0]):.5f} | {false / few:.1%} | "
            f"{limit:.1%} | {median} | {share:.0%} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(MOST_DRAWS, 1))
