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
    ratio: Ratio  # reordered frames over different frames received
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
    """The variation of the delay, over all pairs.

    IPDV (RFC 3393): the delay of a frame less that of the frame sent right before it, over
    neighbours that both arrived. PDV (RFC 5481): the delay less the shortest delay."""

    ipdv_count: Count  # pairs of neighbours
    ipdv_mean_ns: float  # with its sign: near 0 unless delays drift
    ipdv_mean_magnitude_ns: Amount
    ipdv_percentiles_ns: Percentiles  # percentiles of the magnitude
    ipdv_grown: Histogram  # changes of 0 and above, merged over pairs
    ipdv_shrunk: Histogram  # magnitudes of the changes below 0
    pdv_mean_ns: Amount
    pdv_percentiles_ns: Percentiles

    @model_validator(mode="after")
    def _histograms_hold_every_pair(self) -> DelayVariation:
        change_count = self.ipdv_grown.count + self.ipdv_shrunk.count
        if change_count != self.ipdv_count:
            raise ValueError(
                f"variation.ipdv_count is {self.ipdv_count}, but the histograms have {change_count}"
            )
        return self


class LoopCost(Value):
    """The time that the traffic applications of one role spent in their loops, over all pairs."""

    frames: Count
    useful_share: Ratio  # share of the time in rounds that moved frames
    ns_per_frame: Amount | None  # time in those rounds for each frame; None: no frame was moved
    ticks_per_frame: Amount | None  # the same in ticks of the engine's clock (TSC)
