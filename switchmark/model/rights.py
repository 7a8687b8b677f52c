"""What a program that the bench starts on the host may do there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rights:
    """What is left to a program of what its user, as a rule root, may do."""

    capabilities: tuple[str, ...] = ()  # of root's; in lower case, without prefix
    # At and below which paths it may write, make and remove, behind a wall (`testbed/walls.py`).
    # None: wherever its user may.
    writes: tuple[str, ...] | None = None
