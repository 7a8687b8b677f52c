"""Changes to a running switch, for measuring how long it stops forwarding meanwhile.

A switch that can be changed offers them in pairs, each undone by the next; a switch that
cannot has no `changes`, and names none in its capabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from switchmark.errors import TrialFailed
from switchmark.model.changes import UNKNOWN_WAY, Change
from switchmark.switch.support.base import Switch

PORTS = 4  # added and removed together
RULES = 1000  # table entries or flow rules, none of which any frame of the trial matches


@runtime_checkable
class Reconfigurable(Protocol):
    """A switch that can be changed while it runs, besides being a `Switch`."""

    def changes(self) -> Sequence[Change]:
        """The changes in order; the last leaves the switch as it was."""
        ...


def changes_of(switch: Switch) -> Sequence[Change]:
    """The switch's changes. Raises `TrialFailed` naming a switch that has none."""
    if not isinstance(switch, Reconfigurable):
        raise TrialFailed(f"{switch.name}: {switch.capabilities.cannot_reconfigure or UNKNOWN_WAY}")
    return switch.changes()


def rule_mac(number: int) -> str:
    """An address that no application has (locally administered, of a range of its own)."""
    return f"0e:5a:00:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
