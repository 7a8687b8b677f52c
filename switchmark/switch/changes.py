"""Changes to a running switch, for measuring how long it stops forwarding meanwhile.

A switch that can be changed offers them in pairs, each undone by the next; a switch that
cannot has no `changes`, and names none in its capabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from switchmark.errors import TrialFailed
from switchmark.switch.base import Switch

UNKNOWN_WAY = "no way is known to change its ports or rules while it runs"
PORTS = 4  # added and removed together
RULES = 1000  # table entries or flow rules, none of which any frame of the trial matches


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is done to the running switch; returns when the switch says it is done."""

    name: str  # e.g. "4 ports added"
    apply: Callable[[], None]


@runtime_checkable
class Reconfigurable(Protocol):
    """What a switch has, besides the `Switch` protocol, that can be changed while it runs."""

    def changes(self) -> Sequence[Change]:
        """The changes in order; the last leaves the switch as it was."""
        ...


def changes_of(switch: Switch) -> Sequence[Change]:
    """The switch's changes. Raises `TrialFailed` naming a switch that has none."""
    if not isinstance(switch, Reconfigurable):
        raise TrialFailed(f"{switch.name}: {switch.capabilities.settled or UNKNOWN_WAY}")
    return switch.changes()


def rule_mac(number: int) -> str:
    """An address that no application has (locally administered, of a range of its own)."""
    return f"0e:5a:00:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
