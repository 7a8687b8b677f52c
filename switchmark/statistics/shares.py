"""The exact confidence interval of a share (C. Clopper, E. Pearson, Biometrika 26, 1934)."""

from __future__ import annotations

from switchmark.statistics.means import LEVEL


def share_interval(count: float, total: float, level: float = LEVEL) -> tuple[float, float]:
    """The bounds of the true share, except with the chance `level`, when `count` of `total` were
    seen.

    (By scipy.special: scipy.stats takes half a second to load.)"""
    from scipy.special import betaincinv

    low = float(betaincinv(count, total - count + 1, level / 2)) if count else 0.0
    high = float(betaincinv(count + 1, total - count, 1 - level / 2)) if count < total else 1.0
    return low, high
