"""The result of a method of many trials: its trials, figures and bounds (docs/methods.md)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from switchmark.model.value import Amount, Count, Ratio, Value
from switchmark.record.figures import Latency

DecidedBy = Literal["switch", "noise", "sender", "cores", "range", "budget"]


class MethodTrial(Value):
    """One trial that a search or series made. Frames and rates are totals over all pairs."""

    intended_pps: Amount | None  # None: saturating
    offered_pps: Amount
    forwarded_pps: Amount
    offered_frames: Count
    lost_frames: Count  # offered and never arrived, but for `lost_away`
    unoffered_frames: Count  # intended and never offered
    duration_s: Amount
    elapsed_s: Amount  # with the bench's overhead
    ring_full_share: Ratio | None  # transmit calls that met a full ring
    socket_drops: Count  # dropped at the receivers' own sockets
    lost_away: Count = 0  # lost while a receiver was away from its core
    late_frames: Count = 0  # unoffered frames that were due while a sender was descheduled
    queued_frames: Count = 0  # arrived only well after their trial: a queue grew
    stalled_s: Amount = 0.0  # the switch was kept from its core
    duplicates: Count
    reordered: Count
    corrupt: Count
    late_max_ns: Count | None  # largest lateness of the senders' pacing; None: saturating
    drained: bool  # the receivers fell silent before they were stopped

    @model_validator(mode="after")
    def _no_more_lost_than_sent(self) -> MethodTrial:
        if self.lost_frames > self.offered_frames:
            raise ValueError(f"{self.lost_frames} of {self.offered_frames} frames lost")
        return self


class MethodFigure(Value):
    """One figure of a method, with its 95 % interval where it has one."""

    name: str
    value: float
    unit: Literal["pps", "frames", "s", "ns", "ratio", "count", "changes/s"]
    low: float | None = None
    high: float | None = None
    count: Count = 1  # repetitions it is the mean of


class GoalBounds(Value):
    """The bounds that a search found for one goal. Loads are totals over all pairs."""

    goal: str
    loss_ratio: Ratio
    width: Ratio  # (upper - lower) / upper that was asked for
    lower_pps: Amount | None  # highest load found to be carried
    upper_pps: Amount | None  # lowest load found to be too much
    conditional_throughput_pps: Amount | None  # forwarded at the lower bound (RFC 9971)
    decided_by: DecidedBy
    mixed_from_pps: Amount | None  # the range over which trials went both ways
    mixed_to_pps: Amount | None
    # Repeated trials at the end passed at the lower bound and failed at 1.1 times the upper one, if
    # there is one.
    confirmed: bool = False
    notes: list[str]

    @model_validator(mode="after")
    def _lower_is_below_upper(self) -> GoalBounds:
        if None not in (self.lower_pps, self.upper_pps) and self.lower_pps >= self.upper_pps:  # type: ignore[operator]
            raise ValueError(f"bounds of {self.goal}: {self.lower_pps} is not below the upper")
        return self

    @property
    def reached_width(self) -> float | None:
        """(upper - lower) / upper as it was found; None where a bound is missing."""
        if self.lower_pps is None or self.upper_pps is None:
            return None
        return (self.upper_pps - self.lower_pps) / self.upper_pps

    @property
    def reached(self) -> bool:
        """True if there are both bounds, within the requested width."""
        return self.reached_width is not None and self.reached_width <= self.width


class LatencyAtLoad(Value):
    """One-way time at a load, of every frame of it or of probes beside it."""

    fraction: Ratio  # the load over R+
    load_pps: Amount  # intended, total over all pairs
    burst: Count  # frames that were due together
    probe_rate_pps: Amount | None = None  # total; None: every frame of the load was timed
    load_met: bool  # the load was really offered
    loss_ratio: Ratio
    latency: Latency


class MethodResult(Value):
    """The result of a method of many trials (docs/methods.md)."""

    method: str
    headline: str | None  # name of the figure that stands for all; None: there is none
    figures: list[MethodFigure]
    bounds: list[GoalBounds] = Field(default_factory=list)
    latency: list[LatencyAtLoad] = Field(default_factory=list)
    stopped: str  # why it ended
    spent_s: Amount
    budget_s: Amount | None
    warm_up_trials: Count
    notes: list[str]
    trial_count: Count
    trials: list[MethodTrial]

    @model_validator(mode="after")
    def _headline_is_a_figure(self) -> MethodResult:
        if self.headline is not None and self.figure(self.headline) is None:
            raise ValueError(f"method.headline {self.headline!r} is none of its figures")
        if self.trial_count != len(self.trials):
            raise ValueError(
                f"method.trial_count is {self.trial_count}, but {len(self.trials)} trials are kept"
            )
        return self

    def figure(self, name: str | None) -> MethodFigure | None:
        """The figure of this name; None where the method lacks it."""
        return next((figure for figure in self.figures if figure.name == name), None)
