"""Robust fits: levels are right for few observations, and a few wrong observations do not move the
coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import stdtrit
from scipy.stats import binomtest

from switchmark.statistics.robust import robust_fit


def wrong_share(draws: list[tuple[float, float, float]], level: float) -> int:
    return sum(
        abs(value) > stdtrit(degrees, 1 - level / 2) * error for value, error, degrees in draws
    )


@pytest.mark.parametrize("count", [5, 8, 12, 30])
def test_levels_hold_for_few_normal_values(count: int) -> None:
    generator = np.random.default_rng(5)
    fits = []
    for row in generator.normal(size=(3_000, count)):
        fit = robust_fit(np.ones((count, 1)), row)
        assert fit is not None
        fits.append((*fit.of(np.ones(1)), fit.degrees))
    for level in (0.05, 0.005):
        wrong = wrong_share(fits, level)
        assert binomtest(wrong, len(fits), level, alternative="greater").pvalue > 0.01, level
        assert wrong > 0.2 * level * len(fits), level


@pytest.mark.parametrize("count", [8, 12, 30])
@pytest.mark.parametrize("columns", [2, 3])
def test_levels_hold_with_covariates(count: int, columns: int) -> None:
    """Covariates as for states: none, half or all of a trial."""
    generator = np.random.default_rng(6)
    fits: list[Any] = []
    while len(fits) < 1_500:
        far = generator.choice([0.0, 0.0, 0.5, 1.0, 1.0], (2, count))
        design = np.column_stack([np.ones(count), far[0] - far[1], far.mean(axis=0) - 0.5])
        fit = robust_fit(design[:, :columns], generator.normal(size=count))
        if fit is not None:
            fits.append((*fit.of(np.eye(columns)[0]), fit.degrees))
    for level in (0.05, 0.01):
        wrong = wrong_share(fits, level)
        assert binomtest(wrong, len(fits), level, alternative="greater").pvalue > 0.01, wrong


def test_estimate_without_outliers_is_the_mean() -> None:
    values = 50 + np.asarray([-1.0, -0.9, -0.8, 0.1, 0.8, 0.9, 1.0])
    fit = robust_fit(np.ones((7, 1)), values)
    assert fit is not None
    assert fit.coefficients[0] == pytest.approx(values.mean())
    assert fit.of(np.ones(1))[1] == pytest.approx(values.std(ddof=1) / np.sqrt(7), rel=0.05)


def test_one_observation_in_ten_may_be_anything() -> None:
    generator = np.random.default_rng(2)
    covariate = generator.choice([-1.0, 0.0, 1.0], 60)
    values = 0.2 + 0.7 * covariate + generator.normal(0, 0.02, 60)
    values[::10] += generator.choice([-1, 1], 6) * 5.0
    fit = robust_fit(np.column_stack([np.ones(60), covariate]), values)
    assert fit is not None
    assert fit.coefficients == pytest.approx([0.2, 0.7], abs=0.02)


def test_undetermined_coefficient_is_not_estimated() -> None:
    alike = np.column_stack([np.ones(10), np.ones(10)])
    assert robust_fit(alike, np.arange(10.0)) is None
    assert robust_fit(np.ones((1, 1)), np.ones(1)) is None
