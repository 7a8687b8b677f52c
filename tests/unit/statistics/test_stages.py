"""A ratio in two stages on simulated figures with a known true value: the rate of false claims,
however the second stage is sized by the first, and whether the estimated size suffices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, ttest_ind

from switchmark.statistics.boundaries import StoppingRule
from switchmark.statistics.stages import (
    EARLY_LEVEL,
    FIRST,
    RULE,
    SECOND,
    StagedRatio,
    ratio_in_stages,
)

DRAWS = 600
SPREAD = 0.2
Sizing = Callable[[StagedRatio], int]


def as_planned(first: StagedRatio) -> int:
    """Return as many blocks as the estimate needs to differ from 1, within limits."""
    gap = abs(math.log(first.value or 1.0))
    return min(60, max(3, math.ceil(6 * first.further(gap))))


def while_it_is_near(first: StagedRatio) -> int:
    """Return the sizes that mislead a test of all figures as one group: few blocks if the first
    stage is almost significant, many if it is not."""
    p = first.p_of(1.0)
    return 3 if p is not None and p < 0.3 else 40


@dataclass(frozen=True)
class Refusals:
    """Numbers of refusals of the true value."""

    staged: int  # by p-values at both analyses
    missed: int  # intervals without the true value
    pooled: int  # by Welch's t at 5 % of all figures so far, at both analyses


def simulated(sizing: Sizing, draws: int, first_blocks: int = 6) -> Refusals:
    """Simulate two groups whose ratio is 1, the second with twice the spread."""
    staged = missed = pooled = 0
    for seed in range(draws):
        source = np.random.default_rng(seed)

        def group(count: int, spread: float, source: np.random.Generator = source) -> list[float]:
            return np.exp(source.normal(0, spread, count)).tolist()

        above, below = [group(first_blocks, SPREAD)], [group(first_blocks, 2 * SPREAD)]
        found = first = ratio_in_stages(above, below)
        is_false = _pooled(above, below)
        if (p := first.p_of(1.0)) is not None and p >= 0.05:
            more = sizing(first)
            above.append(group(more, SPREAD))
            below.append(group(more, 2 * SPREAD))
            found = ratio_in_stages(above, below)
            is_false = is_false or _pooled(above, below)
        p = found.p_of(1.0)
        assert p is not None and found.low is not None and found.high is not None
        staged += p < 0.05
        missed += not found.low <= 1.0 <= found.high
        pooled += is_false
    return Refusals(staged, missed, pooled)


def _pooled(above: list[list[float]], below: list[list[float]]) -> bool:
    logs = [np.log(np.concatenate(side)) for side in (above, below)]
    return bool(ttest_ind(*logs, equal_var=False).pvalue < 0.05)


@pytest.mark.parametrize("sizing", [as_planned, while_it_is_near])
def test_true_value_is_rarely_refused_for_any_second_size(
    sizing: Sizing,
) -> None:
    refusals = simulated(sizing, DRAWS)
    for count in (refusals.staged, refusals.missed):
        assert binomtest(count, DRAWS, 0.05, alternative="greater").pvalue > 0.01, refusals
    naive = binomtest(refusals.pooled, DRAWS, 0.05, alternative="greater").pvalue
    assert naive < 0.01, "two tests of all figures as one group would be wrong too often"


def test_estimated_second_size_decides_in_four_of_five() -> None:
    """If the first stage is right, and a third as many blocks do not."""
    gap, blocks = math.log(1.2), 6
    source = np.random.default_rng(7)

    def exact() -> NDArray[np.float64]:
        values = source.normal(size=blocks)
        return SPREAD * (values - values.mean()) / values.std(ddof=1)

    above, below = np.exp(exact() + gap).tolist(), np.exp(exact()).tolist()
    first = ratio_in_stages([above], [below])
    assert first.value == pytest.approx(1.2) and (first.low or 2) < 1
    needed = math.ceil(blocks * first.further(gap))

    def decided(more: int, draws: int = 300) -> int:
        found = 0
        for _ in range(draws):
            second = [np.exp(source.normal(at, SPREAD, more)).tolist() for at in (gap, 0.0)]
            low = ratio_in_stages([above, second[0]], [below, second[1]]).low
            found += low is not None and low > 1
        return found

    assert 0.7 < decided(needed) / 300 < 0.95
    assert decided(needed // 3) / 300 < 0.7


def test_more_is_needed_for_less_and_beside_others() -> None:
    values = [1.0, 1.2, 0.9, 1.1, 1.3, 0.8]
    single = ratio_in_stages([values], [values])
    sizes = [single.further(gap) for gap in (0.2, 0.1, 0.05, 0.0)]
    assert sizes == sorted(sizes) and sizes[-1] == math.inf
    assert single.further(0.1, family=10) > single.further(0.1)
    both = ratio_in_stages([values, values], [values, values])
    assert both.further(0.05) > 1, "a new run of more blocks than both stages have"


def test_both_analyses_have_the_level_and_matching_p_values() -> None:
    assert RULE.level_at(FIRST) == pytest.approx(0.031, abs=5e-4)
    assert RULE.level_at(SECOND) == pytest.approx(0.0277, abs=5e-4)
    above, below = [1.0, 1.1, 0.9, 1.2], [0.8, 0.9, 0.7, 0.85]
    for stages in (1, 2):
        found = ratio_in_stages([above] * stages, [below] * stages)
        for end in (found.low, found.high):
            assert end is not None
            assert found.p_of(end) == pytest.approx(0.05, rel=0.01)


def test_early_analyses_of_a_first_stage_rarely_refuse_truth() -> None:
    """For an analysis after each block; at the level of the first planned analysis the errors would
    be far more frequent than that level."""
    planned, early, naive = 8, 0, 0
    for seed in range(DRAWS):
        source = np.random.default_rng(seed)
        above = np.exp(source.normal(0, SPREAD, planned)).tolist()
        below = np.exp(source.normal(0, 2 * SPREAD, planned)).tolist()
        looks = [([above[:count]], [below[:count]]) for count in range(2, planned)]
        ratios = [ratio_in_stages(*one, planned) for one in looks]
        early += any(one.p_of(1.0) < 0.05 for one in ratios)  # type: ignore[operator]
        whole = [ratio_in_stages(*one) for one in looks]
        naive += any(one.p_of(1.0) < 0.05 for one in whole)  # type: ignore[operator]
    assert binomtest(early, DRAWS, EARLY_LEVEL, alternative="greater").pvalue > 0.01, early
    assert binomtest(naive, DRAWS, 0.05, alternative="greater").pvalue < 0.01, naive


def test_early_analysis_proves_a_clear_lead_at_its_level() -> None:
    above, below = [3.0, 3.1, 2.9, 3.05], [1.0, 1.05, 0.97, 1.02]
    found, whole = ratio_in_stages([above], [below], 6), ratio_in_stages([above], [below])
    assert found.low is not None and found.high is not None and found.low > 2
    for end in (found.low, found.high):
        assert found.p_of(end) == pytest.approx(0.05, rel=1e-3)
    assert found.value == whole.value
    assert whole.low is not None and whole.high is not None
    assert found.low < whole.low < whole.high < found.high
    two = ratio_in_stages([[1.0, 9e6]], [[1.0, 9e6]], 90)
    assert two.low == 0 and two.high == math.inf, "no number is so large"


@pytest.mark.parametrize("family", [1, 4])
def test_p_value_is_the_level_of_significance(
    family: int,
) -> None:
    for level in (1e-4, 0.01, 0.05, 0.3):
        rule = StoppingRule((10, 20, 30), level=level, family=family)
        for look in rule.analyses:
            of_any = StoppingRule((10, 20, 30), family=family)
            assert of_any.overall(look, rule.level_at(look)) == pytest.approx(level, rel=0.01)
    assert StoppingRule((10, 20)).overall(20, 1.0) == 1.0


def test_lead_of_the_first_stage_stays_proven() -> None:
    clear = [[2.0, 2.02, 1.98, 2.01], [1.0, 1.4, 0.7, 1.2, 0.8]]
    other = [[1.0, 1.02, 0.98, 1.01], [1.0, 0.7, 1.3, 0.9, 1.1]]
    first, both = ratio_in_stages(clear[:1], other[:1]), ratio_in_stages(clear, other)
    assert first.low is not None and both.low is not None and both.value is not None
    assert first.low > 1 and both.low > 1
    p = both.p_of(1.0)
    assert p is not None and p < 0.05


@pytest.mark.parametrize(
    ("above", "below", "value"),
    [
        ([[2.0]], [[1.0]], 2.0),
        ([[0.0, 1.0]], [[1.0, 1.0]], 0.5),
        ([[]], [[1.0, 2.0]], None),
    ],
)
def test_without_a_spread_there_is_no_interval(
    above: list[list[float]], below: list[list[float]], value: float | None
) -> None:
    found = ratio_in_stages(above, below)
    assert found == StagedRatio(value)
    assert found.p_of(1.0) is None and found.further(1.0) == math.inf


def test_stage_without_one_side_does_not_count() -> None:
    whole, lacking = [1.0, 1.1, 0.9], [2.0]
    assert ratio_in_stages([whole, lacking], [whole]).stages == (
        ratio_in_stages([whole], [whole]).stages
    )
    assert len(ratio_in_stages([[1.0], whole], [[1.0], whole]).stages) == 1


def test_equal_readings_prove_no_certainty() -> None:
    found = ratio_in_stages([[1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0]])
    assert found.low is not None and found.high is not None
    assert 0.99 < found.low < 1 < found.high < 1.01
