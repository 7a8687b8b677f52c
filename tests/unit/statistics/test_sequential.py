"""Verdicts at planned interim analyses: the rate of false verdicts, and the time of true ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binomtest

from switchmark.statistics.boundaries import StoppingRule, planned_analyses
from switchmark.statistics.paired import LogRatio, PairedRatio
from switchmark.statistics.sequential import (
    Outcome,
    PairedComparison,
    analyse,
    compare,
    judge,
    still_needed,
)
from switchmark.statistics.simulation import Design, Machine, blocks

MOST = 60


@dataclass(frozen=True)
class Outcomes:
    """The share of campaigns with each outcome, and their blocks."""

    shares: dict[Outcome, float]
    median_blocks: float
    missed: int  # intervals without the true ratio
    count: int


def campaigns(
    rates: dict[str, float], machine: Machine, count: int, prove: float = 0.05
) -> Outcomes:
    rule = StoppingRule(planned_analyses(MOST))
    outcomes, ends, missed, intervals = [], [], 0, 0
    for seed in range(count):
        trials = blocks(machine, Design(), rates, MOST, np.random.default_rng(seed))
        comparisons: list[PairedComparison] = []
        for at in rule.analyses:
            comparisons = analyse(
                trials[: at * len(rates)], rule, at, earlier=comparisons, prove=prove
            )
            if not still_needed(comparisons):
                break
        outcomes.append({decision.outcome for decision in comparisons[0].decisions})
        ends.append(comparisons[0].blocks)
        for decision in comparisons[0].decisions:
            missed += decision.ratio.excludes(rates["a"] / rates["b"])
            intervals += 1
    shares = {each: float(np.mean([each in held for held in outcomes])) for each in Outcome}
    return Outcomes(shares, float(np.median(ends)), missed, intervals)


@pytest.mark.parametrize("machine", [Machine(), Machine(wrong_labels=0.1, dwell_s=12)])
def test_equal_contenders_are_rarely_distinguished(machine: Machine) -> None:
    outcomes = campaigns({"a": 1.0, "b": 1.0}, machine, 150, prove=1e-6)
    claims = outcomes.shares[Outcome.HIGHER] + outcomes.shares[Outcome.LOWER]
    assert binomtest(round(claims * 150), 150, 0.05, alternative="greater").pvalue > 0.01
    assert outcomes.shares[Outcome.SAME] == 0


def test_relevant_lead_is_rarely_called_the_same() -> None:
    outcomes = campaigns({"a": 1.051, "b": 1.0}, Machine(), 100)
    claims = round(outcomes.shares[Outcome.SAME] * 100)
    assert binomtest(claims, 100, 0.05, alternative="greater").pvalue > 0.01
    assert outcomes.shares[Outcome.LOWER] == 0
    assert binomtest(outcomes.missed, outcomes.count, 0.05, alternative="greater").pvalue > 0.01


def test_equal_contenders_are_called_the_same() -> None:
    assert campaigns({"a": 1.0, "b": 1.0}, Machine(), 60).shares[Outcome.SAME] > 0.8


def test_a_quarter_is_proven_within_half_a_minute() -> None:
    outcomes = campaigns({"a": 1.25, "b": 1.0}, Machine(), 60)
    assert outcomes.shares[Outcome.HIGHER] == 1
    seconds = outcomes.median_blocks * 2 * (Design().trial_s + Design().overhead_s)
    assert seconds < 30


def test_intervals_keep_their_coverage_after_an_early_stop() -> None:
    outcomes = campaigns({"a": 1.1, "b": 1.0}, Machine(wrong_labels=0.1), 150)
    assert binomtest(outcomes.missed, outcomes.count, 0.05, alternative="greater").pvalue > 0.01


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.97, 1.04, Outcome.SAME),
        (1.01, 1.04, Outcome.SAME),
        (1.01, 1.06, Outcome.HIGHER),
        (0.80, 0.99, Outcome.LOWER),
        (0.94, 1.01, Outcome.UNDECIDED),
        (0.90, 1.30, Outcome.UNDECIDED),
    ],
)
def test_outcome_of_an_interval(low: float, high: float, outcome: Outcome) -> None:
    assert judge(PairedRatio(math.sqrt(low * high), low, high, 10, 0.1, 5), 0.05) is outcome


def test_smallest_lead_is_symmetric() -> None:
    steady = [math.log(1.25) + 0.002 * (-1) ** index for index in range(12)]
    for turn in (1, -1):
        pairs = [LogRatio(block, turn * value) for block, value in enumerate(steady)]
        decision = compare("a", "b", pairs, 12, level=0.05).decisions[0]
        assert decision.outcome is (Outcome.HIGHER if turn > 0 else Outcome.LOWER)
        assert decision.least == pytest.approx(0.25, abs=0.01)
        assert decision.least is not None
        assert decision.least < 0.25


def test_undecided_pairs_estimate_the_needed_blocks() -> None:
    generator = np.random.default_rng(8)
    values = 0.04 + generator.normal(0, 0.12, 40)
    pairs = [LogRatio(block, value) for block, value in enumerate(values)]
    short = compare("a", "b", pairs[:12], 12, level=0.01)
    assert not short.is_decided
    assert short.further_blocks is not None
    assert 12 < short.further_blocks < 400
    few = compare("a", "b", pairs[:2], 6, level=0.01)
    assert (few.decisions, few.further_blocks) == ((), 3)
    assert compare("a", "b", [], 9, level=0.01).further_blocks is None


def test_pairs_across_states_do_not_count_for_the_first_ratio() -> None:
    pairs = [LogRatio(k, 0.01 * k, 0.0, 0.0 if k < 2 else 1.0) for k in range(3)]
    found = compare("a", "b", pairs, 3, level=0.01)
    assert (found.decisions, found.pairs, found.further_blocks) == ((), 3, 2)
    apart = [LogRatio(k, 0.01 * k, 0.0, 1.0) for k in range(6)]
    assert compare("a", "b", apart, 6, level=0.01).further_blocks is None


def test_decided_pair_stays_decided_and_needs_no_blocks() -> None:
    rates = {"a": 1.5, "b": 1.0, "c": 1.0}
    rule = StoppingRule(planned_analyses(30), family=3)
    trials = blocks(Machine(), Design(), rates, 30, np.random.default_rng(1))
    comparisons: list[PairedComparison] = []
    for at in rule.analyses:
        before = {(one.a, one.b) for one in comparisons if one.is_decided}
        comparisons = analyse(trials[: 3 * at], rule, at, earlier=comparisons, prove=0.001)
        assert before <= {(one.a, one.b) for one in comparisons if one.is_decided}
    assert still_needed(comparisons) == {"b", "c"}


def test_level_for_fewer_pairs_is_refused() -> None:
    trials = blocks(
        Machine(), Design(), {"a": 1.0, "b": 1.0, "c": 1.0}, 8, np.random.default_rng(1)
    )
    with pytest.raises(ValueError, match="3 pairs, but the level is divided among 1"):
        analyse(trials, StoppingRule((8,)), 8)
