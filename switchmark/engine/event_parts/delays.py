"""Delays of frames, and how they vary (RFC 3393, RFC 5481)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from switchmark.engine.event_parts.part import Amount, Count, EventPart
from switchmark.statistics.histogram import Histogram


class Percentiles(EventPart):
    """Values at or below which a share of samples lies."""

    p50: Count = Field(alias="50")
    p90: Count = Field(alias="90")
    p99: Count = Field(alias="99")
    p99_9: Count = Field(alias="99.9")
    p99_99: Count = Field(alias="99.99")
    p99_999: Count = Field(alias="99.999")


class Delays(EventPart):
    """Figures of some delays."""

    count: Count
    min_ns: Count
    max_ns: Count
    mean_ns: Amount
    stdev_ns: Amount
    clamped: Count
    percentiles: Percentiles


class Pdv(EventPart):
    """Delays less the shortest one (RFC 5481)."""

    max_ns: Count
    mean_ns: float
    percentiles: Percentiles
    base_ns: Count
    above: Histogram
    below: Histogram


class Ipdv(EventPart):
    """How delays of neighbours differ (RFC 3393)."""

    count: Count
    mean_ns: float
    mean_magnitude_ns: Amount
    max_grown_ns: Count
    max_shrunk_ns: Count
    clamped: Count
    percentiles: Percentiles
    grown: Histogram
    shrunk: Histogram


class TimedDelays(Delays):
    """The `latency` of a result: figures, histograms and variation."""

    kind: Literal["rtt", "one_way"]
    unit: Literal["ns"]
    from_actual: Histogram
    from_intended: Histogram
    intended: Delays
    pdv: Pdv
    ipdv: Ipdv
