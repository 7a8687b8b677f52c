"""How many calls a piece of work takes: growth that no busy machine and no earlier test moves."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

Made = TypeVar("Made")


def calls_of(work: Callable[[], Made]) -> tuple[Made, int]:
    """What ``work`` gives, and how many functions of Python and C were called meanwhile."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        made = work()
    finally:
        sys.setprofile(before)
    return made, calls
