"""The load that a trial was asked to send: rate, schedule, sizes, or the file to replay."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from switchmark.engine.event_parts.part import (
    Amount,
    AtLeastOne,
    Count,
    EventPart,
    IdleStrategy,
    MayLack,
    Positive,
)


class EvenSchedule(EventPart):
    """A schedule without parameters."""

    shape: Literal["constant", "recorded"]


class PoissonSchedule(EventPart):
    """Bursts at independent exponential distances."""

    shape: Literal["poisson"]
    seed: Count


class OnOffSchedule(EventPart):
    """Bursts during the on-times alone."""

    shape: Literal["on-off"]
    on_ns: Count
    off_ns: Count


class RampSchedule(EventPart):
    """Bursts at a rate that changes in a straight line."""

    shape: Literal["ramp"]
    from_pps: Amount
    to_pps: Amount
    over_ns: Count


Schedule = Annotated[
    EvenSchedule | PoissonSchedule | OnOffSchedule | RampSchedule, Field(discriminator="shape")
]


class Replay(EventPart):
    """The file whose frames are sent."""

    file: str
    frames: Count
    mean_frame_size_bytes: Amount
    length_ns: Count
    loops: Count
    stamped: bool


class EngineConfig(EventPart):
    """The load that the trial was asked to send."""

    rate_pps: Positive | None
    rate_l1_bps: Positive | None
    rate_l2_bps: Positive | None
    line_rate_bps: MayLack[Count] = None
    schedule: Schedule
    replay: MayLack[Replay] = None
    burst: AtLeastOne
    frame_size_bytes: Count | None
    mean_frame_size_bytes: Amount
    ip_version: Literal[4, 6]
    vlan: str | None
    flows: Count
    payload: Literal["fixed", "counter", "random"]
    touch: bool
    idle: IdleStrategy
