"""Interim analyses: the leader, the equal contenders, and the undecided pairs.

At each planned interim analysis every pair of contenders gets its ratio with an interval at the
level of the analysis (boundaries.py), divided among all pairs of the point. The intervals of all
pairs at all analyses hold together with the stated confidence, which bounds the probability of a
wrong conclusion:

* a lead is proven if the interval lies on one side of 1; its end next to 1 is the least lead;
* two are the same if the whole interval lies within `prove`, the smallest lead that matters;
* otherwise the pair is undecided, and the spread so far gives the number of further blocks.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.boundaries import FIRST_ANALYSIS, StoppingRule
from switchmark.statistics.defaults import PROVE
from switchmark.statistics.means import LEVEL
from switchmark.statistics.paired import (
    FEWEST_PAIRS,
    MIN_PAIRS,
    LogRatio,
    PairedRatio,
    pairs_of,
    ratios_of,
)
from switchmark.statistics.robust import ERROR, usual_degrees
from switchmark.statistics.states import state_figures

POWER = 0.8  # probability that the reported further blocks are enough
BEYOND_HOPE = 10_000  # blocks, more than a user waits for


class Outcome(StrEnum):
    """The conclusion about the figures of contender a against b. For times, lower is better."""

    HIGHER = "higher"
    LOWER = "lower"
    SAME = "same"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Decision:
    """A ratio and its conclusion, in one state of the machine or in all together."""

    ratio: PairedRatio
    outcome: Outcome

    @property
    def least(self) -> float | None:
        """The least proven lead, above 0 (0.08 is 8 %); None if no lead is proven."""
        if self.outcome is Outcome.HIGHER:
            return self.ratio.low - 1
        return 1 / self.ratio.high - 1 if self.outcome is Outcome.LOWER else None


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Two contenders after an interim analysis. There are several decisions if the result depends
    on the state of the machine."""

    a: str
    b: str
    decisions: tuple[Decision, ...]  # empty if there are too few pairs
    pairs: int
    blocks: int  # number of blocks at the interim analysis
    further_blocks: int | None  # blocks that would decide the rest; None: decided, or too many

    @property
    def is_decided(self) -> bool:
        """True if each decision is made."""
        return bool(self.decisions) and all(
            decision.outcome is not Outcome.UNDECIDED for decision in self.decisions
        )


def judge(ratio: PairedRatio, prove: float = PROVE) -> Outcome:
    """Return the conclusion from an interval. Contenders within `prove` are the same."""
    if 1 / (1 + prove) <= ratio.low and ratio.high <= 1 + prove:
        return Outcome.SAME
    if not ratio.excludes(1.0):
        return Outcome.UNDECIDED
    return Outcome.HIGHER if ratio.low > 1 else Outcome.LOWER


def analyse(
    trials: Sequence[BlockTrial],
    rule: StoppingRule,
    blocks: int,
    *,
    pairs: Iterable[tuple[str, str]] | None = None,
    earlier: Iterable[PairedComparison] = (),
    prove: float = PROVE,
    is_last: bool = False,
) -> list[PairedComparison]:
    """Compare all pairs of contenders, or only `pairs`, after this number of blocks.

    A decision of an earlier analysis stays. A later interval replaces it if it has the same
    outcome. Raises ValueError if the rule divides its level among fewer pairs."""
    required = list(pairs) if pairs is not None else all_pairs(trials)
    if len(required) > rule.family:
        raise ValueError(f"{len(required)} pairs, but the level is divided among {rule.family}")
    figures = state_figures(trials)
    level = rule.level_at(blocks, is_last=is_last)
    known = {(comparison.a, comparison.b): comparison for comparison in earlier}
    comparisons = []
    for a, b in required:
        now = compare(a, b, pairs_of(trials, figures, a, b), blocks, level=level, prove=prove)
        before = known.get((a, b))
        is_kept = before is not None and before.is_decided and _outcomes(before) != _outcomes(now)
        comparisons.append(before if before is not None and is_kept else now)
    return comparisons


def all_pairs(trials: Iterable[BlockTrial]) -> list[tuple[str, str]]:
    """Return every pair of contenders, in the order of their names."""
    return list(combinations(sorted({trial.contender for trial in trials}), 2))


def still_needed(comparisons: Iterable[PairedComparison]) -> set[str]:
    """Return the contenders of undecided pairs, which the next blocks need."""
    return {
        name
        for comparison in comparisons
        if not comparison.is_decided
        for name in (comparison.a, comparison.b)
    }


def compare(
    a: str, b: str, pairs: Sequence[LogRatio], blocks: int, *, level: float, prove: float = PROVE
) -> PairedComparison:
    """Judge one pair of contenders at a two-sided level."""
    decisions = tuple(Decision(one, judge(one, prove)) for one in ratios_of(pairs, level))
    needed = [
        pairs_needed(one.ratio, level, prove)
        for one in decisions
        if one.outcome is Outcome.UNDECIDED
    ]
    further: int | None = None
    # Without a ratio only pairs of one state count towards the fewest that a ratio takes.
    alike = sum(one.slow_a == one.slow_b for one in pairs)
    if not decisions and 0 < alike < MIN_PAIRS:
        least = FEWEST_PAIRS if alike < FEWEST_PAIRS else MIN_PAIRS
        further = math.ceil((least - alike) * blocks / alike)
    elif needed:
        # Pairs of each state come as often as they have come so far.
        have = [one.ratio.pairs for one in decisions if one.outcome is Outcome.UNDECIDED]
        most = max(
            blocks * (more / current - 1) for more, current in zip(needed, have, strict=True)
        )
        further = max(1, math.ceil(most)) if most < BEYOND_HOPE else None
    return PairedComparison(a, b, decisions, len(pairs), blocks, further)


def blocks_instead(a: Sequence[float], b: Sequence[float], prove: float = PROVE) -> int | None:
    """Return the most blocks that would distinguish two contenders of two runs, if they were
    measured together. Common disturbances cancel in pairs, so fewer blocks can be enough. None if
    there are fewer than two figures, or if too many blocks are needed."""
    if min(len(a), len(b), *a, *b) <= 0 or min(len(a), len(b)) < 2:
        return None
    logs = [[math.log(value) for value in side] for side in (a, b)]
    pairs = min(len(a), len(b))
    error = math.sqrt(sum(statistics.variance(side) for side in logs) / pairs)
    value = math.exp(statistics.fmean(logs[0]) - statistics.fmean(logs[1]))
    ratio = PairedRatio(value, value, value, pairs, error, pairs - 1)
    needed = pairs_needed(ratio, LEVEL, prove)
    return max(FIRST_ANALYSIS, math.ceil(needed)) if needed < BEYOND_HOPE else None


def pairs_needed(ratio: PairedRatio, level: float, prove: float) -> float:
    """Return the pairs after which an interval of this spread excludes 1, or fits in `prove`."""
    from scipy.special import ndtri, stdtrit

    reach = float(stdtrit(max(ratio.degrees, 10), 1 - level / 2) + ndtri(POWER))
    lead = abs(math.log(ratio.value))
    room = math.log1p(prove) - lead
    gap = max(lead, room, 1e-9)
    return (reach * ratio.log_error / gap) ** 2 * ratio.pairs


def analysis_that_proves(
    rule: StoppingRule, lead: float, deviation: float, usable: float = 1.0
) -> int | None:
    """Return the blocks after which a lead is proven in `POWER` of campaigns, for this deviation of
    the logarithm of the ratio of a pair, and this share of blocks that give a pair; None if no
    interim analysis proves it."""
    from scipy.special import ndtri, stdtrit

    for count in rule.analyses:
        pairs = int(count * usable)
        if pairs < MIN_PAIRS:
            continue
        error = ERROR * deviation / math.sqrt(pairs)
        reach = float(stdtrit(usual_degrees(pairs), 1 - rule.level_at(count) / 2) + ndtri(POWER))
        if reach * error <= math.log1p(lead):
            return count
    return None


def _outcomes(comparison: PairedComparison) -> list[Outcome]:
    return [decision.outcome for decision in comparison.decisions]
