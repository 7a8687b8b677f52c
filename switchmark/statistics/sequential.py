"""Which contender leads, which are equal, and what is not yet known: look by look.

At each planned look every pair of contenders gets its ratio with an interval at the look's level
(boundaries.py), divided among all pairs of the point. The intervals of all pairs at all looks hold
together with the stated confidence, which bounds how often any conclusion from them is wrong:

* a lead is proven when the interval lies on one side of 1; its near end is the least lead;
* two are the same when the whole interval lies within `prove`, the smallest lead worth knowing;
* otherwise it is undecided, and the spread so far tells how many more blocks it would take.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.boundaries import FIRST_LOOK, StoppingRule
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

POWER = 0.8  # chance that the further blocks told of are enough
BEYOND_HOPE = 10_000  # blocks; nobody waits for more


class Outcome(StrEnum):
    """The conclusion about contender a against b. A lead is of figures: of delays, the smaller one
    is better."""

    HIGHER = "higher"
    LOWER = "lower"
    SAME = "same"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Decision:
    """A ratio and what it proves, in one state of the machine or in all together."""

    ratio: PairedRatio
    outcome: Outcome

    @property
    def least(self) -> float | None:
        """The least lead that is proven, above 0 (0.08 is 8 %); None where none is."""
        if self.outcome is Outcome.HIGHER:
            return self.ratio.low - 1
        return 1 / self.ratio.high - 1 if self.outcome is Outcome.LOWER else None


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Two contenders after a look. Several decisions: the answer depends on the state."""

    a: str
    b: str
    decisions: tuple[Decision, ...]  # none: too few pairs
    pairs: int
    blocks: int  # at which this was found
    further_blocks: int | None  # to decide what is undecided; None: 0, or beyond hope

    @property
    def is_decided(self) -> bool:
        """Whether the question is answered."""
        return bool(self.decisions) and all(
            decision.outcome is not Outcome.UNDECIDED for decision in self.decisions
        )


def judge(ratio: PairedRatio, prove: float = PROVE) -> Outcome:
    """The conclusion from an interval. Within `prove` two are the same, even if not equal."""
    if 1 / (1 + prove) <= ratio.low and ratio.high <= 1 + prove:
        return Outcome.SAME
    if not ratio.excludes(1.0):
        return Outcome.UNDECIDED
    return Outcome.HIGHER if ratio.low > 1 else Outcome.LOWER


def look(
    trials: Sequence[BlockTrial],
    rule: StoppingRule,
    blocks: int,
    *,
    asked: Iterable[tuple[str, str]] | None = None,
    earlier: Iterable[PairedComparison] = (),
    prove: float = PROVE,
    is_last: bool = False,
) -> list[PairedComparison]:
    """Compare all pairs of contenders (or those `asked`) after so many blocks.

    A decision of an earlier look stays; a later interval takes its place where it proves the same.
    Raises ValueError when the rule divides its level among fewer pairs."""
    wanted = list(asked) if asked is not None else all_pairs(trials)
    if len(wanted) > rule.family:
        raise ValueError(f"{len(wanted)} pairs, but the level is divided among {rule.family}")
    figures = state_figures(trials)
    level = rule.level_at(blocks, is_last=is_last)
    known = {(one.a, one.b): one for one in earlier}
    found = []
    for a, b in wanted:
        now = compare(a, b, pairs_of(trials, figures, a, b), blocks, level=level, prove=prove)
        before = known.get((a, b))
        is_kept = before is not None and before.is_decided and _outcomes(before) != _outcomes(now)
        found.append(before if before is not None and is_kept else now)
    return found


def all_pairs(trials: Iterable[BlockTrial]) -> list[tuple[str, str]]:
    """Every pair of contenders, in the order of their names."""
    return list(combinations(sorted({trial.contender for trial in trials}), 2))


def still_asked(comparisons: Iterable[PairedComparison]) -> set[str]:
    """The contenders that the next blocks need: those of undecided pairs."""
    return {name for one in comparisons if not one.is_decided for name in (one.a, one.b)}


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
    alike = sum(one.far_a == one.far_b for one in pairs)
    if not decisions and alike:
        further = max(1, math.ceil((FEWEST_PAIRS - alike) * blocks / alike))
    elif needed:
        # Pairs of each state come as often as they have come so far.
        have = [one.ratio.pairs for one in decisions if one.outcome is Outcome.UNDECIDED]
        most = max(blocks * (more / held - 1) for more, held in zip(needed, have, strict=True))
        further = max(1, math.ceil(most)) if most < BEYOND_HOPE else None
    return PairedComparison(a, b, decisions, len(pairs), blocks, further)


def blocks_instead(a: Sequence[float], b: Sequence[float], prove: float = PROVE) -> int | None:
    """At most how many blocks would tell apart two contenders whose figures were measured in two
    runs, if they were measured together: what disturbs both cancels in their pairs. None: fewer
    than two figures have no spread, or beyond hope."""
    if min(len(a), len(b), *a, *b) <= 0 or min(len(a), len(b)) < 2:
        return None
    logs = [[math.log(value) for value in side] for side in (a, b)]
    pairs = min(len(a), len(b))
    error = math.sqrt(sum(statistics.variance(side) for side in logs) / pairs)
    value = math.exp(statistics.fmean(logs[0]) - statistics.fmean(logs[1]))
    ratio = PairedRatio(value, value, value, pairs, error, pairs - 1)
    needed = pairs_needed(ratio, LEVEL, prove)
    return max(FIRST_LOOK, math.ceil(needed)) if needed < BEYOND_HOPE else None


def pairs_needed(ratio: PairedRatio, level: float, prove: float) -> float:
    """Pairs after which an interval of this spread no longer holds 1, or fits within `prove`."""
    from scipy.special import ndtri, stdtrit

    reach = float(stdtrit(max(ratio.degrees, 10), 1 - level / 2) + ndtri(POWER))
    lead = abs(math.log(ratio.value))
    room = math.log1p(prove) - lead
    gap = max(lead, room, 1e-9)
    return (reach * ratio.log_error / gap) ** 2 * ratio.pairs


def look_that_proves(
    rule: StoppingRule, lead: float, deviation: float, usable: float = 1.0
) -> int | None:
    """The blocks after which a lead is proven in `POWER` of campaigns, where the logarithms of a
    pair's ratios have this deviation, and this share of the blocks gives a pair; None: at no
    look."""
    from scipy.special import ndtri, stdtrit

    for count in rule.looks:
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
