"""The probe stream beside the load, and a tester's traffic from one port to the other."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from switchmark.engine.event_parts.arrivals import Arrivals, Loss
from switchmark.engine.event_parts.counters import FrameCounters
from switchmark.engine.event_parts.delays import TimedDelays
from switchmark.engine.event_parts.part import Amount, Count, EventPart, MayLack


class ProbePacing(EventPart):
    """How late probes left."""

    late_max_ns: Count
    late_mean_ns: Amount
    late_p99_ns: Count
    skipped: Count


class ProbeStream(EventPart):
    """The probe stream beside the load."""

    stream: Count
    rate_pps: MayLack[Amount] = None
    schedule: MayLack[Literal["constant", "poisson"]] = None
    totals: FrameCounters
    loss: MayLack[Loss] = None
    flow_groups: MayLack[tuple[Arrivals, ...]] = None
    latency: MayLack[TimedDelays] = None
    pacing: MayLack[ProbePacing] = None


class DirectionResult(EventPart):
    """A tester's traffic from one port to the other."""

    from_: Count = Field(alias="from")
    to: Count
    totals: FrameCounters
    loss: Loss
    flow_groups: MayLack[tuple[Arrivals, ...]] = None
    latency: MayLack[TimedDelays] = None
    probe: MayLack[ProbeStream] = None
