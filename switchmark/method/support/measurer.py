"""The measurer, which offers a load for a duration and counts the frames that arrive.

Methods that search or sweep use only `Measurer`, so they also run on a simulated switch. Loads are
**totals**: frames per second over all pairs and, for bidirectional traffic, over both directions.
The measurer divides them equally; results are totals again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from switchmark.errors import SwitchmarkError, UsageError

SATURATING = math.inf  # a load without limit: the sender offers as much as it can
# The largest share of intended frames that a sender may give up while the load counts as offered.
# The engine's status "on schedule" has the same bound.
SHORTFALL_TOLERANCE = 1e-3
PAUSE_SHARE = 0.05  # largest share of intended frames that is attributed to pauses of the sender
EXCUSED_SHARE = 0.05  # a trial with a larger share of excused frames is measured again
# The largest share of excused frames. With more, the load was not present, and every frame counts.
MOST_EXCUSED = 0.10
REPEATS = 2  # repetitions of a trial with too few valid frames
RING_FULL_SHARE = 0.05  # least share of transmit calls with a full ring for "the port was full"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """The result of one trial. Frames and rates are totals over all pairs and directions."""

    intended_pps: float | None  # None: saturating
    offered_pps: float  # accepted by the ports
    forwarded_pps: float  # arrived at the receivers
    offered_frames: int
    lost_frames: int  # offered and never arrived; duplicates do not reduce the losses
    duration_s: float  # intended
    lost_away: int = 0  # lost while a receiver did not run; not included in lost_frames
    late_frames: int = 0  # never offered, and due while a sender was descheduled
    queued_frames: int = 0  # arrived well after the end of the trial, from a growing queue
    stalled_s: float = 0.0  # seconds in which the switch did not run on its core
    intended_frames: int | None = None  # in the schedule; None: rate x duration
    elapsed_s: float | None = None  # wall time of the trial, with its overhead
    ring_full_share: float | None = None  # transmit calls that met a full ring: back-pressure
    samples_pps: tuple[float, ...] = ()  # forwarded rate in each interval
    sample_s: float | None = None  # length of such an interval; None: unknown
    burst_pps: float = 0.0  # resolution of forwarded_pps: one burst of each stream

    def __post_init__(self) -> None:
        if self.offered_frames < 0 or not 0 <= self.lost_frames <= self.offered_frames:
            raise SwitchmarkError(
                f"trial: {self.lost_frames} of {self.offered_frames} offered frames lost: "
                "impossible counts",
                remedy="report this error of the counting",
            )

    @property
    def cost_s(self) -> float:
        """The seconds that the trial takes from a budget of time."""
        return self.duration_s if self.elapsed_s is None else self.elapsed_s

    @property
    def loss_ratio(self) -> float:
        """Lost over offered frames; 0 if nothing was offered."""
        return self.judged_lost_frames / self.offered_frames if self.offered_frames else 0.0

    @property
    def unoffered_frames(self) -> int:
        """Intended frames that were never offered; 0 for saturating input."""
        return max(0, self.scheduled_frames - self.offered_frames)

    @property
    def unexplained_frames(self) -> int:
        """The unoffered frames that were due while a sender was descheduled, or while the switch
        waited for its core."""
        due_meanwhile = round(self.scheduled_frames * min(1.0, self.stalled_s / self.duration_s))
        late = min(self.late_frames, self.unoffered_frames)
        return min(self.unoffered_frames, late + due_meanwhile)

    @property
    def excuses(self) -> bool:
        """True if frames are excused. If they are more than `MOST_EXCUSED`, the load was not
        present, and every frame counts."""
        left_out = self.unexplained_frames + self.lost_away
        return left_out <= MOST_EXCUSED * self.scheduled_frames

    @property
    def excused_frames(self) -> int:
        """The unoffered frames that do not count against the switch."""
        return self.unexplained_frames if self.excuses else 0

    @property
    def judged_frames(self) -> int:
        """The frames that count in the judgement of a trial: scheduled and not excused."""
        return self.scheduled_frames - self.excused_frames

    @property
    def shortfall_frames(self) -> int:
        """Intended frames that were never offered, without the excused frames."""
        return self.unoffered_frames - self.excused_frames

    @property
    def shortfall_ratio(self) -> float:
        """Shortfall over the frames that count."""
        return self.shortfall_frames / self.judged_frames if self.judged_frames else 0.0

    @property
    def scheduled_frames(self) -> int:
        """The frames of the intended load; for saturating input, the offered frames."""
        if self.intended_frames is not None:
            return self.intended_frames
        if self.intended_pps is None:
            return self.offered_frames
        return round(self.intended_pps * self.duration_s)

    @property
    def load_met(self) -> bool:
        """True if the intended load was offered, within `SHORTFALL_TOLERANCE`."""
        return self.unoffered_frames <= SHORTFALL_TOLERANCE * self.scheduled_frames

    @property
    def load_judged(self) -> bool:
        """True if the intended load was offered except for excused frames, so that the trial shows
        the behaviour at this load."""
        return self.shortfall_ratio <= SHORTFALL_TOLERANCE

    @property
    def sender_paused(self) -> bool:
        """True if the sender gave up a few frames although the port accepted every offered frame:
        it paused, independently of the switch. With many such frames, its rate is a limit."""
        pushed_back = (self.ring_full_share or 0.0) >= RING_FULL_SHARE
        return not self.load_judged and not pushed_back and self.shortfall_ratio <= PAUSE_SHARE

    @property
    def judged_lost_frames(self) -> int:
        """Lost frames, with those lost while a receiver did not run, unless they are excused."""
        away = 0 if self.excuses else self.lost_away
        return min(self.offered_frames, self.lost_frames + away)

    @property
    def uncarried_frames(self) -> int:
        """Frames that were lost, or still queued long after the end of their trial. RFC 2544 counts
        residual frames as received, but its trials last a minute; here a queue could accept a
        large part of a load."""
        return min(self.offered_frames, self.judged_lost_frames + self.queued_frames)

    @property
    def carried_pps(self) -> float:
        """The mean rate of the frames that arrived in their trial."""
        missing = self.lost_frames + self.lost_away + self.queued_frames
        return max(0, self.offered_frames - missing) / self.duration_s

    @property
    def uncarried_ratio(self) -> float:
        """Uncarried over offered frames; 0 if nothing was offered."""
        return self.uncarried_frames / self.offered_frames if self.offered_frames else 0.0

    @property
    def search_loss_ratio(self) -> float:
        """The loss ratio for searches. If the load was not met, it includes unoffered frames, since
        RFC 9971 counts a frame that was never sent as lost."""
        if self.load_judged:
            return self.uncarried_ratio
        return (self.uncarried_frames + self.shortfall_frames) / self.judged_frames

    @property
    def kept_away_share(self) -> float:
        """The share of the trial that shows nothing about the switch, because an application or the
        switch did not run on its core."""
        frames = self.lost_away + min(self.late_frames, self.unoffered_frames)
        share = frames / self.scheduled_frames if self.scheduled_frames else 0.0
        return share + min(1.0, self.stalled_s / self.duration_s)

    @property
    def needs_repetition(self) -> bool:
        """True if the trial should be measured again, whatever its result."""
        return self.sender_paused or self.kept_away_share > EXCUSED_SHARE


class Measurer(Protocol):
    """Runs trials one after the other on one deployment."""

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        """Offer `load_pps` (a total, or `SATURATING`) for `duration_s`.

        The sender may round a load to whole frames per second and pair; `intended_frames` is the
        exact number. Raise `TrialFailed` if the trial cannot be completed. A load that could not
        be offered is not a failure; the result shows it."""
        ...


class BudgetError(SwitchmarkError):
    """The next trial would not fit into the rest of the budget."""


class BudgetedMeasurer:
    """A measurer that stores every trial, and refuses a trial that would exceed its budget.

    The expected cost of a trial is its duration plus the largest overhead so far; `overhead_s` is
    the initial overhead. A trial in which applications or the switch did not run on their cores is
    repeated up to `repeats` times within the budget. The trial with the smallest such share counts,
    whatever its result; the others are in `repeated`."""

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
        """Run a trial. Raise `BudgetError` if it does not fit into the budget."""
        if not self._fits(duration_s):
            raise BudgetError(
                f"{self.spent_s:.1f} s of {self.budget_s:.1f} s are spent: another trial of "
                f"{duration_s:g} s does not fit"
            )
        tries = [self._run_once(duration_s, load_pps)]
        while len(tries) <= self.repeats and tries[-1].needs_repetition and self._fits(duration_s):
            tries.append(self._run_once(duration_s, load_pps))
        best = min(tries, key=lambda point: (point.needs_repetition, point.kept_away_share))
        self.repeated += [point for point in tries if point is not best]
        self.points.append(best)
        return best

    def _fits(self, duration_s: float) -> bool:
        return self.spent_s + duration_s + self._overhead_s <= self.budget_s + 1e-9

    def _run_once(self, duration_s: float, load_pps: float) -> LoadPoint:
        point = _as_requested(self._measurer.measure(duration_s, load_pps), duration_s, load_pps)
        self.spent_s += point.cost_s
        self._overhead_s = max(self._overhead_s, point.cost_s - duration_s)
        return point


def _as_requested(point: LoadPoint, duration_s: float, load_pps: float) -> LoadPoint:
    """Return the point with the requested load and duration, by which searches identify trials.

    Senders round rates; the exact number of scheduled frames is in `intended_frames`."""
    requested = None if math.isinf(load_pps) else load_pps
    if (requested is None) != (point.intended_pps is None) or (
        requested is not None
        and point.intended_pps is not None
        and abs(point.intended_pps - requested) > max(1.0, SHORTFALL_TOLERANCE * requested)
    ):
        raise SwitchmarkError(
            f"trial: {load_pps:g} pps were requested, but the measurer offered "
            f"{point.intended_pps} pps"
        )
    scheduled = point.scheduled_frames
    return replace(point, intended_pps=requested, duration_s=duration_s, intended_frames=scheduled)


def repeated_note(count: int) -> list[str]:
    """Return a note on the trials that were measured again; empty if there were none."""
    reason = "applications or the switch did not run on their cores for a while"
    return [f"{count} trials were measured again: {reason}"] if count else []
