"""A reference check: a figure, an independent source of it, and the tolerance of the comparison.

Each check is a file of `switchmark/certify/` with a `CHECK`, which has the name of the file, with
dashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from switchmark.certify.support.decision import FRAMES_DUE
from switchmark.certify.support.rig import Rig
from switchmark.model.io import Io


class RigKind(StrEnum):
    """The kind of deployment that a check uses. Checks with the same kind share a deployment."""

    COUNTS = "counts"  # sender, bridge and receiver of a plain trial
    TIMES = "times"  # sender, bridge and receiver of a method that times frames
    ROUND_TRIPS = "round-trips"  # client, bridge and server


@dataclass(frozen=True)
class Round:
    """The findings of one round. An unknown error is NaN."""

    errors: Mapping[str, float]  # measured minus true value by quantity, in the check's unit
    frames: int = 0  # number of frames that an exact check counted
    figures: Mapping[str, float] = field(default_factory=dict)  # other figures for the reader


def medians(rounds: Sequence[Round]) -> Mapping[str, float]:
    """Return the median of each other figure over the rounds that have it."""
    names = dict.fromkeys(name for round_ in rounds for name in round_.figures)
    return {
        name: median(round_.figures[name] for round_ in rounds if name in round_.figures)
        for name in names
    }


@dataclass(frozen=True)
class ReferenceCheck:
    """One figure, and its comparison with an independent source."""

    name: str
    meaning: str  # the figure, in a few words
    against: str  # the independent source
    rig_kind: RigKind
    unit: str  # frames, ratio, ns
    within: float  # 0: exact
    measure: Callable[[Rig], Round]
    wider: Mapping[str, float] = field(default_factory=dict)  # quantities with another tolerance
    below: Mapping[str, float] = field(default_factory=dict)  # tolerances of errors below zero
    needs_kernel: bool = True  # the kernel counts, times or changes frames
    frames_due: int = FRAMES_DUE  # number of frames that an exact check must count
    levels: Callable[[Sequence[Round]], Mapping[str, float]] = medians  # summary of other figures
    why_not: Callable[[Io], str | None] = lambda _: None  # why an I/O cannot be checked

    def tolerance(self, quantity: str) -> float:
        """Return the largest permitted error of a quantity."""
        return self.wider.get(quantity, self.within)

    def tolerance_below(self, quantity: str) -> float:
        """Return the largest permitted error below zero."""
        return self.below.get(quantity, self.tolerance(quantity))

    @property
    def is_exact(self) -> bool:
        """True if the counts must be exact."""
        return self.within == 0
