"""Points as fields with their values, and the fields in which several of them differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Point = tuple[tuple[str, Any], ...]


def differing(points: Iterable[Point]) -> list[str]:
    """The fields that have not the same value in all of these points."""
    seen: dict[str, set[str]] = {}
    for one in points:
        for name, value in one:
            seen.setdefault(name, set()).add(str(value))
    return [name for name, values in seen.items() if len(values) > 1]
