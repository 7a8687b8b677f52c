"""Parts of a record beyond rates and delays: order, delay variation, cost of the engine's loops.

All are optional: records of an earlier engine have none of them.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from switchmark.model.value import Amount, Count, Percentiles, Ratio, Value
from switchmark.statistics.histogram import Histogram


class Reordering(Value):
    """The order in which a pair's frames arrived by RFC 4737, first copies alone.

    Gaps and runs between discontinuities (4.5, 4.6) are not taken: the metrics here are those that
    the receiver computes in constant memory."""

    reordered: Count
    ratio: Ratio  # of the different frames received
    max_extent: Count  # frames since the earliest one with a higher number (4.2)
    mean_extent: Amount  # over reordered frames
    max_late_ns: Count  # time since that one (4.3)
    mean_late_ns: Amount
    n_reordered: dict[str, Count] = Field(default_factory=dict)  # by n (5.3)
    is_lower_bound: bool = False  # more was open at once than the receiver remembers

    @model_validator(mode="after")
    def _degrees_fall(self) -> Reordering:
        counts = [self.n_reordered[n] for n in sorted(self.n_reordered, key=int)]
        if counts != sorted(counts, reverse=True) or any(n > self.reordered for n in counts):
            raise ValueError(
                f"reordering: {self.n_reordered} do not fall, from {self.reordered} on"
            )
        return self


class DelayVariation(Value):
    """How the delay varies, over all pairs.

    IPDV (RFC 3393): how much longer the way of a frame took than that of the frame sent right
    before it, over neighbours that both arrived. PDV (RFC 5481): the delay less the shortest."""

    ipdv_count: Count  # pairs of neighbours
    ipdv_mean_ns: float  # with its sign: near 0 unless delays drift
    ipdv_mean_magnitude_ns: Amount
    ipdv_percentiles_ns: Percentiles  # of the magnitude
    ipdv_grown: Histogram  # of changes from 0 up, merged over pairs
    ipdv_shrunk: Histogram  # of changes below 0, their magnitude
    pdv_mean_ns: Amount
    pdv_percentiles_ns: Percentiles

    @model_validator(mode="after")
    def _histograms_hold_every_pair(self) -> DelayVariation:
        held = self.ipdv_grown.count + self.ipdv_shrunk.count
        if held != self.ipdv_count:
            raise ValueError(
                f"variation.ipdv_count is {self.ipdv_count}, but {held} changes are kept"
            )
        return self


class LoopCost(Value):
    """What the traffic applications of one role spent in their loops, over all pairs."""

    frames: Count
    useful_share: Ratio  # of the time; the rest was polling in vain
    ns_per_frame: Amount | None  # of the rounds that moved frames; None: none was moved
    ticks_per_frame: Amount | None  # the same in ticks of the engine's clock (TSC)
