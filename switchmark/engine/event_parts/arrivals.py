"""What arrived of a load, and in which order (RFC 4737)."""

from __future__ import annotations

from pydantic import Field

from switchmark.engine.event_parts.part import Amount, Count, EventPart, Share


class DegreeCounts(EventPart):
    """Frames that were n-reordered, by n (RFC 4737, 5.3)."""

    n1: Count = Field(alias="1")
    n2: Count = Field(alias="2")
    n3: Count = Field(alias="3")
    n4: Count = Field(alias="4")
    n8: Count = Field(alias="8")
    n16: Count = Field(alias="16")
    n32: Count = Field(alias="32")
    n64: Count = Field(alias="64")


class Gaps(EventPart):
    """Distances between reordering discontinuities (RFC 4737, 4.5)."""

    count: Count
    mean_frames: Amount
    mean_ns: Count


class FreeRuns(EventPart):
    """Frames in order between reordered ones (RFC 4737, 4.6)."""

    count: Count
    mean_frames: Amount
    stdev_frames: Amount
    max_frames: Count


class Arrivals(EventPart):
    """How many frames of a group arrived, and how."""

    expected: Count
    received_unique: Count
    lost: Count
    duplicates: Count
    reordered: Count


class Loss(Arrivals):
    """How many frames of the load arrived, and in which order (RFC 4737)."""

    sent: Count | None
    lost_at_least: Count
    reordered_ratio: Share
    max_reorder_extent: Count
    mean_reorder_extent: Amount
    max_late_offset_ns: Count
    mean_late_offset_ns: Count
    max_n_reordered: Count
    gaps: Gaps
    free_runs: FreeRuns
    n_reordered: DegreeCounts
    first_sequence: Count | None
    last_sequence: Count | None
    beyond_window: Count
    early: Count
    extent_is_lower_bound: bool
