"""The distance of two cores: a cache line moves between them within NEAR_NS while they share a
cache.

Hosts move virtual cores, on some machines every few seconds, and programs that are limited by cache
lines between cores run twice as fast while the cores are near. So the distance is measured before
and after each run, and a run in which it changed does not count.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

NEAR_NS = 90.0  # neighbours were 35 to 50 ns apart, others 150 to 270 (AMD EPYC of 2024, guest)
Cores = Literal["far", "near", "moved"]
RESOLVED_BY_PLAN: tuple[Cores, ...] = ("far", "near")


def distance_ns(program: Path | None, cores: Sequence[int]) -> float | None:
    """Return the time of a cache line between the cores now (distance.c); None if unknown."""
    if program is None:
        return None
    command = [str(program), *(str(core) for core in cores)]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    return float(output.stdout)


def where(before_ns: float | None, after_ns: float | None) -> Cores:
    """Return the distance of the cores between two measurements; far if it is unknown."""
    before, after = (ns is not None and ns <= NEAR_NS for ns in (before_ns, after_ns))
    if before != after:
        return "moved"
    return "near" if before else "far"
