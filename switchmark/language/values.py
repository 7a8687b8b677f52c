"""The values of the campaign language: numbers with suffixes, lists, ranges, seconds.

These functions read the text that the user wrote, without conversions by a YAML reader, so `010`,
`on` or `1e6` keep their meaning. A bad value raises `BadValueError`; the caller adds the place to
its message. The engine reads numbers, times, shares, rates, sizes, flows and schedules by the same
grammar; tests/grammar.txt checks both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar, cast

T = TypeVar("T")

NS_PER_S = 1_000_000_000
MAX_VALUES = 100_000  # largest number of values of one key; more are probably a typing error
_NO_SUFFIX = {"": 1}
_SUFFIXES = {"": 1, "k": 1_000, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_SECONDS: dict[str, int | str] = {
    "": 1, "ns": "1e-9", "us": "1e-6", "ms": "1e-3", "s": 1, "m": 60, "min": 60, "h": 3600,
}  # fmt: skip
_NUMBER = re.compile(r"(?P<sign>-?)(?P<digits>\d+(?:\.\d+)?)\s*(?P<suffix>[A-Za-z]*)", re.ASCII)
_RANGE = re.compile(r"(?P<low>.*?)\.\.(?P<high>.*?)(?:\s+step\b\s*(?P<step>.*))?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_COMMA_IN_NUMBER = re.compile(r"(?<![\w.])(?P<whole>\d+),(?P<rest>\d+\s*[A-Za-z%]*)", re.ASCII)


class BadValueError(ValueError):
    """A wrong value; each message names the value and the remedy."""

    @property
    def messages(self) -> tuple[str, ...]:
        """One line for each problem."""
        return self.args

    def __str__(self) -> str:
        return "; ".join(self.args)


@dataclass(frozen=True, slots=True)
class Limits:
    """The least and the greatest number of a key, and the messages for numbers outside."""

    low: int
    high: int
    below: str  # follows "40 is ", e.g. "below the smallest Ethernet frame (64 with FCS)"
    above: str
    suffixes: bool = False  # True: 10k and 1M are permitted


def shorten(text: str) -> str:
    """Return the text for an error message: one line of limited length."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:57] + "..."


def _decimal(text: str, units: Mapping[str, int | str], unit_help: str) -> Decimal:
    match = _NUMBER.fullmatch(text)
    if match is None or len(text) > 40:
        raise BadValueError(f"'{shorten(text)}' is not a number; write {unit_help}")
    digits, suffix = match["digits"], match["suffix"]
    if len(digits) > 1 and digits[0] == "0" and digits[1] != ".":
        plain = digits.lstrip("0") or "0"
        raise BadValueError(
            f"'{text}' has a leading zero, which some readers take for octal; write {plain}{suffix}"
        )
    if suffix not in units:
        raise BadValueError(f"'{text}' has the unknown suffix '{suffix}'; write {unit_help}")
    number = Decimal(digits) * Decimal(units[suffix])
    return -number if match["sign"] == "-" else number


def whole(text: str, limits: Limits) -> int:
    """Read a whole number within its limits. With suffixes, `1.5M` is also a whole number."""
    unit_help = "a whole number"
    if limits.suffixes:
        unit_help += ", or one with a suffix: 10k, 1.5M, 1G"
    number = _decimal(text, _SUFFIXES if limits.suffixes else _NO_SUFFIX, unit_help)
    if number != number.to_integral_value():
        raise BadValueError(f"'{text}' is not a whole number; write {unit_help}")
    if number < limits.low:
        raise BadValueError(f"{text} is {limits.below}; use {limits.low} or more")
    if number > limits.high:
        raise BadValueError(f"{text} is {limits.above}; use {limits.high} or less")
    return int(number)


def number(text: str) -> Decimal:
    """Read a number of at least 0 with its decimals and an optional suffix: `50.99`, `14.84M`."""
    found = _decimal(text, _SUFFIXES, "a number such as 50.99, 338k or 14.84M")
    if found < 0:
        raise BadValueError(f"{text} is below 0; write a figure as it was published")
    return found


def seconds(text: str, low_s: float, high_s: float) -> float:
    """Read a time in seconds: `5s`, `500ms`, `2m`, `1h`; a bare number is seconds."""
    number = _decimal(text, _SECONDS, "a time such as 5s, 500ms or 2m")
    if number * NS_PER_S != (number * NS_PER_S).to_integral_value():
        raise BadValueError(f"{text} is finer than a nanosecond; write fewer digits")
    if number < Decimal(repr(low_s)):
        raise BadValueError(
            f"{text} is below the least time here; use {format_seconds(low_s)} or more"
        )
    if number > Decimal(repr(high_s)):
        raise BadValueError(
            f"{text} is above the longest time here; use {format_seconds(high_s)} or less"
        )
    return float(number)


def share(text: str) -> float:
    """Read a share from 0 to 1: `0.95` or `95%`."""
    percent = text.endswith("%")
    number = _decimal(text.removesuffix("%").strip(), _NO_SUFFIX, "a share such as 95% or 0.95")
    number = number / 100 if percent else number
    if not 0 <= number <= 1:
        raise BadValueError(f"{text} is not a share; use 0% to 100%, or 0 to 1")
    return float(number)


def part(text: str) -> float:
    """Read a share above 0 and below 1: `2%` or `0.02`."""
    number = share(text)
    if not 0 < number < 1:
        raise BadValueError(f"{text} must be above 0 % and below 100 %; use e.g. 2%")
    return number


def boolean(text: str) -> bool:
    """Read `true` or `false` (also yes/no and on/off)."""
    word = text.lower()
    if word in {"true", "yes", "on"}:
        return True
    if word in {"false", "no", "off"}:
        return False
    raise BadValueError(f"'{shorten(text)}' is neither true nor false; write true or false")


def name(text: str) -> str:
    """Read a name that is valid in a notation, a file name and a table."""
    if _NAME.fullmatch(text) is None or len(text) > 100:
        raise BadValueError(
            f"'{shorten(text)}' is not a name; use ASCII letters, digits, '.', '_', '+' and '-'"
        )
    return text


def choice(text: str, known: Iterable[str] | None, noun: str) -> str:
    """Read one of the known names. The error for an unknown name suggests the nearest known name.

    With `known=None`, any well-formed name is valid."""
    if known is None:
        return name(text)
    names = list(known)
    if text in names:
        return text
    raise BadValueError(unknown(text, names, noun))


def unknown(text: str, known: Iterable[str], noun: str) -> str:
    """Return the message about an unknown name, with the nearest known name or all known names."""
    names = list(known)
    message = f"unknown {noun} '{shorten(text)}'"
    if not names:
        return f"{message}; no {noun} is installed"
    near = nearest(text, names)
    return f"{message}; did you mean {near}?" if near else f"{message}; known: {', '.join(names)}"


def nearest(text: str, names: Iterable[str]) -> str | None:
    """Return the known name that is most similar to the text; None if no name is similar."""
    from rapidfuzz import fuzz, process, utils
    from rapidfuzz.distance import OSA

    found = process.extractOne(
        text,
        list(names),
        scorer=OSA.normalized_similarity,
        processor=utils.default_process,
        score_cutoff=0.5,
    )
    if found is None and len(text) >= 3:  # not a typing error; perhaps a part of a name
        longer = [name for name in names if len(name) >= 3]
        found = process.extractOne(
            text, longer, scorer=fuzz.WRatio, processor=utils.default_process, score_cutoff=80
        )
    return None if found is None else str(found[0])


def many(text: str, read: Callable[[str], T], *, ranges: bool) -> list[T]:
    """Read a value, a list `32, 128`, a range `64..512 step 64`, or a mix of them. Return each
    value once.

    Braces or brackets around the whole text are permitted. Without them, a comma between two
    digits is refused, because it can be a decimal comma. `read` reads a single value. Raise
    `BadValueError` with a message for each bad item."""
    body = text.strip()
    if len(body) >= 2 and (body[0], body[-1]) in {("{", "}"), ("[", "]")}:
        body = body[1:-1].strip()
    else:
        _refuse_decimal_comma(body)
    found: dict[T, None] = {}
    wrong: dict[str, None] = {}
    for raw in body.split(","):
        try:
            found.update(dict.fromkeys(_item(raw.strip(), text, read, ranges=ranges)))
        except BadValueError as error:
            wrong.update(dict.fromkeys(error.messages))
        if len(found) > MAX_VALUES:
            wrong[f"'{shorten(text)}' gives more than {MAX_VALUES:,} values; use fewer"] = None
            break
    if wrong:
        raise BadValueError(*wrong)
    return list(found)


def _refuse_decimal_comma(text: str) -> None:
    """Raise `BadValueError` for `1,5M`, which can mean 1.5M, or the values 1 and 5M."""
    pair = _COMMA_IN_NUMBER.search(text)
    if pair is not None:
        first, second = pair["whole"], pair["rest"]
        raise BadValueError(
            f"'{shorten(text)}' has a comma between two digits; write {first}.{second} for one "
            f"number, or {first}, {second} with a space for two values"
        )


def _item(item: str, text: str, read: Callable[[str], T], *, ranges: bool) -> list[T]:
    if not item:
        if not text.strip():
            raise BadValueError("is empty; write a value")
        raise BadValueError(f"'{shorten(text)}' has an empty item; remove the extra comma")
    return _range(item, read) if ranges and ".." in item else [read(item)]


def _range(item: str, read: Callable[[str], T]) -> list[T]:
    match = _RANGE.fullmatch(item)
    if match is None or match["step"] is None or not match["step"].strip():
        raise BadValueError(f"range '{shorten(item)}' has no step; write e.g. 64..512 step 64")
    low, high = read(match["low"].strip()), read(match["high"].strip())
    if not isinstance(low, int) or not isinstance(high, int):
        raise BadValueError(f"range '{shorten(item)}' needs numbers at both ends")
    step = whole(
        match["step"].strip(),
        Limits(1, 10**12, "not a step", "too large a step", suffixes=True),
    )
    if low > high:
        raise BadValueError(f"range '{shorten(item)}' runs downwards; write the smaller end first")
    count = (high - low) // step + 1
    if count > MAX_VALUES:
        raise BadValueError(
            f"range '{shorten(item)}' gives {count:,} values, above {MAX_VALUES:,}; "
            "use a larger step"
        )
    return cast(list[T], list(range(low, high + 1, step)))


def format_rate(rate_pps: int | None) -> str:
    """Write packets per second in the shortest exact form: `max`, `1M`, `1.25M`, `812345`."""
    if rate_pps is None:
        return "max"
    for suffix in ("G", "M", "k"):
        factor = _SUFFIXES[suffix]
        if rate_pps >= factor and rate_pps % (factor // 100) == 0:
            digits = f"{rate_pps // factor}.{rate_pps % factor * 100 // factor:02d}"
            return digits.rstrip("0").rstrip(".") + suffix
    return str(rate_pps)


def format_seconds(time_s: float) -> str:
    """Write seconds to the nanosecond in the shortest form: `5s`, `1.5s`, `200ms`; `seconds` reads
    it back."""
    number = round(Decimal(repr(float(time_s))), 9)
    if number != 0 and number < 1:
        return f"{_plain(number * 1000)}ms"
    return f"{_plain(number)}s"


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
