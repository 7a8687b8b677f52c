"""Compare designs of an experiment on a simulated machine with a known true value: the leads that
each design proves in the same time, and its false claims. One test at the end, no interim
analyses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr
from scipy.stats import binomtest, ttest_1samp, wilcoxon

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.comparison import ratio_of
from switchmark.statistics.paired import LogRatio, PairedRatio, pairs_of
from switchmark.statistics.paired import ratio_of as paired_ratio_of
from switchmark.statistics.robust import robust_fit
from switchmark.statistics.simulation import Design, Machine, blocks
from switchmark.statistics.states import State, StateFigure, label, state_figures

CAMPAIGN_S = 176.0
LEAD = 1.25
DWELLS_S = (1.5, 6.0, 12.0)
Array = NDArray[np.float64]
Test = Callable[[Sequence[BlockTrial], int], float]  # p of a against b, and blocks in a deployment


def welch(trials: Sequence[BlockTrial], _: int) -> float:
    """Count every trial separately."""
    sides = [[t.figure for t in trials if t.contender == name and t.figure] for name in "ab"]
    return ratio_of(*sides).p or 1.0


def paired(trials: Sequence[BlockTrial], _: int) -> float:
    """Pair the trials of a block, whatever the state."""
    pairs = _any_state(trials)
    return float(ttest_1samp([pair.log_ratio for pair in pairs], 0).pvalue)


def _any_state(trials: Sequence[BlockTrial]) -> list[LogRatio]:
    figures = [StateFigure(one.figure, None) if one.figure else None for one in trials]
    return pairs_of(trials, figures, "a", "b")


def within_state(trials: Sequence[BlockTrial], _: int) -> float:
    """Pair whole trials within one state, robustly."""
    states = label(trials)
    figures = [
        StateFigure(one.figure, float(state is State.SLOW))
        if one.figure and state is not State.CHANGED
        else None
        for one, state in zip(trials, states, strict=True)
    ]
    pairs = [one for one in pairs_of(trials, figures, "a", "b") if one.slow_a == one.slow_b]
    return _p(paired_ratio_of(pairs))


def with_state(trials: Sequence[BlockTrial], _: int) -> float:
    """Use all pairs with the state as a covariate, robustly."""
    return _p(paired_ratio_of(pairs_of(trials, state_figures(trials), "a", "b")))


def _p(found: PairedRatio | None) -> float:
    """Return the level at which the interval reaches 1."""
    if found is None:
        return 1.0
    return float(2 * stdtr(found.degrees, -abs(math.log(found.value)) / found.log_error))


def by_deployment(trials: Sequence[BlockTrial], together: int) -> float:
    """Count the mean of the pairs of one deployment as one observation."""
    pairs = _any_state(trials)
    means = [
        np.mean([pair.log_ratio for pair in held])
        for _, held in groupby(pairs, key=lambda pair: pair.block // together)
    ]
    return float(ttest_1samp(means, 0).pvalue)


@dataclass(frozen=True)
class Tried:
    """A row of the table."""

    name: str
    design: Design
    test: Test

    def share(self, machine: Machine, lead: float, level: float, runs: int, seed: int) -> float:
        """Return how often p is below the level, with a true lead of a over b."""
        rates = {"a": lead, "b": 1.0, "c": 0.8}
        turn_s = self.design.trial_s + self.design.overhead_s
        count = int(CAMPAIGN_S / (len(rates) * turn_s))
        together = self.design.blocks_per_deployment
        claims = 0
        for run in range(runs):
            generator = np.random.default_rng([seed, run])
            claims += (
                self.test(blocks(machine, self.design, rates, count, generator), together) < level
            )
        return claims / runs


LONG, SHORT = Design(trial_s=2.0), Design(trial_s=0.5)
SLICES = 10**6  # more blocks of slices than any deployment has
DESIGNS = (
    Tried("2 s trials, Welch", LONG, welch),
    Tried("the same, paired by block", LONG, paired),
    Tried("0.5 s trials, paired", SHORT, paired),
    Tried("0.5 s trials, paired within one state, robust", SHORT, within_state),
    Tried("0.5 s trials, paired, the state as a covariate, robust", SHORT, with_state),
    Tried(
        "one deployment, 0.3 s slices in turn taken as independent",
        Design(trial_s=0.3, overhead_s=0.0, blocks_per_deployment=SLICES),
        paired,
    ),
    Tried(
        "slices in turn, 5 re-deployments as the unit",
        Design(trial_s=0.3, overhead_s=0.0, blocks_per_deployment=39),
        by_deployment,
    ),
)


def table(runs: int, seed: int) -> str:
    """Return power for a lead of 1.25 at 0.05 / 3, and false claims at 0.05; by mean dwell."""
    lines = [
        f"| design, {CAMPAIGN_S:g} s, three contenders | proves {LEAD}x (0.05 / 3): "
        + " | ".join(f"dwell {dwell_s:g} s" for dwell_s in DWELLS_S)
        + " | false claims (0.05): "
        + " | ".join(f"dwell {dwell_s:g} s" for dwell_s in DWELLS_S)
        + " |",
        "|---|" + "---:|" * 2 * len(DWELLS_S),
    ]
    for tried in DESIGNS:
        shares = [
            tried.share(Machine(dwell_s=dwell_s), lead, level, runs, seed)
            for lead, level in ((LEAD, 0.05 / 3), (1.0, 0.05))
            for dwell_s in DWELLS_S
        ]
        lines.append(f"| {tried.name} | " + " | ".join(f"{one:.2f}" for one in shares) + " |")
    return "\n".join(lines)


def estimators(runs: int, seed: int) -> str:
    """Return the cost of wrong labels: pairs of deviation 6 %, some of them off by a factor of two
    in either direction, as by a wrong label; power for 10 % and false claims, at the level of an
    analysis."""
    lines = [
        "| test of the pairs | pairs | "
        + " | ".join(f"{wrong:.0%} wrong: power | false" for wrong in WRONG)
        + " |",
        "|---|---:|" + "---:|---:|" * len(WRONG),
    ]
    for name, test in TESTS.items():
        for count in (9, 20):
            cells = []
            for wrong in WRONG:
                generator = np.random.default_rng([seed, count, int(100 * wrong)])
                pairs = generator.normal(0, PAIR_SD, (runs, count))
                off = generator.choice([-1, 1], pairs.shape) * math.log(2)
                pairs += np.where(generator.random(pairs.shape) < wrong, off, 0)
                power = np.mean([test(row + math.log(1.1)) < LOOK_LEVEL for row in pairs])
                false = np.mean([test(row) < LOOK_LEVEL for row in pairs])
                cells.append(f"{power:.2f} | {false:.3f}")
            lines.append(f"| {name} | {count} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


PAIR_SD = 0.06
LOOK_LEVEL = 0.01
WRONG = (0.0, 0.1, 0.2)


def _robust_p(pairs: Array) -> float:
    fit = robust_fit(np.ones((pairs.size, 1)), pairs)
    assert fit is not None, "nine pairs and more"
    mean, error = fit.of(np.ones(1))
    return float(2 * stdtr(fit.degrees, -abs(mean) / error))


TESTS: dict[str, Callable[[Array], float]] = {
    "mean, Student's t": lambda pairs: float(ttest_1samp(pairs, 0).pvalue),
    "Hodges and Lehmann, signed ranks": lambda pairs: float(wilcoxon(pairs).pvalue),
    "median, order statistics": lambda pairs: float(
        binomtest(int((pairs > 0).sum()), pairs.size).pvalue
    ),
    "Huber's M-estimator (ours)": _robust_p,
}
