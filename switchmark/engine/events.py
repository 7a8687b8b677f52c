"""The events of the traffic engine as values, and the one place where its lines become them.

`events.schema.json` beside this file says what every field means; a unit test holds these types
to it, in both directions.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from switchmark.engine.event_parts.arrivals import Arrivals, Loss
from switchmark.engine.event_parts.build import EngineBuild
from switchmark.engine.event_parts.cost import BatonUse, CpuUse, Cycles, HardwareCounts
from switchmark.engine.event_parts.counters import (
    EnginePort,
    IntervalPort,
    Residual,
    ResultPort,
    SizeCount,
    Totals,
)
from switchmark.engine.event_parts.delays import TimedDelays
from switchmark.engine.event_parts.part import (
    AtLeastOne,
    Count,
    EventPart,
    IdleStrategy,
    MayLack,
    Positive,
)
from switchmark.engine.event_parts.sender_pacing import Pacing
from switchmark.engine.event_parts.sent_load import EngineConfig
from switchmark.engine.event_parts.streams import DirectionResult, ProbeStream

PROTOCOL_VERSION: Literal[2] = 2
_SHOWN_CHARACTERS = 200


class Ready(EventPart):
    """The engine's ports are up."""

    v: Literal[2]
    event: Literal["ready"]
    role: Literal[
        "sender", "receiver", "client", "server", "forwarder", "reference", "tester", "duplex"
    ]
    pid: AtLeastOne
    engine_version: str
    build: EngineBuild
    tsc_hz: Positive
    clock: Literal["tsc", "cntvct", "monotonic"]
    clock_step_ns: Positive
    idle: IdleStrategy
    ports: tuple[EnginePort, ...]
    queues: AtLeastOne
    dpdk_version: str | None
    page_size_kib: int | None
    cpu: tuple[Count, ...] | None


class VerificationSent(EventPart):
    """The answer to `verify` and `verify-broadcast`."""

    v: Literal[2]
    event: Literal["verification"]
    sent: Count


class EngineCounters(EventPart):
    """The answer to `counters`."""

    v: Literal[2]
    event: Literal["counters"]
    t_ns: Count
    ticks: Count
    tsc_hz: Positive
    rx_stream: Count
    rx_verification: Count
    rx_foreign: Count
    rx_other: Count
    rx_runts: Count
    rx_jumbos: Count
    rx_tagged: Count
    rx_corrupt: Count
    rx_stale: Count
    rx_beyond_window: Count
    rx_early: Count
    rx_socket_drops: Count
    tx_offered: Count
    tx_dropped: Count


class Started(EventPart):
    """A trial has begun."""

    v: Literal[2]
    event: Literal["started"]
    t_ns: Count
    tsc_hz: Positive


class IntervalEvent(Totals):
    """The counters of one interval."""

    v: Literal[2]
    event: Literal["interval"]
    index: Count
    t_ns: Count
    duration_ns: Count
    rx_frames: int
    rx_bytes: int
    rx_missing: int
    rx_early: int
    ports: MayLack[tuple[IntervalPort, ...]] = None


class Result(EventPart):
    """The result of a trial."""

    v: Literal[2]
    event: Literal["result"]
    reason: Literal["duration", "stop", "signal", "eof", "replayed", "sent", "failure"]
    partial: bool
    fault: str | None
    duration_ns: Count
    drain_ns: Count
    drained: MayLack[bool] = None
    residual: MayLack[Residual] = None
    config: EngineConfig
    sizes: MayLack[tuple[SizeCount, ...]] = None
    totals: Totals
    directions: MayLack[tuple[DirectionResult, ...]] = None
    loss: MayLack[Loss] = None
    flow_groups: MayLack[tuple[Arrivals, ...]] = None
    latency: MayLack[TimedDelays] = None
    probe: MayLack[ProbeStream] = None
    ports: MayLack[tuple[ResultPort, ...]] = None
    pacing: Pacing | None
    cpu: CpuUse
    cycles: Cycles
    hardware: HardwareCounts | None
    baton: MayLack[BatonUse] = None


class Failed(EventPart):
    """The engine cannot go on."""

    v: Literal[2]
    event: Literal["error"]
    message: str


Event = Annotated[
    Ready | VerificationSent | EngineCounters | Started | IntervalEvent | Result | Failed,
    Field(discriminator="event"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def parse(line: str) -> Event:
    """Read the event on a line. Raises ValueError with one line that says what is wrong with it."""
    try:
        return EVENT.validate_json(line)
    except ValidationError as error:
        raise ValueError(_say(line, error)) from None


def _say(line: str, error: ValidationError) -> str:
    try:
        said = json.loads(line)
        version, name = said["v"], said["event"]
    except (ValueError, KeyError, TypeError):
        return f"printed a line that is no event: {line[:_SHOWN_CHARACTERS]}"
    if version != PROTOCOL_VERSION:
        return (
            f"speaks protocol {version}, the bench {PROTOCOL_VERSION}: install both from the same "
            "checkout"
        )
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(step) for step in first["loc"][1:])
    return f"printed '{name}' with {where or 'event'}: {first['msg']}"[:_SHOWN_CHARACTERS]
