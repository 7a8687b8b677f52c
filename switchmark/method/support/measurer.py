"""The one thing a capacity method needs: a measurer, which offers a load for a while and counts
what arrives.

Every method in this folder that searches or sweeps is written against `Measurer`, so each runs
alike on a deployed switch and on a simulated one. Loads are **totals**: frames per second summed
over all pairs and, where traffic runs both ways, over both directions. The measurer divides them
equally; results are totals again.
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
PAUSE_SHARE = 0.05  # largest share of the intended frames that pauses give up
EXCUSED_SHARE = 0.05  # share of frames left out, above which a trial is measured again
# The most that may be left out of what a trial is judged by: with more, the load was not really on,
# and every frame counts.
MOST_EXCUSED = 0.10
REPEATS = 2  # repeats of a trial with too few valid frames
RING_FULL_SHARE = 0.05  # share of transmit calls from which the port counts as full


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """The result of one trial. Frames and rates are totals over all pairs and directions."""

    intended_pps: float | None  # None: saturating
    offered_pps: float  # accepted by the ports
    forwarded_pps: float  # what arrived
    offered_frames: int
    lost_frames: int  # offered and never arrived; duplicates do not make up for losses
    duration_s: float  # asked for
    lost_away: int = 0  # while a receiver was away from its core: not among the lost frames
    late_frames: int = 0  # never offered, and due while a sender was descheduled
    queued_frames: int = 0  # arrived, but only well after their trial: a queue grew meanwhile
    stalled_s: float = 0.0  # the switch was kept from its core for so long
    intended_frames: int | None = None  # in the schedule; None: rate x duration
    elapsed_s: float | None = None  # wall time the trial cost, with its overhead
    ring_full_share: float | None = None  # transmit calls that met a full ring: back-pressure
    samples_pps: tuple[float, ...] = ()  # forwarded rate, interval by interval
    sample_s: float | None = None  # how long such an interval is; None: not known
    burst_pps: float = 0.0  # the step of forwarded_pps: one burst of each stream in it

    def __post_init__(self) -> None:
        if self.offered_frames < 0 or not 0 <= self.lost_frames <= self.offered_frames:
            raise SwitchmarkError(
                f"trial: {self.lost_frames} of {self.offered_frames} offered frames lost: "
                "impossible counts",
                remedy="clamp nothing, look for the error in the counting",
            )

    @property
    def cost_s(self) -> float:
        """The seconds that the trial takes from a budget of time."""
        return self.duration_s if self.elapsed_s is None else self.elapsed_s

    @property
    def loss_ratio(self) -> float:
        """Lost over offered frames; 0 when nothing was offered."""
        return self.judged_lost_frames / self.offered_frames if self.offered_frames else 0.0

    @property
    def unoffered_frames(self) -> int:
        """Intended frames that were never offered; 0 for saturating input."""
        return max(0, self.wanted_frames - self.offered_frames)

    @property
    def unexplained_frames(self) -> int:
        """The unoffered frames that the load does not explain: they were due while a sender was
        descheduled, or while the switch waited for its core."""
        due_meanwhile = round(self.wanted_frames * min(1.0, self.stalled_s / self.duration_s))
        late = min(self.late_frames, self.unoffered_frames)
        return min(self.unoffered_frames, late + due_meanwhile)

    @property
    def excuses(self) -> bool:
        """True if frames are left out of what is judged. If these were more than `MOST_EXCUSED`,
        the load was not really on, and every frame counts."""
        left_out = self.unexplained_frames + self.lost_away
        return left_out <= MOST_EXCUSED * self.wanted_frames

    @property
    def excused_frames(self) -> int:
        """The unoffered frames that are left out."""
        return self.unexplained_frames if self.excuses else 0

    @property
    def judged_frames(self) -> int:
        """The frames that a trial is judged by: those wanted, less those excused."""
        return self.wanted_frames - self.excused_frames

    @property
    def shortfall_frames(self) -> int:
        """Intended frames that were never offered, and that nothing excuses."""
        return self.unoffered_frames - self.excused_frames

    @property
    def shortfall_ratio(self) -> float:
        """Shortfall over the frames that count."""
        return self.shortfall_frames / self.judged_frames if self.judged_frames else 0.0

    @property
    def wanted_frames(self) -> int:
        """Frames that the load asked for; of saturating input, those offered."""
        if self.intended_frames is not None:
            return self.intended_frames
        if self.intended_pps is None:
            return self.offered_frames
        return round(self.intended_pps * self.duration_s)

    @property
    def load_met(self) -> bool:
        """True if the intended load was really offered, within `SHORTFALL_TOLERANCE`."""
        return self.unoffered_frames <= SHORTFALL_TOLERANCE * self.wanted_frames

    @property
    def load_judged(self) -> bool:
        """True if the intended load was offered, but for frames that are left out of what is
        judged: the trial then tells of that load."""
        return self.shortfall_ratio <= SHORTFALL_TOLERANCE

    @property
    def sender_paused(self) -> bool:
        """Return True if a few frames were given up although the port took every one offered: the
        sender paused, which is independent of the switch. Many more than a few are a limit."""
        pushed_back = (self.ring_full_share or 0.0) >= RING_FULL_SHARE
        return not self.load_judged and not pushed_back and self.shortfall_ratio <= PAUSE_SHARE

    @property
    def judged_lost_frames(self) -> int:
        """Lost frames, with those that a receiver lost while it was away from its core, unless
        these are few enough to be left out."""
        away = 0 if self.excuses else self.lost_away
        return min(self.offered_frames, self.lost_frames + away)

    @property
    def uncarried_frames(self) -> int:
        """Frames lost, or still queued when their trial was long over: a load that a queue takes in
        is not carried. (RFC 2544 waits for residual frames, too, but its trials last a minute.)"""
        return min(self.offered_frames, self.judged_lost_frames + self.queued_frames)

    @property
    def carried_pps(self) -> float:
        """The rate of the frames that arrived in their trial, over the whole of it. Frames that
        were not offered, or that anything lost, are not among them."""
        missing = self.lost_frames + self.lost_away + self.queued_frames
        return max(0, self.offered_frames - missing) / self.duration_s

    @property
    def uncarried_ratio(self) -> float:
        """Uncarried over offered frames; 0 when nothing was offered."""
        return self.uncarried_frames / self.offered_frames if self.offered_frames else 0.0

    @property
    def search_loss_ratio(self) -> float:
        """The ratio that searches judge by: uncarried frames, plus unoffered ones when the load
        was not met (RFC 9971 counts a frame that was never sent as lost)."""
        if self.load_judged:
            return self.uncarried_ratio
        return (self.uncarried_frames + self.shortfall_frames) / self.judged_frames

    @property
    def kept_away_share(self) -> float:
        """The part of the trial that is not a result of the switch, because an application or the
        switch itself was kept from its core. 0: all of it counts."""
        frames = self.lost_away + min(self.late_frames, self.unoffered_frames)
        share = frames / self.wanted_frames if self.wanted_frames else 0.0
        return share + min(1.0, self.stalled_s / self.duration_s)

    @property
    def says_little(self) -> bool:
        """Return True if the trial deserves to be measured again, whatever it found."""
        return self.sender_paused or self.kept_away_share > EXCUSED_SHARE


class Measurer(Protocol):
    """Something that can run trials, one after the other, on one deployment."""

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        """Offer `load_pps` (total; `SATURATING` for all there is) for `duration_s`.

        A load may be rounded to what the sender can pace (whole frames per second and pair);
        `intended_frames` then says what was scheduled. Raises `TrialFailed` when the trial cannot
        be completed; a load that could not be offered is not a failure: the point has this fact.
        """
        ...


class BudgetError(SwitchmarkError):
    """The next trial would not fit into the rest of the budget."""


class BudgetedMeasurer:
    """A measurer that keeps every trial and refuses the one that would exceed its budget.

    A trial costs its duration plus the overhead seen so far at most; `overhead_s` is the
    overhead to expect before any has been seen. A trial from which applications or the switch
    were kept is repeated up to `repeats` times, while the budget lasts; the one from which they
    were kept least stands, whatever it found, the others are in `repeated`.
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
        self.repeated: list[LoadPoint] = []
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
        tried = [self._once(duration_s, load_pps)]
        while len(tried) <= self.repeats and tried[-1].says_little and self._fits(duration_s):
            tried.append(self._once(duration_s, load_pps))
        kept = min(tried, key=lambda one: (one.says_little, one.kept_away_share))
        self.repeated += [one for one in tried if one is not kept]
        self.points.append(kept)
        return kept

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


def repeated_note(count: int) -> list[str]:
    """A note on the trials that were measured again; empty if there were none."""
    kept = "applications or the switch were kept from their cores in them"
    return [f"{count} trials were measured again: {kept}"] if count else []
