"""Where the two cores are: a cache line goes from one to the other within NEAR_NS while they share
a cache. Virtual cores are moved about, every few seconds on some machines, and what is limited by
lines between cores runs twice as fast while they are near. So it is asked before and after each
run, and a run in which they moved counts for neither state.
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
    """How long a cache line takes from core to core now (distance.c); None: not known."""
    if program is None:
        return None
    words = [str(program), *(str(core) for core in cores)]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=20)
    return float(said.stdout)


def where(before_ns: float | None, after_ns: float | None) -> Cores:
    """Where the cores were between two measurements; far, where nobody could measure it."""
    before, after = (ns is not None and ns <= NEAR_NS for ns in (before_ns, after_ns))
    if before != after:
        return "moved"
    return "near" if before else "far"
