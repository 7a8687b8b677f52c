"""What the engine's events are made of: ports, counters, schedules, loss, delays, pacing, cost.

`events.schema.json` says what every field means, and in which unit. A field that the schema lets a
line leave out is None here when it was left out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from switchmark.statistics.histogram import Histogram

T = TypeVar("T")


def _refuse_null(value: T) -> T:
    if value is None:
        raise ValueError("null, though a field that does not apply is left out")
    return value


MayLack = Annotated[T | SkipJsonSchema[None], AfterValidator(_refuse_null)]
Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Mac = Annotated[str, Field(pattern=r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$")]
IdleStrategy = Literal["poll", "yield", "sleep", "baton"]


class EventPart(BaseModel):
    """A part of an event: closed, never changed, no NaN, no other type than the schema's."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True
    )

    def as_printed(self) -> dict[str, Any]:
        """The fields as the engine printed them, for a record."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Percentiles(EventPart):
    """Values at or below which a share of samples lies."""

    p50: Count = Field(alias="50")
    p90: Count = Field(alias="90")
    p99: Count = Field(alias="99")
    p99_9: Count = Field(alias="99.9")
    p99_99: Count = Field(alias="99.99")
    p99_999: Count = Field(alias="99.999")


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


class EnginePort(EventPart):
    """One port of the engine."""

    index: Count
    backend: str
    spec: str
    mac: Mac
    driver: str
    mtu_bytes: Count


class FrameCounters(EventPart):
    """What was sent and received, in frames, bytes and calls."""

    tx_intended: Count
    tx_offered: Count
    tx_dropped: Count
    tx_late: Count
    tx_bytes: Count
    rx_bytes: Count
    rx_frames: Count
    rx_foreign: Count
    rx_other: Count
    rx_verification: Count
    rx_corrupt: Count
    rx_stale: Count
    rx_socket_drops: Count
    rx_missing: Count
    rx_missed_away: Count
    ring_full_polls: Count
    tx_polls: Count
    idle_polls: Count
    useful_polls: Count


class Totals(FrameCounters):
    """All counters of a trial."""

    useful_ticks: Count
    idle_ticks: Count
    cpu_ns: Count
    cpu_user_ns: Count
    cpu_system_ns: Count


class PortFrames(EventPart):
    """One port of a forwarder or reference."""

    rx_frames: Count
    rx_socket_drops: Count
    tx_offered: Count
    tx_dropped: Count


class IntervalPort(PortFrames):
    """One port in an interval."""

    up: bool


class Faults(EventPart):
    """What a reference did to the frames that leave by a port."""

    dropped: Count
    duplicated: Count
    reordered: Count
    corrupted: Count
    limited: Count
    overflowed: Count
    too_long: Count
    waiting: Count


class ResultPort(PortFrames):
    """One port in a trial."""

    faults: MayLack[Faults] = None


class EvenSchedule(EventPart):
    """A schedule that needs no more words."""

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
    """What the trial was asked to send."""

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


class SizeCount(EventPart):
    """Frames of one size that were sent."""

    frame_size_bytes: Count
    tx_frames: Count


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
    """What arrived of some frames."""

    expected: Count
    received_unique: Count
    lost: Count
    duplicates: Count
    reordered: Count


class Loss(Arrivals):
    """What arrived of the load, and in which order (RFC 4737)."""

    sent: Count | None
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
    extent_is_lower_bound: bool


class Delays(EventPart):
    """The figures of some delays."""

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


class CpuUse(EventPart):
    """CPU time of the process over the trial."""

    wall_ns: Count
    cpu_ns: Count
    user_ns: Count
    system_ns: Count
    voluntary_switches: Count
    involuntary_switches: Count
    run_delay_ns: Count
    stolen_ns: Count
    stolen_own_cores_ns: Count | None


class BatonUse(EventPart):
    """How workers that share a core handed it to each other."""

    passes: Count
    by_yield: Count
    waited_ns: Count
    longest_wait_ns: Count
    silent_holders: Count


class Residual(EventPart):
    """What came while the port was drained, and how long the last of it took."""

    frames: Count
    within_ns: Count


class Cycles(EventPart):
    """What a frame cost the workers."""

    useful_ticks: Count
    idle_ticks: Count
    useful_share: Share
    frames: Count
    ticks_per_frame: Amount | None


class HardwareCounts(EventPart):
    """Events of the workers' cores."""

    with_kernel: bool
    counted_share: Amount
    reason: str | None
    cycles: Count | None
    instructions: Count | None
    branch_misses: Count | None
    cache_misses: Count | None
    dtlb_misses: Count | None
