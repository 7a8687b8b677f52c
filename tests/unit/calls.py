"""Counts the calls of a piece of work: a measure of growth that no busy machine changes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

Made = TypeVar("Made")


def calls_of(work: Callable[[], Made]) -> tuple[Made, int]:
    """Return the result of ``work``, and the number of called functions of Python and C."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        result = work()
    finally:
        sys.setprofile(before)
    return result, calls
