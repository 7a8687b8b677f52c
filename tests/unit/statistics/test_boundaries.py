"""Levels of planned interim analyses against published boundaries, and their effect by
simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from switchmark.statistics.boundaries import StoppingRule, planned_analyses, spent


def test_published_boundaries() -> None:
    """Five equal analyses at 0.05: C. Jennison, B. Turnbull, 2000, chapter 7."""
    rule = StoppingRule((10, 20, 30, 40, 50))
    found = [-ndtri(rule.level_at(count) / 2) for count in rule.analyses]
    assert found == pytest.approx((2.438, 2.427, 2.410, 2.397, 2.386), abs=2e-3)


def test_one_analysis_is_an_ordinary_test() -> None:
    assert StoppingRule((30,)).level_at(30) == pytest.approx(0.05, abs=1e-9)
    assert StoppingRule((30,), family=5).level_at(30) == pytest.approx(0.01, abs=1e-9)


def test_whole_level_is_spent_for_any_analyses() -> None:
    rule = StoppingRule(planned_analyses(60))
    walk = np.random.default_rng(4).normal(size=(40_000, 60)).cumsum(axis=1)
    crossed = np.zeros(len(walk), bool)
    for count in rule.analyses:
        z = np.abs(walk[:, count - 1]) / np.sqrt(count)
        crossed |= z > -ndtri(rule.level_at(count) / 2)
    assert crossed.mean() == pytest.approx(0.05, abs=0.004)


@pytest.mark.parametrize("expected", [5, 19, 59])
def test_most_of_the_level_is_spent_by_the_expected_blocks(expected: int) -> None:
    rule = StoppingRule(planned_analyses(60), expected=expected)
    walk = np.random.default_rng(5).normal(size=(40_000, 60)).cumsum(axis=1)
    crossed, by_then = np.zeros(len(walk), bool), 0.0
    for count in rule.analyses:
        z = np.abs(walk[:, count - 1]) / np.sqrt(count)
        crossed |= z > -ndtri(rule.level_at(count) / 2)
        by_then = float(crossed.mean()) if count <= expected else by_then
    assert crossed.mean() == pytest.approx(0.05, abs=0.004)
    assert by_then <= 0.04 + 0.004
    last = StoppingRule(planned_analyses(60)).level_at(8)
    assert rule.level_at(8) > last or expected == 59


def test_early_end_spends_the_rest_at_the_last_analysis() -> None:
    rule = StoppingRule((10, 20, 30, 40))
    assert rule.level_at(20) < rule.level_at(20, is_last=True)
    assert rule.level_at(13, is_last=True) > rule.level_at(20)
    with pytest.raises(ValueError, match="no interim analysis is planned after 13"):
        rule.level_at(13)


@given(st.integers(2, 2000), st.integers(2, 30))
@settings(max_examples=60, deadline=None)
def test_analyses_rise_to_the_last(most: int, first: int) -> None:
    analyses = planned_analyses(most, first)
    assert analyses[-1] == most
    assert list(analyses) == sorted(set(analyses))
    assert StoppingRule(analyses).next_analysis(most) is None
    assert StoppingRule(analyses).next_analysis(1) == analyses[0]


@given(st.floats(0.001, 0.2))
def test_spending_rises_from_zero_to_the_level(level: float) -> None:
    shares = [spent(fraction, level) for fraction in (0.01, 0.3, 0.7, 1.0)]
    assert shares == sorted(shares)
    assert shares[0] < level / 10
    assert shares[-1] == pytest.approx(level)


@pytest.mark.parametrize("analyses", [(), (1, 5), (5, 5), (9, 6)])
def test_invalid_analyses_are_refused(analyses: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="rising counts"):
        StoppingRule(analyses)
