"""A change to a running switch, as a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

UNKNOWN_WAY = "no way is known to change its ports or rules while it runs"


@dataclass(frozen=True, slots=True)
class Change:
    """One change to the running switch. The call returns when the switch reports that it is
    done, or returns the steps that remain."""

    name: str  # e.g. "4 ports added"
    apply: Callable[[], Iterator[None] | None]


@dataclass(frozen=True, slots=True)
class TableChange:
    """Entries that no frame of a trial matches, by which a table of the running switch is changed.
    They have numbers; `add` and `remove` take the first one and the one behind the last."""

    entries: str  # e.g. "routes"
    add: Callable[[int, int], None]
    remove: Callable[[int, int], None]
    count: Callable[[], int]  # entries that the switch has in the table, or of these alone
