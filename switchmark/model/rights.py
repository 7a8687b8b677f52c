"""Privileges of a program that the bench starts on the host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rights:
    """The privileges that a program keeps; its user is usually root."""

    capabilities: tuple[str, ...] = ()  # in lower case, without CAP_
    # The paths at and below which it may write, create and remove (`host/privileges/sandbox.py`).
    # None: wherever its user may.
    writes: tuple[str, ...] | None = None
