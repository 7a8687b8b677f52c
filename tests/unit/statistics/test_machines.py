"""Ratios over machines: exact properties, and coverage of intervals with a known true value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit
from scipy.stats import binomtest

from switchmark.statistics.machines import (
    between,
    mean_of,
    over_machines,
    prediction,
    q_profile,
)
from switchmark.statistics.paired import LogRatio, PairedRatio, ratio_of

MEAN = math.log(1.1)
logs = st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=8)


def ratio(log: float, error: float = 0.01, degrees: float = 12) -> PairedRatio:
    value = math.exp(log)
    return PairedRatio(value, value / (1 + error), value * (1 + error), 15, error, degrees)


def drawn(generator: np.random.Generator, machines: int, tau: float, pairs: int) -> list[float]:
    return list(MEAN + tau * generator.normal(size=machines))


def measured(generator: np.random.Generator, truths: list[float], pairs: int) -> list[PairedRatio]:
    """Return each machine's ratio in a campaign: pairs with a deviation of 6 %."""
    found = []
    for truth in truths:
        values = truth + 0.06 * generator.normal(size=pairs)
        machine_ratio = ratio_of([LogRatio(place, value) for place, value in enumerate(values)])
        assert machine_ratio is not None
        found.append(machine_ratio)
    return found


def test_one_machine_gives_no_mean_and_two_give_no_spread() -> None:
    assert over_machines([ratio(0.1)]) is None
    two = over_machines([ratio(0.1), ratio(0.11)])
    assert two is not None
    assert two.spread is two.predicted_low is two.predicted_high is None
    assert two.low < math.exp(0.105) < two.high
    assert two.high / two.low > 1.15, "Student's t with one degree of freedom"


@given(logs)
@settings(deadline=None)
def test_inverse_ratios_give_inverse_results(values: list[float]) -> None:
    forth = over_machines([ratio(value) for value in values])
    back = over_machines([ratio(-value) for value in values])
    assert forth is not None and back is not None
    assert forth.spread is not None and back.spread is not None
    assert forth.predicted_low is not None and back.predicted_high is not None
    assert back.value == pytest.approx(1 / forth.value)
    assert (back.low, back.high) == pytest.approx((1 / forth.high, 1 / forth.low))
    assert back.predicted_high == pytest.approx(1 / forth.predicted_low, rel=1e-6)
    assert back.spread.factor == pytest.approx(forth.spread.factor, rel=1e-6)


@given(logs)
@settings(deadline=None)
def test_mean_lies_among_ratios_and_prediction_around_it(
    values: list[float],
) -> None:
    found = over_machines([ratio(value) for value in values])
    assert found is not None and found.spread is not None
    assert found.predicted_low is not None and found.predicted_high is not None
    assert math.exp(min(values)) * 0.999 < found.value < math.exp(max(values)) * 1.001
    assert found.predicted_low <= found.low < found.value < found.high <= found.predicted_high
    assert 1 <= found.spread.low <= found.spread.factor * (1 + 1e-9)
    assert found.spread.factor <= found.spread.high * (1 + 1e-9)


def test_interval_without_errors_within_machines_is_students_t() -> None:
    values = np.asarray([0.02, 0.1, 0.13, 0.3])
    tiny = np.full(4, 1e-12)
    spread = float(np.std(values, ddof=1))
    tau = math.sqrt(between(values, tiny))
    assert tau == pytest.approx(spread, rel=1e-4)
    mean, error = mean_of(values, tiny, tau**2)
    assert (mean, error) == pytest.approx((np.mean(values), spread / 2), rel=1e-4)
    exact = float(stdtrit(3, 0.975)) * spread * math.sqrt(1 + 1 / 4)
    assert prediction(values, tiny, 0.05) == pytest.approx(exact, rel=0.01)


def test_machines_that_agree_within_errors_have_no_spread() -> None:
    found = over_machines([ratio(0.1 + shift, 0.02) for shift in (-0.001, 0, 0.001, 0.002)])
    assert found is not None and found.spread is not None
    assert found.spread.factor == found.spread.low == 1
    assert found.spread.high < 1.05
    assert q_profile(np.asarray([0.1, 0.1]), np.asarray([1e-4, 1e-4]), 0.05)[0] == 0


def test_uncertain_ratio_weighs_less() -> None:
    sure = [ratio(0.1), ratio(0.1), ratio(0.1)]
    many, few = (over_machines([*sure, ratio(0.2, 0.02, degrees)]) for degrees in (30.0, 2.4))
    assert many is not None and few is not None
    assert abs(math.log(few.value) - 0.1) < abs(math.log(many.value) - 0.1)


@pytest.mark.parametrize("tau", [0.0, 0.02, 0.15])
@pytest.mark.parametrize(("machines", "pairs"), [(3, 12), (5, 8), (8, 30)])
def test_intervals_cover_a_known_true_value(machines: int, pairs: int, tau: float) -> None:
    """95 % for the mean and for the deviation (more if machines do not differ); for a further
    machine at least 93 %, and 90 % if tau is as small as the errors."""
    runs = 150
    generator = np.random.default_rng([machines, pairs, round(1000 * tau)])
    mean_missed = spread_missed = next_missed = 0
    for _ in range(runs):
        truths = drawn(generator, machines, tau, pairs)
        found = over_machines(measured(generator, truths, pairs))
        assert found is not None and found.spread is not None
        assert found.predicted_low is not None and found.predicted_high is not None
        mean_missed += found.excludes(math.exp(MEAN))
        low, high = math.log(found.spread.low), math.log(found.spread.high)
        spread_missed += not low <= tau <= high * (1 + 1e-9)
        further = math.exp(MEAN + tau * generator.normal())
        next_missed += not found.predicted_low <= further <= found.predicted_high

    def holds(missed: int, level: float) -> bool:
        return bool(binomtest(missed, runs, level, alternative="greater").pvalue > 0.001)

    assert holds(mean_missed, 0.06)
    assert holds(spread_missed, 0.06)
    assert holds(next_missed, 0.07 if tau != 0.02 else 0.1)


def test_prediction_by_the_likeliest_deviation_is_too_narrow() -> None:
    """Higgins' interval with k - 1 degrees of freedom, against which the better one was chosen."""
    generator = np.random.default_rng(3)
    missed = better = 0
    error, machines = 0.02, 8
    for _ in range(300):
        values = MEAN + math.hypot(error, error) * generator.normal(size=machines)
        variances = np.full(machines, error**2)
        tau_2 = between(values, variances)
        mean, of_mean = mean_of(values, variances, tau_2)
        off = abs(MEAN + error * generator.normal() - mean)
        missed += off > float(stdtrit(machines - 1, 0.975)) * math.sqrt(tau_2 + of_mean**2)
        better += off > prediction(values, variances, 0.05)
    assert missed > 2 * 0.05 * 300 > better
