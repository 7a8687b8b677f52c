"""How well a sender kept its schedule."""

from __future__ import annotations

from switchmark.engine.event_parts.delays import Percentiles
from switchmark.engine.event_parts.part import Amount, Count, EventPart, MayLack
from switchmark.statistics.histogram import Histogram


class Lateness(EventPart):
    """How late bursts left."""

    late_max_ns: Count
    late_mean_ns: Amount
    late_p99_ns: Count
    late_p999_ns: Count
    bursts: Count


class Attentive(Lateness):
    """How late bursts left while the sender had its core."""

    away_ns: Count


class Pacing(Lateness):
    """How well a sender kept its schedule."""

    percentiles: Percentiles
    lateness: Histogram
    catch_up_bound_ns: Count
    skipped: Count
    longest_stall_ns: Count
    on_schedule: bool
    attentive: MayLack[Attentive] = None
