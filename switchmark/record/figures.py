"""The figures of a trial: loads of pairs and their sums, delays.

The validators refuse numbers that contradict each other: a wrong number is the worst bug.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, model_validator

from switchmark.model.value import Amount, Count, PercentileBounds, Percentiles, Ratio, Value
from switchmark.record.quality import DelayVariation, Reordering
from switchmark.statistics.histogram import Histogram

Direction = Literal["forward", "reverse"]


class DirectionLoads(Value):
    """One direction of bidirectional traffic, summed over pairs."""

    direction: Direction
    offered_pps: Amount
    forwarded_pps: Amount
    loss_ratio: Ratio  # lost over offered frames in this direction, whole trial


class PairLoads(Value):
    """Intended, offered and forwarded load of one pair over the kept window, frames per second."""

    pair: Count
    direction: Direction = "forward"
    intended_pps: Amount | None  # None: saturating
    offered_pps: Amount
    forwarded_pps: Amount
    lost_frames: Count | None = None
    duplicates: Count | None = None
    reordered: Count | None = None
    corrupt: Count | None = None
    reordering: Reordering | None = None  # None: all in order, or not reported by the engine


class Throughput(Value):
    """Sums over pairs (and, of bidirectional traffic, over both directions), kept window."""

    intended_pps: Amount | None
    offered_pps: Amount
    forwarded_pps: Amount
    forwarded_l2_bps: Amount  # frame with FCS
    forwarded_l1_bps: Amount  # plus 20 B preamble, SFD, inter-frame gap
    forwarded_stdev_pps: Amount  # over the kept interval samples
    loss_ratio: Ratio  # frames lost of those that were to arrive, from sequence numbers
    burst_pps: Amount | None = None  # the step of forwarded_pps: one burst of each stream in it
    away_share: Ratio | None = None  # share of these lost while a receiver was descheduled
    pairs: list[PairLoads]  # bidirectional: two of each
    directions: list[DirectionLoads] = Field(default_factory=list)  # only bidirectional traffic
    jain_fairness: Ratio | None = None  # over the pairs' forwarded loads; None: one pair only
    reordered_ratio: Ratio | None = None  # reordered over different frames, whole trial
    max_reorder_extent: Count | None = None

    @model_validator(mode="after")
    def _sums_are_sums(self) -> Throughput:
        for name in ("offered_pps", "forwarded_pps"):
            total: float = getattr(self, name)
            for label, parts in (("pairs", self.pairs), ("directions", self.directions)):
                added = math.fsum(getattr(part, name) for part in parts)
                if parts and not math.isclose(total, added, rel_tol=1e-3, abs_tol=1.0):
                    raise ValueError(f"throughput.{name} is {total}, but {label} sum to {added}")
        return self


class LoadBeside(Value):
    """The untimed load beside the probes that were timed; totals over all pairs."""

    probe_rate_pps: Amount  # intended
    intended_pps: Amount | None  # None: saturating
    offered_pps: Amount
    loss_ratio: Ratio  # loss of the load on its way to the server, whole trial


class Latency(Value):
    """Round-trip or one-way time over all pairs, every sample of the trial after warm-up."""

    kind: Literal["rtt", "one_way"]
    count: Count
    min_ns: Amount
    mean_ns: Amount
    stdev_ns: Amount
    max_ns: Amount
    percentiles_ns: Percentiles  # "50", "90", "99", "99.9", "99.99", "99.999"
    # From the intended send time; None if the program that timed the frames does not know it.
    intended_percentiles_ns: Percentiles | None = None
    # 95 % bounds of each percentile from its order statistics; None: too few samples for one
    percentile_intervals_ns: dict[str, PercentileBounds] = Field(default_factory=dict)
    intended_percentile_intervals_ns: dict[str, PercentileBounds] = Field(default_factory=dict)
    intended_mean_ns: Amount | None = None
    intended_stdev_ns: Amount | None = None
    intended_max_ns: Amount | None = None
    histogram: Histogram  # merged over pairs
    intended_histogram: Histogram | None = None
    lost: Count  # requests without an answer
    # Of one-way times between two hosts: all of them may be wrong by so much, either way and alike,
    # since the offset of the clocks is not known better. None: one clock timed them.
    clock_uncertainty_ns: Amount | None = None
    variation: DelayVariation | None = None
    beside: LoadBeside | None = None  # where probes were timed beside an untimed load
    directions: list[DirectionLatency] = Field(default_factory=list)  # only bidirectional traffic

    @model_validator(mode="after")
    def _figures_agree(self) -> Latency:
        if self.count == 0:
            raise ValueError("latency.count is 0: without one answer there is no latency")
        if not self.min_ns <= self.max_ns:
            raise ValueError(f"latency: min_ns {self.min_ns} is above max_ns {self.max_ns}")
        # Means taken from a histogram may lie outside by one bucket (below 1 %).
        if not self.min_ns * 0.99 <= self.mean_ns <= self.max_ns * 1.01:
            raise ValueError(f"latency: mean_ns {self.mean_ns} is not between min and max")
        ways = sum(way.latency.count for way in self.directions)
        if self.directions and ways != self.count:
            raise ValueError(f"latency.count is {self.count}, but its directions sum to {ways}")
        # Requests without an answer may be in the delays from the due time, with the time waited.
        for name, more in (("histogram", 0), ("intended_histogram", self.lost)):
            histogram = getattr(self, name)
            if histogram is not None and not self.count <= histogram.count <= self.count + more:
                raise ValueError(
                    f"latency.{name} has {histogram.count} samples, but count is {self.count}"
                )
        return self


class DirectionLatency(Value):
    """One direction of bidirectional traffic, merged over pairs."""

    direction: Direction
    latency: Latency
