"""What a program that the bench starts on the host may do there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rights:
    """What is left to a program of what its user, as a rule root, may do."""

    capabilities: tuple[str, ...] = ()  # of root's; in lower case, without prefix
    # The paths at and below which it may write, create and remove (`host/privileges/sandbox.py`).
    # None: wherever its user may.
    writes: tuple[str, ...] | None = None
