"""The record of one trial: everything that was asked, done, seen and concluded.

One JSON document a trial, validated when written and again when read. Units are in the
names. Raw samples and histograms are kept, so every figure can be computed again.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from switchmark.campaign.model import Trial

SCHEMA_VERSION = 1


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Placement(_Value):
    """Which core did what, and whether there were enough."""

    switch_cores: list[int]
    application_cores: dict[str, list[int]]  # node name -> cores
    bench_cores: list[int]
    oversubscribed: bool
    reason: str  # why it was placed so
    idle: str  # the idle strategy chosen


class Interval(_Value):
    """One sample of one engine process; counters are deltas over `duration_ns`."""

    index: int
    t_ns: int
    duration_ns: int
    counters: dict[str, int]


class EngineRun(_Value):
    """What one traffic application reported: its ready line, raw intervals and result."""

    node: str
    role: str
    pair: int
    args: list[str]
    ready: dict[str, Any]
    intervals: list[Interval]
    result: dict[str, Any]


class Trim(_Value):
    """The stated policy by which warm-up and cool-down samples were left out."""

    policy: str  # e.g. "fixed: first 1.0 s and last 0.5 s"
    kept_from_ns: int
    kept_to_ns: int
    samples_kept: int
    samples_dropped: int


class PairLoads(_Value):
    """Intended, offered and forwarded load of one pair over the kept window, frames per second."""

    pair: int
    intended_pps: float | None  # None: saturating
    offered_pps: float
    forwarded_pps: float
    lost_frames: int | None = None
    duplicates: int | None = None
    reordered: int | None = None
    corrupt: int | None = None


class Throughput(_Value):
    """Sums over pairs, over the kept window."""

    intended_pps: float | None
    offered_pps: float
    forwarded_pps: float
    forwarded_l2_bps: float  # frame with FCS
    forwarded_l1_bps: float  # plus 20 B preamble, SFD, inter-frame gap
    forwarded_stdev_pps: float  # over the kept interval samples
    loss_ratio: float  # (offered - forwarded) / offered, whole trial, from sequence numbers
    pairs: list[PairLoads]


class Latency(_Value):
    """Round-trip time over all pairs, every sample of the trial after warm-up."""

    kind: Literal["rtt", "one_way"]
    count: int
    min_ns: float
    mean_ns: float
    stdev_ns: float
    max_ns: float
    percentiles_ns: dict[str, float]  # "50", "90", "99", "99.9", "99.99", "99.999"
    intended_percentiles_ns: dict[str, float]  # from the intended send time
    histogram: str  # HdrHistogram V2 compressed base64, ns, merged over pairs
    intended_histogram: str
    lost: int  # requests without an answer


class Verification(_Value):
    """The pre-flight check: learning frames both ways, arrival, no flooding."""

    probes_sent: int
    probes_arrived: int
    strays: int  # frames of one pair seen at another pair's port
    witness_frames: int | None  # frames that left the switch's third port after teaching
    passed: bool
    message: str


class Limit(_Value):
    """What limited the number, from measured evidence."""

    what: Literal["generator", "switch", "receiver", "link", "rate", "cpu-shared", "unknown"]
    evidence: list[str]


class Verdict(_Value):
    """How far the number can be trusted."""

    valid: bool
    marks: list[str]  # e.g. "oversubscribed", "generator-bound", "unstable", "flooding"
    explanations: list[str]  # one sentence a mark: what it means and what to do


class CpuCost(_Value):
    """CPU seconds per second, by who used them, over the trial."""

    switch_cores_used: float | None  # None: in-kernel, cannot be told from its callers
    applications_cores_used: float
    softirq_cores_used: float | None
    run_delay_share: float | None  # share of time applications were runnable but waited


class Timing(_Value):
    """The bench's own time around the measurement, seconds."""

    deploy_s: float
    verify_s: float
    measure_s: float
    teardown_s: float
    overhead_s: float  # deploy + verify + teardown + anything else not measuring


class Record(_Value):
    """One trial, finished or failed."""

    schema_version: int = SCHEMA_VERSION
    trial_id: str
    trial: Trial
    campaign: str
    run_id: str
    status: Literal["finished", "failed"]
    message: str = ""  # why it failed; empty when finished
    started_at: str  # RFC 3339 UTC
    ended_at: str
    notation: str  # the (D, L, S, V, P, R, B) tuple
    connect_mode: str | None = None
    port_kind: str | None = None
    io: str | None = None
    placement: Placement | None = None
    verification: Verification | None = None
    throughput: Throughput | None = None
    latency: Latency | None = None
    limit: Limit | None = None
    verdict: Verdict | None = None
    cpu: CpuCost | None = None
    trim: Trim | None = None
    timing: Timing | None = None
    engines: list[EngineRun] = Field(default_factory=list)
    switch_details: dict[str, str] = Field(default_factory=dict)
    switch_counters_before: dict[str, Any] = Field(default_factory=dict)
    switch_counters_after: dict[str, Any] = Field(default_factory=dict)
    switch_log: str = ""
    provenance: dict[str, Any] = Field(default_factory=dict)
