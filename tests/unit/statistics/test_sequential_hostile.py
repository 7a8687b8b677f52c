"""Interim analyses of all data that a machine can produce: equal, missing and absurd figures."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.boundaries import StoppingRule, planned_analyses
from switchmark.statistics.paired import LogRatio
from switchmark.statistics.sequential import (
    PairedComparison,
    all_pairs,
    analyse,
    compare,
)

KINDS = ("equal", "near", "absurd", "zeros", "mixed")


def figure(kind: str, usual: float, draw: random.Random) -> float | None:
    """Return a figure of this kind."""
    match kind:
        case "equal":
            return usual
        case "near":
            return usual * draw.uniform(0.99, 1.01)
        case "absurd":
            return 10 ** draw.uniform(-9, 12)
        case "zeros":
            return draw.choice((0.0, usual))
    return draw.choice((None, 0.0, usual, usual * 1.1, 1e-9, 1e12))


def campaign(draw: random.Random, contenders: int, blocks: int) -> list[BlockTrial]:
    """Return the trials of a campaign. Contenders can fail from any block on, and the machine can
    have two states."""
    usual, kind = 10 ** draw.uniform(-9, 12), draw.choice(KINDS)
    names = [f"c{number}" for number in range(contenders)]
    fails_from = {name: draw.choice((blocks, draw.randrange(blocks + 1))) for name in names}
    slow_share = draw.choice((None, 0.0, 0.1, 0.5, 1.0))

    def line_ns() -> float | None:
        if slow_share is None or draw.random() < 0.02:
            return None
        return 200.0 if draw.random() < slow_share else 40.0

    trials: list[BlockTrial] = []
    for block in range(blocks):
        for name in draw.sample(names, contenders):
            value = None if block >= fails_from[name] else figure(kind, usual, draw)
            before = line_ns()
            samples = [(value or 0.0) * draw.uniform(0.5, 1.5) for _ in range(draw.randrange(12))]
            trials.append(
                BlockTrial(
                    block=block, contender=name, start_s=float(len(trials)), figure=value,
                    line_before_ns=before,
                    line_after_ns=before if draw.random() < 0.8 else line_ns(),
                    cores=draw.choice(("0,1", "0,1", "0,1", "")), samples=tuple(samples),
                )
            )  # fmt: skip
    return trials


@given(
    seed=st.integers(0, 2**32),
    contenders=st.sampled_from((2, 3, 9)),
    blocks=st.integers(1, 60),
    prove=st.sampled_from((1e-12, 0.01, 0.25, 0.999999)),
    confidence=st.sampled_from((0.500001, 0.95, 0.9999, 1 - 1e-9, 1 - 1e-15)),
    most=st.sampled_from((2, 8, 60, 5000)),
)
@settings(max_examples=15, deadline=None)
def test_any_data_have_finite_intervals_and_firm_decisions(
    seed: int, contenders: int, blocks: int, prove: float, confidence: float, most: int
) -> None:
    draw = random.Random(seed)
    trials = campaign(draw, contenders, blocks)
    pairs = all_pairs(trials)
    rule = StoppingRule(planned_analyses(most), 1 - confidence, len(pairs))
    comparisons: list[PairedComparison] = []
    for count in (*(at for at in rule.analyses if at < blocks), blocks):
        measured = [trial for trial in trials if trial.block < count]
        is_last = not rule.is_analysis(count)
        before = comparisons
        options: Any = {"pairs": pairs, "earlier": before, "prove": prove, "is_last": is_last}
        comparisons = analyse(measured, rule, count, **options)
        others = analyse(draw.sample(measured, len(measured)), rule, count, **options)
        for comparison, other in zip(comparisons, others, strict=True):
            assert len(comparison.decisions) == len(other.decisions)
            assert comparison.further_blocks is None or comparison.further_blocks >= 1
            for decision, same in zip(comparison.decisions, other.decisions, strict=True):
                ratio = decision.ratio
                assert 0 < ratio.low < ratio.value < ratio.high < math.inf
                assert decision.least is None or decision.least > 0
                assert decision.outcome is same.outcome, "the order of the trials does not matter"
                assert ratio.value == pytest.approx(same.ratio.value)
        decided = [old for old in before if old.is_decided]
        outcomes = {(new.a, new.b): [each.outcome for each in new.decisions] for new in comparisons}
        assert all(
            outcomes[old.a, old.b] == [each.outcome for each in old.decisions] for old in decided
        )


@pytest.mark.parametrize(("pairs", "further"), [(1, 2), (2, 1), (3, 2), (4, 1)])
def test_pairs_without_ratio_need_the_blocks_of_a_robust_fit(pairs: int, further: int) -> None:
    """Three pairs at a strict level have no ratio, and one more block does not give them one."""
    wild = [LogRatio(block, 3.0 * (-1) ** block, 0.0, 0.0) for block in range(pairs)]
    comparison = compare("a", "b", wild, pairs, level=1e-9)
    assert (comparison.decisions, comparison.further_blocks) == ((), further)


def test_pairs_that_no_level_decides_promise_no_blocks() -> None:
    wild = [LogRatio(block, 20.0 * (-1) ** block, 0.0, 0.0) for block in range(6)]
    comparison = compare("a", "b", wild, 6, level=1e-300)
    assert comparison.decisions == ()
    assert comparison.further_blocks is None
