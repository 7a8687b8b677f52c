"""A truth: a figure, another source of it, and how closely they must agree.

A truth is one file of `switchmark/certify/` that holds a `TRUTH` with the file's name, with
dashes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from switchmark.certify.support.decision import FRAMES_DUE
from switchmark.certify.support.stand import Rig
from switchmark.model.io import Io


class Stand(StrEnum):
    """The kind of deployment that a truth is tried on; truths of one stand share it."""

    COUNTS = "counts"  # sender, the kernel's bridge, receiver, as in a plain trial
    TIMES = "times"  # the same, as of a method that times frames
    ROUND_TRIPS = "round-trips"  # client, the kernel's bridge, server


@dataclass(frozen=True)
class Turn:
    """The findings of one turn. An error that it could not tell is NaN."""

    errors: Mapping[str, float]  # by quantity: measured less true, in the truth's unit
    frames: int = 0  # that were counted, where counts are exact
    figures: Mapping[str, float] = field(default_factory=dict)  # what else it saw, for the reader


def medians(turns: Sequence[Turn]) -> Mapping[str, float]:
    """The median of each other figure over the turns that have it."""
    names = dict.fromkeys(name for turn in turns for name in turn.figures)
    return {
        name: median(turn.figures[name] for turn in turns if name in turn.figures) for name in names
    }


@dataclass(frozen=True)
class Truth:
    """One figure and how it is compared with other sources."""

    name: str
    meaning: str  # of the figure, in a few words
    against: str  # what it is compared with
    stand: Stand
    unit: str  # frames, ratio, ns
    within: float  # 0: exact
    turn: Callable[[Rig], Turn]
    wider: Mapping[str, float] = field(default_factory=dict)  # quantities with another tolerance
    below: Mapping[str, float] = field(default_factory=dict)  # the same, of errors below zero
    needs_kernel: bool = True  # it is the kernel that counts, times, or does something to frames
    frames_due: int = FRAMES_DUE  # to be counted, where counts are exact
    levels: Callable[[Sequence[Turn]], Mapping[str, float]] = medians  # of the other figures
    why_not: Callable[[Io], str | None] = lambda _: None  # of this I/O, which has no such figure

    def tolerance(self, quantity: str) -> float:
        """How far a quantity may be off."""
        return self.wider.get(quantity, self.within)

    def tolerance_below(self, quantity: str) -> float:
        """How far it may be off below zero."""
        return self.below.get(quantity, self.tolerance(quantity))

    @property
    def is_exact(self) -> bool:
        """Whether every single frame must be right."""
        return self.within == 0
