"""Numbers, times and names as text for people.

Numbers have three significant digits and an SI prefix. Control characters of names that come from
elsewhere (campaigns, records, switches, remote hosts) become visible: an escape sequence could
change what a terminal shows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

# C0 except tab and newline, DEL, C1, and the characters that change the direction of writing.
CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
_CONTROL = re.compile(CONTROLS)
_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_DIGITS = 2  # significant digits of small values
_LARGEST_RATIO = 1e6  # bounds beyond it, or below its inverse, have no use
_MOST_RATIO_DIGITS = 6  # decimals of a ratio near 1


def encodable(text: str) -> str:
    """Return the text with escapes instead of characters that have no encoding.

    Names of files and strings in the JSON of other programs may contain such characters; records
    cannot."""
    return text.encode(errors="backslashreplace").decode()


def printable(text: str) -> str:
    """Return the text with escapes (`\\x1b`) for control characters except tab and newline."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def first_of(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first texts, and how many others there are: `a, b, c and 4 more`."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def format_duration(time_s: float) -> str:
    """Return a duration for people: `45 s`, `3 min 20 s`, `2 h 5 min`."""
    total = round(time_s)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60} s" if total % 60 else f"{total // 60} min"
    minutes = round(time_s / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def number(value: float) -> str:
    """Return three significant digits without an exponent: 0.0123, 1.23, 12.3, 1230."""
    if value == 0:
        return "0"
    for limit, digits in ((100, 0), (10, 1), (1, 2), (0.1, 3), (0.01, 4)):
        if abs(value) >= limit * 0.9995:
            return f"{value:.{digits}f}"
    return fixed(value)


def with_prefix(value: float, unit: str) -> str:
    """Return a value with a suitable SI prefix: `3.52 Mpps`."""
    scale, prefixed = scale_of(value, unit)
    return f"{number(value / scale)} {prefixed}"


def scale_of(value: float, unit: str) -> tuple[float, str]:
    """Return the scale that suits a value, and the unit with its prefix: `(1e6, "Mpps")`."""
    scale, prefix = next(
        (limit, name) for limit, name in _SCALES if abs(value) >= limit * 0.9995 or limit == 1.0
    )
    return scale, f"{prefix}{unit}"


def format_ns(value: float) -> str:
    """Return a time in a suitable unit: `850 ns`, `12.3 µs`, `4.56 ms`."""
    if value < 1e3:
        return f"{number(value)} ns"
    return f"{number(value / 1e3)} µs" if value < 1e6 else f"{number(value / 1e6)} ms"


def fixed(value: float, digits: int = _DIGITS) -> str:
    """Return a value without an exponent, with this number of significant digits: `0.0000425`."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    value = float(f"{value:.{digits - 1}e}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}"


def ratios(*values: float) -> list[str]:
    """Return a ratio and its bounds with the same number of decimals: `1.19`, `1.00`, `1.40`.

    The first value has three digits. All have more decimals if a value beside 1 would be shown as
    1, because the reader must see on which side of 1 a bound is."""
    digits = next((d for limit, d in ((99.95, 0), (9.995, 1)) if values[0] >= limit), 2)
    finite = [value for value in values if math.isfinite(value)]
    while digits < _MOST_RATIO_DIGITS and any(_hides(value, digits) for value in finite):
        digits += 1
    return [f"{value:.{digits}f}" for value in values]


def _hides(value: float, digits: int) -> bool:
    """Return True if so few decimals show a ratio as 1, or with fewer than two digits."""
    is_short = 0 < value < 0.9995 * 10 ** (1 - digits)
    return is_short or (value != 1 and float(f"{value:.{digits}f}") == 1)


def ratio(value: float) -> str:
    """Return a ratio for a table: `0.981`; below 0.1 with three significant digits, `0.00420`. From
    1,000 on only the order of magnitude is meaningful."""
    if value > _LARGEST_RATIO:
        return f">{_LARGEST_RATIO:.0e}"
    if 0 < value < 1 / _LARGEST_RATIO:
        return f"<{1 / _LARGEST_RATIO:.0e}"
    if value >= 1000:
        return f"{value:.0e}"
    return fixed(value, 3) if 0 < value < 0.1 else f"{value:.3f}"


def percent(ratio: float) -> str:
    """Return a share as a percentage: `0 %`, `0.0042 %`, `3.18 %`, `45 %`."""
    if ratio == 0:
        return "0 %"
    if abs(ratio) < 0.0001:
        return f"{fixed(ratio * 100)} %"
    return f"{ratio * 100:.2f} %" if abs(ratio) < 0.1 else f"{ratio * 100:.0f} %"


def whole_percent(ratio: float, places: int = 0) -> str:
    """Return a share in percent with this number of decimal places: `5%`, `0%`.

    A share that is too small for them keeps two significant digits: `0.012%`."""
    if ratio == 0 or abs(ratio) >= 0.5 * 10 ** -(places + 2):
        return f"{ratio:.{places}%}"
    return f"{fixed(ratio * 100)}%"


def amount(value: float, unit: str) -> str:
    """Return a value with its unit: `1.23 Mpps`, `7.2 µs`, `12 %`."""
    match unit:
        case "ns":
            return format_ns(value)
        case "s":
            return format_ns(value * 1e9) if value < 1 else f"{number(value)} s"
        case "ratio":
            return percent(value)
        case "pps" | "bit/s":
            return with_prefix(value, unit)
        case "requests/s" | "changes/s":
            return f"{number(value)} {unit}"
        case _:
            return number(value)
