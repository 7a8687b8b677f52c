"""Changes of level: their places, the rate of false changes, and their descriptions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binomtest

from switchmark.statistics.change_points import MIN_STRETCH, find_cuts
from switchmark.statistics.series import find_changes


def energy(values: list[float], cut: int) -> float:
    """Return the statistic by its definition, pair by pair."""
    left, right = values[:cut], values[cut:]

    def mean(pairs: list[tuple[float, float]]) -> float:
        return sum(abs(a - b) for a, b in pairs) / len(pairs)

    across = mean(list(itertools.product(left, right)))
    within = [mean(list(itertools.combinations(side, 2))) for side in (left, right)]
    return len(left) * len(right) / len(values) * (2 * across - sum(within))


def test_best_cut_is_that_of_the_energy_statistic() -> None:
    generator = np.random.default_rng(1)
    for _ in range(20):
        values = [*generator.normal(0, 0.02, 9), *generator.normal(0.2, 0.02, 7)]
        (found,) = find_cuts(values)
        places = range(MIN_STRETCH, len(values) - MIN_STRETCH + 1)
        assert found.index == max(places, key=lambda cut: energy(values, cut)) == 9


def test_false_changes_are_rare() -> None:
    """In one series of a hundred, whatever the shape of the spread."""
    generator = np.random.default_rng(2)
    series = [*generator.normal(size=(120, 20)), *generator.standard_t(2, size=(80, 20))]
    wrong = sum(bool(find_cuts(list(one))) for one in series)
    assert binomtest(wrong, len(series), 0.01, alternative="greater").pvalue > 0.001


def test_three_levels_are_separated_and_an_outlier_is_ignored() -> None:
    generator = np.random.default_rng(3)
    levels = np.repeat([0.0, -0.12, 0.05], [15, 12, 10])
    found = find_cuts(list(levels + generator.normal(0, 0.02, levels.size)))
    assert [cut.index for cut in found] == [15, 27]
    flat = generator.normal(0, 0.02, 30)
    flat[12] -= 0.5
    assert find_cuts(list(flat)) == []


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 3, [1.0] * 30])
def test_short_or_constant_series_has_no_change(values: list[float]) -> None:
    assert find_cuts(values) == []


def test_same_series_has_the_same_changes() -> None:
    values = list(np.random.default_rng(4).normal(size=40))
    assert find_cuts(values) == find_cuts(values)


def test_intervals_cover_the_ratios_of_changes() -> None:
    """12 % less, for runs that deviate by 2 %."""
    generator = np.random.default_rng(5)
    covered = found = 0
    for _ in range(60):
        levels = np.exp(np.repeat([0.0, math.log(0.88)], 12) + generator.normal(0, 0.02, 24))
        for change in find_changes([[float(one)] for one in levels]):
            if change.index == 12:
                assert change.low is not None and change.high is not None
                found += 1
                covered += change.low <= 0.88 <= change.high
    assert found >= 55
    assert binomtest(covered, found, 0.95, alternative="less").pvalue > 0.001
