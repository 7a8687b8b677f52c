"""The one thing a capacity method needs: offer a load for a while, say what became of it.

Every method in this folder that searches or sweeps is written against `Measurer`, so each
runs alike on a deployed switch and on a simulated one. Loads are **totals**: frames per
second summed over all pairs and, where traffic runs both ways, over both directions. The
measurer divides them equally (`per_pair_pps`); results are totals again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from switchmark.errors import SwitchmarkError, UsageError

SATURATING = math.inf  # as a load: everything the sender can offer
# Frames the sender gave up, as a share of those intended, up to which a load counts as
# offered. The engine calls a sender "on schedule" by the same bound.
SHORTFALL_TOLERANCE = 1e-3
PAUSE_SHARE = 0.05  # of the intended frames: given up by pauses, at most
RING_FULL_SHARE = 0.05  # of transmit calls: from here the port is said to push back


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """What one trial found. Frames and rates are totals over all pairs and directions."""

    intended_pps: float | None  # None: saturating
    offered_pps: float  # what the ports accepted
    forwarded_pps: float  # what arrived
    offered_frames: int
    lost_frames: int  # offered and never arrived; duplicates do not make up for losses
    duration_s: float  # asked for
    intended_frames: int | None = None  # what the schedule asked for; None: rate x duration
    elapsed_s: float | None = None  # wall time the trial cost, with its overhead
    ring_full_share: float | None = None  # transmit calls that met a full ring: back-pressure
    samples_pps: tuple[float, ...] = ()  # forwarded rate, interval by interval
    sample_s: float | None = None  # how long such an interval is; None: not known

    def __post_init__(self) -> None:
        if self.offered_frames < 0 or not 0 <= self.lost_frames <= self.offered_frames:
            raise SwitchmarkError(
                f"trial: {self.lost_frames} of {self.offered_frames} offered frames lost: "
                "counts that cannot be; clamp nothing, look for the error in the counting"
            )

    @property
    def cost_s(self) -> float:
        """What the trial took from a budget of time."""
        return self.duration_s if self.elapsed_s is None else self.elapsed_s

    @property
    def loss_ratio(self) -> float:
        """Lost over offered frames; 0 when nothing was offered."""
        return self.lost_frames / self.offered_frames if self.offered_frames else 0.0

    @property
    def shortfall_frames(self) -> int:
        """Intended frames that were never offered; 0 for saturating input."""
        return max(0, self.wanted_frames - self.offered_frames)

    @property
    def shortfall_ratio(self) -> float:
        """Shortfall over intended frames."""
        return self.shortfall_frames / self.wanted_frames if self.wanted_frames else 0.0

    @property
    def wanted_frames(self) -> int:
        """Frames the load asked for; those offered for saturating input."""
        if self.intended_frames is not None:
            return self.intended_frames
        if self.intended_pps is None:
            return self.offered_frames
        return round(self.intended_pps * self.duration_s)

    @property
    def load_met(self) -> bool:
        """Whether the intended load was really offered, within `SHORTFALL_TOLERANCE`."""
        return self.shortfall_ratio <= SHORTFALL_TOLERANCE

    @property
    def sender_paused(self) -> bool:
        """Whether a few frames were given up although the port took every one offered: a pause
        of the sender's, which says nothing about the switch. Much more than a few is a limit."""
        pushed_back = (self.ring_full_share or 0.0) >= RING_FULL_SHARE
        return not self.load_met and not pushed_back and self.shortfall_ratio <= PAUSE_SHARE

    @property
    def search_loss_ratio(self) -> float:
        """The ratio that searches judge by: lost frames, plus unoffered ones when the load
        was not met (RFC 9971 counts a frame that was never sent as lost)."""
        if self.load_met:
            return self.loss_ratio
        return (self.lost_frames + self.shortfall_frames) / self.wanted_frames


class Measurer(Protocol):
    """Something that can run trials, one after the other, on one deployment."""

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        """Offer `load_pps` (total; `SATURATING` for all there is) for `duration_s`.

        A load may be rounded to what the sender can pace (whole frames per second and pair);
        `intended_frames` then says what was scheduled. Raises `TrialFailed` when the trial
        cannot be completed; a load that could not be offered is no failure: the point says so.
        """
        ...


class BudgetError(SwitchmarkError):
    """The next trial would not fit into what is left of the budget."""


class Ledger:
    """A measurer that keeps every trial and refuses the one that would exceed its budget.

    A trial costs its duration plus the overhead seen so far at most; `overhead_s` is the
    overhead to expect before any has been seen. A trial whose sender paused is repeated up to
    `repeats` times, while the budget lasts; the last one stands, the others are in `paused`.
    """

    def __init__(
        self,
        measurer: Measurer,
        budget_s: float = math.inf,
        overhead_s: float = 0.0,
        repeats: int = 0,
    ) -> None:
        if not budget_s > 0:
            raise UsageError(f"budget of {budget_s:g} s: must be above 0 s")
        self.points: list[LoadPoint] = []
        self.paused: list[LoadPoint] = []
        self.repeats = repeats
        self.spent_s = 0.0
        self.budget_s = budget_s
        self._measurer = measurer
        self._overhead_s = overhead_s

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        """Run one trial; raises `BudgetError` instead when it would not fit."""
        if not self._fits(duration_s):
            raise BudgetError(
                f"{self.spent_s:.1f} s of {self.budget_s:.1f} s are spent: no room for "
                f"another trial of {duration_s:g} s"
            )
        point = self._once(duration_s, load_pps)
        for _ in range(self.repeats):
            if not point.sender_paused or not self._fits(duration_s):
                break
            self.paused.append(point)
            point = self._once(duration_s, load_pps)
        self.points.append(point)
        return point

    def _fits(self, duration_s: float) -> bool:
        return self.spent_s + duration_s + self._overhead_s <= self.budget_s + 1e-9

    def _once(self, duration_s: float, load_pps: float) -> LoadPoint:
        point = _as_asked(self._measurer.measure(duration_s, load_pps), duration_s, load_pps)
        self.spent_s += point.cost_s
        self._overhead_s = max(self._overhead_s, point.cost_s - duration_s)
        return point


def _as_asked(point: LoadPoint, duration_s: float, load_pps: float) -> LoadPoint:
    """The point under the load and duration that were asked for.

    Senders round rates to what they can pace; searches find their trials again by the load
    they asked. The frames that were really scheduled stay in `intended_frames`.
    """
    asked = None if math.isinf(load_pps) else load_pps
    if (asked is None) != (point.intended_pps is None) or (
        asked is not None
        and point.intended_pps is not None
        and abs(point.intended_pps - asked) > max(1.0, SHORTFALL_TOLERANCE * asked)
    ):
        raise SwitchmarkError(
            f"trial: {load_pps:g} pps were asked for, but {point.intended_pps} intended: the "
            "measurer answers for another load"
        )
    wanted = point.wanted_frames
    return replace(point, intended_pps=asked, duration_s=duration_s, intended_frames=wanted)


def per_pair_pps(total_pps: float, pairs: int) -> float:
    """Each pair's equal share of a total load."""
    return total_pps / pairs
