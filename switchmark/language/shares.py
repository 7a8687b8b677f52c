"""How shares are shown: rare events keep their digits, and a tiny share is never shown as zero."""

from __future__ import annotations

import math

_DIGITS = 2  # significant ones of small values


def fixed(value: float, digits: int = _DIGITS) -> str:
    """Return a value with so many significant digits and without an exponent: `0.0000425`."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    value = float(f"{value:.{digits - 1}e}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}"


def percent(ratio: float) -> str:
    """Return a share as a percentage: `0 %`, `0.0042 %`, `3.18 %`, `45 %`."""
    if ratio == 0:
        return "0 %"
    if abs(ratio) < 0.0001:
        return f"{fixed(ratio * 100)} %"
    return f"{ratio * 100:.2f} %" if abs(ratio) < 0.1 else f"{ratio * 100:.0f} %"


def whole_percent(ratio: float, places: int = 0) -> str:
    """Return a share in percent with so many places; one too small for them keeps its digits:
    `5%`, `0%`, `0.012%`."""
    if ratio == 0 or abs(ratio) >= 0.5 * 10 ** -(places + 2):
        return f"{ratio:.{places}%}"
    return f"{fixed(ratio * 100)}%"
