"""Counts besides the loads of a method's trials, and their form in the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.method.support.measurer import LoadPoint
from switchmark.record import MethodTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCounts:
    """Counts of one trial besides its load; totals over all pairs."""

    socket_drops: int  # dropped at the receivers' own sockets, not by the switch
    duplicates: int
    reordered: int
    corrupt: int
    stale: int  # frames of an earlier trial, counted apart
    drained: bool  # every receiver fell silent before it was stopped
    late_max_ns: int | None  # largest delay of the senders' pacing; None if they saturate


def as_trials(points: Sequence[LoadPoint], side_counts: Sequence[SideCounts]) -> list[MethodTrial]:
    """Return the trials as the record has them. `points` may come from a budgeted measurer, in the
    same order."""
    return [
        MethodTrial(
            intended_pps=point.intended_pps,
            offered_pps=point.offered_pps,
            forwarded_pps=point.forwarded_pps,
            offered_frames=point.offered_frames,
            lost_frames=point.lost_frames,
            unoffered_frames=point.unoffered_frames,
            duration_s=point.duration_s,
            elapsed_s=point.cost_s,
            ring_full_share=point.ring_full_share,
            socket_drops=one.socket_drops,
            lost_away=point.lost_away,
            late_frames=point.late_frames,
            queued_frames=point.queued_frames,
            stalled_s=point.stalled_s,
            duplicates=one.duplicates,
            reordered=one.reordered,
            corrupt=one.corrupt,
            late_max_ns=one.late_max_ns,
            drained=one.drained,
        )
        for point, one in zip(points, side_counts, strict=True)
    ]
