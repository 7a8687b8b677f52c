"""Means with confidence intervals, and the test that decides whether two means differ.

Interval: Student's t, two-sided, 95 %, over repetitions. Difference: Welch's t-test (B. L.
Welch, Biometrika 34, 1947), Holm's step-down correction (S. Holm, 1979) over the
comparisons made at one point. Both take each repetition's mean as one observation.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

CONFIDENCE = 0.95
ALPHA = 0.05
RESOLUTION = 0.001  # of a figure: histograms keep three significant digits
METHOD = (
    "Mean over repetitions with its 95 % Student-t confidence interval (two or more "
    "repetitions). Two switches are called different only when Welch's two-sided t-test, with "
    "Holm's correction over the comparisons at that point, gives p below 0.05 and they are more "
    "than 0.2 % apart (the resolution of the histograms)."
)


def of_all(parts: Iterable[tuple[int, float, float]]) -> tuple[float, float]:
    """Mean and standard deviation of all samples, from (count, mean, standard deviation) of parts.

    Exact, where a merged histogram knows no value better than its slot: of a constant delay of
    20 ms it would tell a spread of some microseconds. Raises ValueError without a sample."""
    held = [part for part in parts if part[0]]
    total = sum(count for count, _, _ in held)
    if not total:
        raise ValueError("no samples to draw together")
    mean = math.fsum(count * each for count, each, _ in held) / total
    squares = math.fsum(count * (spread**2 + (each - mean) ** 2) for count, each, spread in held)
    return mean, math.sqrt(squares / total)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean of one figure over the repetitions of a trial, in that figure's unit."""

    mean: float
    median: float
    count: int
    stdev: float | None = None  # sample standard deviation; None below two repetitions
    low: float | None = None  # 95 % confidence interval of the mean
    high: float | None = None

    @property
    def note(self) -> str:
        """Why there is no interval; empty when there is one."""
        return "" if self.low is not None else "one repetition, so no confidence interval"


@dataclass(frozen=True, slots=True)
class Difference:
    """The verdict on whether two means differ."""

    ratio: float  # larger mean over smaller mean
    p: float | None  # Holm-adjusted; None when it cannot be tested
    significant: bool
    note: str


def estimate(values: Sequence[float]) -> Estimate:
    """Mean, median and, from two values on, the t confidence interval of the mean."""
    if not values:
        raise ValueError("no values to estimate from")
    mean = math.fsum(values) / len(values)
    median = statistics.median(values)
    if len(values) < 2:
        return Estimate(mean, median, len(values))
    stdev = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    half = t_quantile((1 + CONFIDENCE) / 2, len(values) - 1) * stdev / math.sqrt(len(values))
    return Estimate(mean, median, len(values), stdev, mean - half, mean + half)


def welch_p(a: Estimate, b: Estimate) -> float | None:
    """Two-sided p that both means are equal; None below two repetitions on either side.

    The spread is never taken as smaller than that of rounding to the resolution: equal
    readings of a coarse instrument do not prove a certain value.
    """
    if a.stdev is None or b.stdev is None:
        return None
    variance_a = max(a.stdev, RESOLUTION * abs(a.mean) / math.sqrt(12)) ** 2 / a.count
    variance_b = max(b.stdev, RESOLUTION * abs(b.mean) / math.sqrt(12)) ** 2 / b.count
    spread = variance_a + variance_b
    if spread == 0:  # both means are zero
        return 1.0
    degrees = spread**2 / (variance_a**2 / (a.count - 1) + variance_b**2 / (b.count - 1))
    return t_two_sided_p((a.mean - b.mean) / math.sqrt(spread), degrees)


def compare_with_best(best: Estimate, others: Sequence[Estimate]) -> list[Difference]:
    """Test the best mean against each other one, correcting for the number of tests (Holm)."""
    raw = [welch_p(best, other) for other in others]
    adjusted = _holm(raw)
    differences = []
    for other, p in zip(others, adjusted, strict=True):
        larger, smaller = max(best.mean, other.mean), min(best.mean, other.mean)
        ratio = larger / smaller if smaller > 0 else math.inf
        if p is None:
            note = "not testable: needs two or more repetitions on both sides"
        elif ratio < 1 + 2 * RESOLUTION:
            note = "not significant: within the resolution of 0.2 %"
        else:
            note = f"{'' if p < ALPHA else 'not '}significant, p {_p_text(p)}"
        significant = p is not None and p < ALPHA and ratio >= 1 + 2 * RESOLUTION
        differences.append(Difference(ratio, p, significant, note))
    return differences


def t_two_sided_p(t: float, degrees: float) -> float:
    """P(|T| >= |t|) for Student's t with `degrees` of freedom (need not be whole)."""
    return _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))


@lru_cache(maxsize=1024)
def t_quantile(probability: float, degrees: float) -> float:
    """The t below which `probability` (0.5 to 1) of Student's distribution lies."""
    if not 0.5 <= probability < 1:
        raise ValueError(f"probability {probability} is not in [0.5, 1)")
    low, high = 0.0, 1.0
    target = 2 * (1 - probability)
    while t_two_sided_p(high, degrees) > target:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if t_two_sided_p(middle, degrees) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _holm(raw: Sequence[float | None]) -> list[float | None]:
    tested = sorted((p, index) for index, p in enumerate(raw) if p is not None)
    adjusted: list[float | None] = [None] * len(raw)
    floor = 0.0
    for rank, (p, index) in enumerate(tested):
        floor = max(floor, min(1.0, p * (len(tested) - rank)))
        adjusted[index] = floor
    return adjusted


def _p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast only below this
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front + a * math.log(x) + b * math.log1p(-x)) / a
    return front / _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)), evaluated from the front by the modified Lentz method."""
    tiny = 1e-300
    value, c, d = 1.0, 1.0, 0.0
    for step in range(1, 10_000):
        m = step // 2
        if step % 2 == 0:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1.0 / ((1.0 + term * d) or tiny)
        c = (1.0 + term / c) or tiny
        value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            return value
    raise ArithmeticError(f"incomplete beta did not converge for a={a}, b={b}, x={x}")
