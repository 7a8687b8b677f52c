"""The rules of a campaign that proves: the smallest lead, the confidence, the interim analyses.

These are read from the definition that is stored with a run, so that a run that was interrupted,
resumed, or shown years later is judged in the same interim analyses. The analyses also depend on
the usual overhead of a trial of each switch, which the caller provides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from switchmark.model.capabilities import PROGRAM_OVERHEAD_S
from switchmark.model.trial import Trial
from switchmark.record.metric import Metric
from switchmark.results.blocks import Observed, as_block_trials
from switchmark.statistics.boundaries import StoppingRule, planned_analyses
from switchmark.statistics.defaults import BUDGET_S, CONFIDENCE, PROVE
from switchmark.statistics.sequential import (
    PairedComparison,
    analyse,
    analysis_that_proves,
    still_needed,
)

USUAL_TRIAL_S = 0.5
# Standard deviation of the logarithm of the ratio of a pair within a state, in our measurements.
USUAL_DEVIATION = 0.09


@dataclass(frozen=True, slots=True)
class Proving:
    """The requirements of a campaign for its comparisons."""

    overhead_s: Callable[[str], float]  # usual overhead of a trial of a switch
    prove: float = PROVE  # the smallest lead worth knowing
    confidence: float = CONFIDENCE  # for all claims about one figure at one test point
    budget_s: float | None = None  # None: a fixed number of blocks
    blocks: int = 1  # fixed number of blocks, or the smallest number of `until_ci`
    most_blocks: float = 1
    testbeds: tuple[str, ...] = ()  # testbeds of a pool that decide separately
    testbed: str = ""  # the testbed that decides here

    @classmethod
    def of(
        cls,
        definition: Mapping[str, Any],
        overhead_s: Callable[[str], float],
        testbeds: Sequence[str] = (),
    ) -> Proving:
        """Read it from the definition of a campaign, of any version. `testbeds` are those that
        decide separately."""
        blocks = int(definition.get("repetitions") or 1)
        until_ci = definition.get("until_ci") is not None
        more = int(definition.get("max_repetitions") or 1) if until_ci else 1
        return cls(
            overhead_s=overhead_s,
            prove=definition.get("prove") or PROVE,
            confidence=definition.get("confidence") or CONFIDENCE,
            budget_s=definition.get("budget_s"),
            blocks=blocks,
            most_blocks=math.inf if definition.get("budget_s") else max(blocks, more),
            testbeds=tuple(testbeds),
        )

    def on(self, testbed: str) -> Proving:
        """Return the requirements for one testbed of the pool."""
        return replace(self, testbed=testbed)

    def repetition(self, block: int) -> int:
        """Return the repetition of a block. Testbeds take turns, so that no trial belongs to
        two."""
        if not self.testbed:
            return block
        return block * len(self.testbeds) + self.testbeds.index(self.testbed)

    def block_of(self, repetition: int) -> int:
        """Return the block of its testbed to which a repetition belongs."""
        return repetition // max(1, len(self.testbeds))

    @property
    def stops(self) -> bool:
        """True if the campaign ends when everything is decided, or when its time is over."""
        return self.budget_s is not None

    def rule(self, contenders: Sequence[Trial], whole_round_s: float) -> StoppingRule:
        """Return the interim analyses of one figure of one test point, planned before measuring.

        They follow from the usual length of its trials, and of a block at every point of the
        campaign (`whole_round_s`). The time is enough for `expected` blocks while everything is
        undecided, and for the blocks of the last analysis if only the two contenders with the
        shortest trials remain. If figures end the campaign (`until_ci`), each block from `blocks`
        on may be the last one. The claims of all testbeds about a figure at a point share the
        level."""
        family = max(1, math.comb(len(contenders), 2)) * max(1, len(self.testbeds))
        if self.budget_s is None:
            each = StoppingRule.after_each(self.blocks, int(self.most_blocks))
            return replace(each, level=1 - self.confidence, family=family)
        quickest_s = sum(sorted(map(self.turn_s, contenders))[:2])
        most = max(2, self.blocks, math.ceil(self.budget_s / quickest_s))
        expected = min(most, max(1, round(self.budget_s / whole_round_s)))
        return StoppingRule(planned_analyses(most), 1 - self.confidence, family, expected=expected)

    def turn_s(self, trial: Trial) -> float:
        """Return the usual time of a trial in seconds, including the overhead."""
        return trial.duration_s + self.overhead_s(trial.switch)

    def round_s(self, trials: Iterable[Trial]) -> float:
        """Return the usual time in seconds of one block at every point, in which each of these
        contenders is measured once, without baselines."""
        return math.fsum(map(self.turn_s, trials))


def usual_time_to_prove_s(dwell_s: float | None, prove: float = PROVE) -> float | None:
    """Return the usual time in seconds until two switches that are `prove` apart are distinguished,
    on a machine that changes its state every `dwell_s` (None: never); None: longer than `BUDGET_S`.

    Every block gives a pair, but a block in which the machine changes its state is lost."""
    block_s = 2 * (USUAL_TRIAL_S + PROGRAM_OVERHEAD_S)
    usable = 1.0 if dwell_s is None else math.exp(-USUAL_TRIAL_S / dwell_s)
    rule = StoppingRule(planned_analyses(math.ceil(BUDGET_S / block_s)), 1 - CONFIDENCE)
    blocks = analysis_that_proves(rule, prove, USUAL_DEVIATION, usable)
    return None if blocks is None else blocks * block_s


@dataclass
class InterimAnalyses:
    """The interim analyses of one figure at one test point, while the campaign runs or
    afterwards."""

    metric: Metric
    rule: StoppingRule
    prove: float
    contenders: Sequence[str]
    comparisons: list[PairedComparison] = field(default_factory=list)

    def after(self, observed: Sequence[Observed], blocks: int, *, is_last: bool = False) -> None:
        """Analyse after `blocks` blocks, if an analysis is planned or if it is the last one."""
        if not is_last and not self.rule.is_analysis(blocks):
            return
        self.comparisons = analyse(
            as_block_trials(observed, self.metric),
            self.rule,
            blocks,
            pairs=list(combinations(sorted(self.contenders), 2)),
            earlier=self.comparisons,
            prove=self.prove,
            is_last=is_last,
        )

    @property
    def needed(self) -> set[str]:
        """The contenders that are still needed; all of them before the first analysis."""
        return still_needed(self.comparisons) if self.comparisons else set(self.contenders)


def blocks_of(observed: Iterable[Observed]) -> int:
    """Return the number of blocks of these trials."""
    return len({trial.block for trial in observed})
