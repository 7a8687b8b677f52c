"""What another program answers is hostile until it was looked at: it may be of another version, or
broken. A wrong form ends the trial in one line that names who answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from switchmark.errors import TrialFailed

MOST_FRAMES = 2**64  # of a counter


@contextmanager
def understood(name: str) -> Iterator[None]:
    """Within, an answer is taken apart. Raises TrialFailed where it has another form."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise TrialFailed(f"{name}: gave an answer in a form that is not known") from None


def decoded(name: str, text: str | bytes) -> Any:
    """A JSON answer. Raises TrialFailed where it is none."""
    with understood(name):
        return json.loads(text)


def no_number(text: str) -> None:
    """For `parse_constant` of JSON: NaN and the infinities are none. Raises ValueError."""
    raise ValueError(f"{text} is no number")


def frames(value: object) -> int:
    """A counter, as a number or as text. Raises TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError("a counter is a whole number")
    number = int(value)
    if not 0 <= number < MOST_FRAMES:
        raise ValueError("a counter is not below 0, and fits 64 bits")
    return number
