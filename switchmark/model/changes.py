"""A change to a running switch, as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

UNKNOWN_WAY = "no way is known to change its ports or rules while it runs"


@dataclass(frozen=True, slots=True)
class Change:
    """One change to the running switch. The call returns when the switch reports that it is
    done."""

    name: str  # e.g. "4 ports added"
    apply: Callable[[], None]
