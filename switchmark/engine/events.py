"""The events of the traffic engine as values, and the one place where its lines become them.

`events.schema.json` beside this file says what every field means; a unit test holds these types
to it, in both directions.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
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
TableKind = Literal["table", "denied", "tunnels"]
IdleStrategy = Literal["poll", "yield", "sleep", "baton"]


class EventPart(BaseModel):
    """A part of an event: immutable, with the schema's fields and types only, and no NaN."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True
    )

    def as_printed(self) -> dict[str, Any]:
        """The fields as the engine printed them, for a record."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class EngineBuild(EventPart):
    """Properties by which two builds of one revision differ in speed."""

    compiler: str
    optimisation: str
    sanitizers: str | None
    coverage: bool
    cpu: str | None
    options: str | None
    dpdk: str | None
    build_id: str | None
    fast: bool


class SocketBuffers(EventPart):
    """The buffers that the kernel granted a socket."""

    asked_bytes: Count
    receive_bytes: Count
    send_bytes: Count
    busy_poll: bool


class EnginePort(EventPart):
    """One port of the engine."""

    index: Count
    backend: str
    spec: str
    mac: Mac
    driver: str
    mtu_bytes: Count
    buffers: MayLack[SocketBuffers] = None


class FrameCounters(EventPart):
    """Counters of frames, bytes and calls, sent and received."""

    tx_intended: Count
    tx_offered: Count
    tx_dropped: Count
    tx_late: Count
    tx_denied: Count
    tx_misfits: Count
    tx_bytes: Count
    tx_polls: Count
    ring_full_polls: Count
    rx_bytes: Count
    rx_frames: Count
    rx_foreign: Count
    rx_other: Count
    rx_runts: Count
    rx_jumbos: Count
    rx_tagged: Count
    rx_verification: Count
    rx_wrong_next_hop: Count
    rx_wrong_header: Count
    rx_denied: Count
    rx_corrupt: Count
    rx_stale: Count
    rx_beyond_window: Count
    rx_early: Count
    rx_socket_drops: Count
    rx_missing: Count
    rx_missed_away: Count
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
    """Counters of one port of a forwarder or reference."""

    rx_frames: Count
    rx_socket_drops: Count
    tx_offered: Count
    tx_dropped: Count


class IntervalPort(PortFrames):
    """Counters of one port in an interval."""

    up: bool


class Faults(EventPart):
    """Faults that a reference applied to the frames that leave by a port."""

    dropped: Count
    duplicated: Count
    reordered: Count
    corrupted: Count
    limited: Count
    overflowed: Count
    too_long: Count
    waiting: Count


class ResultPort(PortFrames):
    """Counters of one port in a trial."""

    faults: MayLack[Faults] = None


class SizeCount(EventPart):
    """The number of frames of one size that were sent."""

    frame_size_bytes: Count
    tx_frames: Count


class Residual(EventPart):
    """Frames that came while the port was drained, and when the last of them came."""

    frames: Count
    within_ns: Count


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
    """The arrived frames of a group."""

    expected: Count
    received_unique: Count
    lost: Count
    duplicates: Count
    reordered: Count


class Loss(Arrivals):
    """The arrived frames of the load, and their order (RFC 4737)."""

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


class WrongFields(EventPart):
    """For each header field, the number of frames in which it was not as expected."""

    next_hop: Count
    src_mac: Count
    vlan: Count
    ttl: Count
    dscp: Count
    src_ip: Count
    dst_ip: Count
    src_port: Count
    dst_port: Count
    vni: Count
    outer_src_ip: Count
    outer_dst_ip: Count
    outer_header: Count
    dst_mac: Count
    pcp: Count
    dei: Count
    ecn: Count
    id: Count
    df: Count
    flow_label: Count


class Expectation(EventPart):
    """The errors in intact frames of the load."""

    wrong_fields: WrongFields
    sample: str | None


class Scheduling(EventPart):
    """The scheduling class of the process."""

    policy: str | None
    priority: Count
    nice: int


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
    scheduling: Scheduling


class BatonUse(EventPart):
    """The turns of workers that share a core."""

    passes: Count
    by_yield: Count
    waited_ns: Count
    longest_wait_ns: Count
    silent_holders: Count


class Cycles(EventPart):
    """The cycles that a frame cost the workers."""

    useful_ticks: Count
    idle_ticks: Count
    useful_share: Share
    frames: Count
    ticks_per_frame: Amount | None


class HardwareCounts(EventPart):
    """Hardware events of the workers' cores."""

    with_kernel: bool
    counted_share: Amount
    reason: str | None
    cycles: Count | None
    instructions: Count | None
    branch_misses: Count | None
    cache_misses: Count | None
    dtlb_misses: Count | None


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
    """Differences of the delays of consecutive frames (RFC 3393)."""

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


class Lateness(EventPart):
    """The lateness of bursts."""

    late_max_ns: Count
    late_mean_ns: Amount
    late_p99_ns: Count
    late_p999_ns: Count
    bursts: Count


class LatenessOnCore(Lateness):
    """The lateness of bursts while the sender had its core."""

    away_ns: Count


class Pacing(Lateness):
    """The deviation of a sender from its schedule."""

    percentiles: Percentiles
    lateness: Histogram
    catch_up_bound_ns: Count
    skipped: Count
    longest_stall_ns: Count
    on_schedule: bool
    attentive: MayLack[LatenessOnCore] = None


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
    outer_header_bytes: MayLack[Count] = None
    mean_frame_size_bytes: Amount
    ip_version: Literal[4, 6]
    vlan: str | None
    flows: Count
    payload: Literal["fixed", "counter", "random"]
    touch: bool
    idle: IdleStrategy


class ProbePacing(EventPart):
    """The lateness of probes."""

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
    expectation: MayLack[Expectation] = None
    flow_groups: MayLack[tuple[Arrivals, ...]] = None
    latency: MayLack[TimedDelays] = None
    probe: MayLack[ProbeStream] = None


class RecordedDelays(Delays):
    """Figures of some delays, and their histogram."""

    histogram: Histogram


class TcpCounters(EventPart):
    """Counters of requests, connections and payload bytes of the TCP roles."""

    attempted: Count
    completed: Count
    refused: Count
    reset: Count
    timed_out: Count
    closed: Count
    unreachable: Count
    malformed: Count
    failed_otherwise: Count
    connects: Count
    connected: Count
    accepted: Count
    turned_away: Count
    sent_bytes: Count
    received_bytes: Count


class TcpTotals(TcpCounters):
    """All counters of a trial of a TCP role."""

    useful_ticks: Count
    idle_ticks: Count
    cpu_ns: Count
    cpu_user_ns: Count
    cpu_system_ns: Count


class TcpKernel(EventPart):
    """The kernel's counters of TCP connections, as sums."""

    retransmits: Count
    retransmitted_bytes: Count
    segments_out: Count
    segments_in: Count
    data_segments_out: Count
    data_segments_in: Count
    acked_bytes: Count
    out_of_order_segments: Count
    busy_us: Count
    receiver_limited_us: Count
    buffer_limited_us: Count


class TcpGauge(EventPart):
    """A value of some connections at a moment."""

    mean: Amount
    min: Count
    max: Count


class TcpConnectionState(EventPart):
    """Values of the connections at a moment."""

    connections: Count
    rtt_us: TcpGauge
    rtt_min_us: TcpGauge
    cwnd_segments: TcpGauge
    delivery_bytes_s: TcpGauge
    mss_bytes: TcpGauge


class TcpLatency(EventPart):
    """Delays of requests over TCP."""

    from_due: RecordedDelays | None
    from_sent: RecordedDelays | None
    first_byte: RecordedDelays | None
    connect: RecordedDelays | None
    lateness: RecordedDelays | None
    unanswered: RecordedDelays | None


class TcpConfig(EventPart):
    """The load that a trial of a TCP role was asked for."""

    workload: Literal["rr", "crr", "stream", "http"]
    address: str
    rate_rps: Positive | None
    schedule: Schedule
    connections: AtLeastOne
    request_bytes: Count | None
    response_bytes: Count | None
    path: str | None
    timeout_ns: Count
    server_spin_ns: Count
    congestion_control: str | None
    idle: IdleStrategy


PROTOCOL_VERSION: Literal[2] = 2
_SHOWN_CHARACTERS = 200


class Ready(EventPart):
    """The engine's ports are up."""

    v: Literal[2]
    event: Literal["ready"]
    role: Literal[
        "sender", "receiver", "client", "server", "forwarder", "reference", "tester", "duplex",
        "tcp-client", "tcp-server",
    ]  # fmt: skip
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
    rx_wrong_next_hop: Count
    rx_wrong_header: Count
    rx_denied: Count
    rx_corrupt: Count
    rx_stale: Count
    rx_beyond_window: Count
    rx_early: Count
    rx_socket_drops: Count
    tx_offered: Count
    tx_dropped: Count


class Injected(EventPart):
    """The answer to `inject`."""

    v: Literal[2]
    event: Literal["injected"]
    accepted: tuple[bool, ...]


class Capturing(EventPart):
    """The answer to `capture`."""

    v: Literal[2]
    event: Literal["capturing"]
    frames: Count


class Captured(EventPart):
    """A frame that arrived while frames were captured."""

    v: Literal[2]
    event: Literal["captured"]
    port: Count
    t_ns: Count
    length_bytes: Count
    cut: bool
    hex: Annotated[str, Field(pattern=r"^([0-9a-f]{2}){0,256}$")]

    @property
    def data(self) -> bytes:
        """The first 256 bytes of the frame, from the destination address on."""
        return bytes.fromhex(self.hex)


class TableLoaded(EventPart):
    """The answer to `table`, `denied` and `tunnels`."""

    v: Literal[2]
    event: Literal["table"]
    kind: TableKind
    rows: Count
    loaded: Count


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
    lost_link: MayLack[bool] = None


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
    expectation: MayLack[Expectation] = None
    flow_groups: MayLack[tuple[Arrivals, ...]] = None
    latency: MayLack[TimedDelays] = None
    probe: MayLack[ProbeStream] = None
    ports: MayLack[tuple[ResultPort, ...]] = None
    pacing: Pacing | None
    cpu: CpuUse
    cycles: Cycles
    hardware: HardwareCounts | None
    baton: MayLack[BatonUse] = None


class TcpInterval(TcpTotals):
    """The counters of one interval of a TCP role."""

    v: Literal[2]
    event: Literal["tcp_interval"]
    index: Count
    t_ns: Count
    duration_ns: Count
    open_connections: Count
    behind_ns: Count
    kernel: TcpKernel | None
    connection_state: TcpConnectionState | None


class TcpResult(EventPart):
    """The result of a trial of a TCP role."""

    v: Literal[2]
    event: Literal["tcp_result"]
    reason: Literal["duration", "stop", "signal", "eof", "failure"]
    duration_ns: Count
    drain_ns: Count
    drained: bool
    config: TcpConfig
    totals: TcpTotals
    unsent: Count
    unfinished: Count
    latency: TcpLatency | None
    kernel: TcpKernel
    connection_state: TcpConnectionState | None
    congestion_control: str | None
    congestion_varies: bool
    time_waits: Count | None
    last_error: str | None
    cpu: CpuUse
    hardware: HardwareCounts | None


class Failed(EventPart):
    """The engine cannot go on."""

    v: Literal[2]
    event: Literal["error"]
    message: str


Event = Annotated[
    Ready
    | VerificationSent
    | EngineCounters
    | Injected
    | Capturing
    | Captured
    | TableLoaded
    | Started
    | IntervalEvent
    | Result
    | TcpInterval
    | TcpResult
    | Failed,
    Field(discriminator="event"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def parse(line: str) -> Event:
    """Read the event on a line. Raises ValueError with one line that says what is wrong with it."""
    try:
        return EVENT.validate_json(line)
    except ValidationError as error:
        raise ValueError(_describe(line, error)) from None


def _describe(line: str, error: ValidationError) -> str:
    try:
        document = json.loads(line)
        version, name = document["v"], document["event"]
    except (ValueError, KeyError, TypeError):
        return f"printed a line that is not an event: {line[:_SHOWN_CHARACTERS]}"
    if version != PROTOCOL_VERSION:
        return (
            f"uses protocol {version}, the bench {PROTOCOL_VERSION}: install both from the same "
            "checkout"
        )
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(step) for step in first["loc"][1:])
    return f"printed '{name}' with {where or 'event'}: {first['msg']}"[:_SHOWN_CHARACTERS]
