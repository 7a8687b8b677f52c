"""The record of one trial: everything that was asked, done, seen and concluded.

One JSON document a trial, validated when written and again when read. Units are in the
names. Raw samples and histograms are kept, so every figure can be computed again. The
validators refuse numbers that contradict each other: a wrong number is the worst bug.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, model_validator

from switchmark.campaign.model import Dimension, Method, Trial
from switchmark.results.histogram import decode_histogram
from switchmark.results.quality import DelayVariation, LoopCost, Reordering
from switchmark.results.values import (
    Amount,
    Count,
    FreeForm,
    Percentiles,
    Ratio,
    UtcTime,
    Value,
    parse_utc,
)

SCHEMA_VERSION: Literal[1] = 1

L1_OVERHEAD_BYTES = 20  # preamble 7, start delimiter 1, inter-frame gap 12 (IEEE 802.3)


class Placement(Value):
    """Which core did what, and whether there were enough."""

    switch_cores: list[Count]
    application_cores: dict[str, list[Count]]  # node name -> cores
    bench_cores: list[Count]
    oversubscribed: bool
    reason: str  # why it was placed so
    idle: str  # the idle strategy chosen
    neighbour_cores: list[Count] = Field(default_factory=list)  # none: it is not pinned


class Interval(Value):
    """One sample of one engine process; counters are deltas over `duration_ns`.

    Frames that turn out to be an earlier trial's are taken back (docs/engine-protocol.md,
    `rx_stale`), so the deltas of what arrived may be negative; no others may."""

    index: Count
    t_ns: int
    duration_ns: Count
    counters: dict[str, int]

    @model_validator(mode="after")
    def _only_arrivals_are_taken_back(self) -> Interval:
        for name, value in self.counters.items():
            if value < 0 and name not in ("rx_frames", "rx_bytes"):
                raise ValueError(f"interval {self.index}: {name} is {value}, below 0")
        return self


class EngineRun(Value):
    """What one traffic application reported: its ready line, raw intervals and result."""

    node: str
    role: str
    pair: Count
    args: list[str]
    ready: FreeForm
    intervals: list[Interval]
    result: FreeForm


class VnfRun(Value):
    """What stood in a chain, and what it says of itself."""

    node: str
    pair: Count
    kind: str  # forwarder, bridge, pcap, program
    command: list[str]  # as it was run, or the lines that configured it
    forwarded_frames: Count | None = None  # both ways, since it started; None: it does not say
    dropped_frames: Count | None = None


class Trim(Value):
    """The stated policy by which warm-up and cool-down samples were left out."""

    policy: str  # e.g. "fixed: first 1.0 s and last 0.5 s"
    kept_from_ns: int
    kept_to_ns: int
    samples_kept: Count
    samples_dropped: Count

    @model_validator(mode="after")
    def _window_runs_forward(self) -> Trim:
        if self.kept_to_ns < self.kept_from_ns:
            raise ValueError("trim: kept_to_ns lies before kept_from_ns")
        return self


class OutlierSample(Value):
    """A sample that does not belong to the rest; reported, never dropped."""

    index: Count
    value: float
    score: float  # modified z-score; beyond +-3.5


class SteadyRun(Value):
    """Where the run became steady and whether it stayed so, by stated tests over *all* samples
    (docs/methods.md); the fixed trim policy beside it says which samples the figures are of."""

    policy: str  # e.g. "MSER-5: first 3 of 50 samples left out"
    steady: bool
    reason: str
    warm_up_samples: Count
    change_p: Ratio | None  # of the CUSUM test; None: not testable
    mean_pps: Amount | None  # over the samples after the warm-up
    mean_without_outliers_pps: Amount | None
    outliers: list[OutlierSample]
    two_bands: str | None  # in words, where the samples fall into two groups


Direction = Literal["forward", "reverse"]


class DirectionLoads(Value):
    """One direction of bidirectional traffic, summed over pairs."""

    direction: Direction
    offered_pps: Amount
    forwarded_pps: Amount
    loss_ratio: Ratio  # of the frames offered in this direction, whole trial


class PairLoads(Value):
    """Intended, offered and forwarded load of one pair over the kept window, frames per second."""

    pair: Count
    direction: Direction = "forward"
    intended_pps: Amount | None  # None: saturating
    offered_pps: Amount
    forwarded_pps: Amount
    lost_frames: Count | None = None
    duplicates: Count | None = None
    reordered: Count | None = None
    corrupt: Count | None = None
    reordering: Reordering | None = None  # None: all came in order, or the engine does not tell


class Throughput(Value):
    """Sums over pairs (and, of bidirectional traffic, over both directions), kept window."""

    intended_pps: Amount | None
    offered_pps: Amount
    forwarded_pps: Amount
    forwarded_l2_bps: Amount  # frame with FCS
    forwarded_l1_bps: Amount  # plus 20 B preamble, SFD, inter-frame gap
    forwarded_stdev_pps: Amount  # over the kept interval samples
    loss_ratio: Ratio  # (offered - forwarded) / offered, whole trial, from sequence numbers
    pairs: list[PairLoads]  # bidirectional: two of each
    directions: list[DirectionLoads] = Field(default_factory=list)  # of bidirectional traffic
    jain_fairness: Ratio | None = None  # of the pairs' forwarded loads; None: there is one pair
    reordered_ratio: Ratio | None = None  # of the different frames received, whole trial
    max_reorder_extent: Count | None = None

    @model_validator(mode="after")
    def _sums_are_sums(self) -> Throughput:
        for name in ("offered_pps", "forwarded_pps"):
            total: float = getattr(self, name)
            parts = math.fsum(getattr(pair, name) for pair in self.pairs)
            if self.pairs and not math.isclose(total, parts, rel_tol=1e-3, abs_tol=1.0):
                raise ValueError(f"throughput.{name} is {total}, but its pairs sum to {parts}")
            ways = math.fsum(getattr(way, name) for way in self.directions)
            if self.directions and not math.isclose(total, ways, rel_tol=1e-3, abs_tol=1.0):
                raise ValueError(f"throughput.{name} is {total}, but its directions sum to {ways}")
        return self


class LoadBeside(Value):
    """The untimed load beside the probes that were timed; totals over all pairs."""

    probe_rate_pps: Amount  # intended
    intended_pps: Amount | None  # None: saturating
    offered_pps: Amount
    loss_ratio: Ratio  # of the load, on its way to the server, whole trial


class Latency(Value):
    """Round-trip time over all pairs, every sample of the trial after warm-up."""

    kind: Literal["rtt", "one_way"]
    count: Count
    min_ns: Amount
    mean_ns: Amount
    stdev_ns: Amount
    max_ns: Amount
    percentiles_ns: Percentiles  # "50", "90", "99", "99.9", "99.99", "99.999"
    intended_percentiles_ns: Percentiles  # from the intended send time
    histogram: str  # HdrHistogram V2 compressed base64, ns, merged over pairs
    intended_histogram: str
    lost: Count  # requests without an answer
    variation: DelayVariation | None = None
    beside: LoadBeside | None = None  # where probes were timed beside an untimed load

    @model_validator(mode="after")
    def _figures_agree(self) -> Latency:
        if self.count == 0:
            raise ValueError("latency.count is 0: without one answer there is no latency")
        if not self.min_ns <= self.max_ns:
            raise ValueError(f"latency: min_ns {self.min_ns} is above max_ns {self.max_ns}")
        # Means taken from a histogram may lie outside by one bucket (below 1 %).
        if not self.min_ns * 0.99 <= self.mean_ns <= self.max_ns * 1.01:
            raise ValueError(f"latency: mean_ns {self.mean_ns} is not between min and max")
        for name in ("histogram", "intended_histogram"):
            held = decode_histogram(getattr(self, name)).get_total_count()
            if held != self.count:
                raise ValueError(f"latency.{name} holds {held} samples, count says {self.count}")
        return self


class MethodTrial(Value):
    """One trial that a search or series made. Frames and rates are totals over all pairs."""

    intended_pps: Amount | None  # None: saturating
    offered_pps: Amount
    forwarded_pps: Amount
    offered_frames: Count
    lost_frames: Count  # offered and never arrived
    unoffered_frames: Count  # intended and never offered
    duration_s: Amount
    elapsed_s: Amount  # with the bench's overhead
    ring_full_share: Ratio | None  # transmit calls that met a full ring
    socket_drops: Count  # dropped at the receivers' own sockets
    duplicates: Count
    reordered: Count
    corrupt: Count
    late_max_ns: Count | None  # of the senders' pacing; None: saturating
    drained: bool  # the receivers fell silent before they were stopped

    @model_validator(mode="after")
    def _no_more_lost_than_sent(self) -> MethodTrial:
        if self.lost_frames > self.offered_frames:
            raise ValueError(f"{self.lost_frames} of {self.offered_frames} frames lost")
        return self


class MethodFigure(Value):
    """One figure of a method, with its 95 % interval where it has one."""

    name: str
    value: float
    unit: Literal["pps", "frames", "s", "ns", "ratio", "count"]
    low: float | None = None
    high: float | None = None
    count: Count = 1  # repetitions it is the mean of


class MethodBounds(Value):
    """What a search found for one goal. Loads are totals over all pairs."""

    goal: str
    loss_ratio: Ratio
    width: Ratio  # (upper - lower) / upper that was asked for
    lower_pps: Amount | None  # highest load found to be carried
    upper_pps: Amount | None  # lowest load found to be too much
    conditional_throughput_pps: Amount | None  # forwarded at the lower bound (RFC 9971)
    decided_by: Literal["switch", "noise", "sender", "range", "budget"]
    mixed_from_pps: Amount | None  # the range over which trials went both ways
    mixed_to_pps: Amount | None
    notes: list[str]

    @model_validator(mode="after")
    def _lower_is_below_upper(self) -> MethodBounds:
        if None not in (self.lower_pps, self.upper_pps) and self.lower_pps >= self.upper_pps:  # type: ignore[operator]
            raise ValueError(f"bounds of {self.goal}: {self.lower_pps} is not below the upper")
        return self


class LatencyAtLoad(Value):
    """One-way time at a load, of every frame of it or of probes beside it."""

    fraction: Ratio  # of R+
    load_pps: Amount  # intended, total over all pairs
    burst: Count  # frames that were due together
    probe_rate_pps: Amount | None = None  # total; None: every frame of the load was timed
    load_met: bool  # the load was really offered
    loss_ratio: Ratio
    latency: Latency


class MethodResult(Value):
    """What a method of many trials found (docs/methods.md)."""

    method: str
    headline: str | None  # name of the figure that stands for all; None: there is none
    figures: list[MethodFigure]
    bounds: list[MethodBounds] = Field(default_factory=list)
    latency: list[LatencyAtLoad] = Field(default_factory=list)
    stopped: str  # why it ended
    spent_s: Amount
    budget_s: Amount | None
    warm_up_trials: Count
    notes: list[str]
    trial_count: Count
    trials: list[MethodTrial]

    @model_validator(mode="after")
    def _headline_is_a_figure(self) -> MethodResult:
        if self.headline is not None and self.headline not in {f.name for f in self.figures}:
            raise ValueError(f"method.headline {self.headline!r} is none of its figures")
        if self.trial_count != len(self.trials):
            raise ValueError(f"method: {self.trial_count} trials said, {len(self.trials)} held")
        return self

    def figure(self, name: str) -> MethodFigure | None:
        """The figure of this name, if the method has it."""
        return next((figure for figure in self.figures if figure.name == name), None)


class Verification(Value):
    """The pre-flight check: learning frames both ways, arrival, no flooding."""

    probes_sent: Count
    probes_arrived: Count
    strays: Count  # frames of one pair seen at another pair's port
    witness_frames: Count | None  # frames that left the switch's third port after teaching
    passed: bool
    message: str


Place = Literal[
    "into the switch", "in the switch", "in the chain", "out of the switch", "on the wire"
]


class Stage(Value):
    """One part of a path: what went in less what came out, and who owns up to the difference."""

    place: Place
    lost: int  # below 0: more came out than went in
    counted: Count  # frames that something there says it has dropped
    unexplained: int  # of `lost`, what nothing has counted

    @model_validator(mode="after")
    def _only_the_rest_is_unexplained(self) -> Stage:
        if self.unexplained != min(self.lost, max(0, self.lost - self.counted)):
            raise ValueError(
                f"{self.place}: of {self.lost} lost and {self.counted} counted frames, "
                f"{self.unexplained} cannot be unexplained"
            )
        return self


class Path(Value):
    """The frames that went one way through one pair, as each station counted them."""

    pair: Count
    sender: str  # node
    receiver: str
    not_sent: Count  # wanted by the schedule, and never accepted by the sender's port
    sent: Count
    switch_received: Count | None  # None: the switch counts nothing
    switch_sent: Count | None
    arrived: Count  # whatever it was, and whether or not it was ours
    stages: list[Stage]

    @model_validator(mode="after")
    def _stages_add_up(self) -> Path:
        lost = sum(stage.lost for stage in self.stages)
        if lost != self.sent - self.arrived:
            raise ValueError(
                f"pair {self.pair}: its stages lose {lost} frames of {self.sent} sent, and "
                f"{self.arrived} arrived"
            )
        return self


class Reconciliation(Value):
    """The switch's counters against the applications': what was lost, and where."""

    paths: list[Path]
    sent: Count
    unexplained_frames: Count  # over all stages, too few and too many alike
    unexplained_ratio: Amount  # of the frames sent
    agrees: bool  # at most 0.01 % is unexplained
    findings: list[str]  # one sentence for each place where frames were lost, or appeared

    @model_validator(mode="after")
    def _sums_are_sums(self) -> Reconciliation:
        stages = [stage for path in self.paths for stage in path.stages]
        if self.unexplained_frames != sum(abs(stage.unexplained) for stage in stages):
            raise ValueError("reconciliation.unexplained_frames is not the sum of its stages")
        if self.sent != sum(path.sent for path in self.paths):
            raise ValueError("reconciliation.sent is not the sum of its paths")
        return self


class Limit(Value):
    """What limited the number, from measured evidence."""

    what: Literal["generator", "switch", "receiver", "link", "rate", "cpu-shared", "unknown"]
    evidence: list[str]


class Verdict(Value):
    """How far the number can be trusted."""

    valid: bool
    marks: list[str]  # names from `results/marks.py`, e.g. "oversubscribed"
    explanations: list[str]  # one sentence a mark: what it means and what to do

    @model_validator(mode="after")
    def _every_mark_is_explained(self) -> Verdict:
        if len(self.marks) != len(self.explanations):
            raise ValueError(
                f"verdict has {len(self.marks)} marks but {len(self.explanations)} explanations"
            )
        return self


class CpuCost(Value):
    """CPU seconds per second, by who used them, over the trial."""

    switch_cores_used: Amount | None  # None: in-kernel, cannot be told from its callers
    applications_cores_used: Amount
    softirq_cores_used: Amount | None
    run_delay_share: Amount | None  # share of time applications were runnable but waited
    total_cores_used: Amount | None = None  # by the trial in all, nothing counted twice
    others_cores_used: Amount | None = None  # by programs that have nothing to do with the trial
    stolen_cores: Amount | None = None  # taken by the hypervisor


class CpuQuota(Value):
    """The limit on the switch's CPU time, and what became of it over the measurement."""

    share: Ratio  # of each of its cores, as asked
    cores: Amount  # CPU seconds a second that it allows in all
    used_cores: Amount | None  # what the switch really used
    quota_us: Count
    period_us: Count
    cgroup_version: Literal[1, 2]
    periods: Count
    throttled_periods: Count
    throttled_s: Amount  # summed over the switch's threads
    in_force: bool  # it read back as set, and no more than it was used


class Neighbour(Value):
    """Background load during the measurement."""

    kind: str
    command: list[str]
    cores: list[Count]  # none: not pinned
    cpu_s: Amount  # what it used
    wall_s: Amount  # in this time


class Timing(Value):
    """The bench's own time around the measurement, seconds."""

    deploy_s: Amount
    verify_s: Amount
    measure_s: Amount
    teardown_s: Amount
    overhead_s: Amount  # deploy + verify + teardown + anything else not measuring


class Record(Value):
    """One trial, finished or failed."""

    schema_version: Literal[1] = SCHEMA_VERSION
    trial_id: str = Field(pattern=r"^[0-9a-f]{16}$")
    trial: Trial
    campaign: str
    run_id: str
    status: Literal["finished", "failed"]
    message: str = ""  # why it failed; empty when finished
    started_at: UtcTime  # RFC 3339 UTC
    ended_at: UtcTime
    notation: str  # the (D, L, S, V, P, R, B) tuple
    connect_mode: str | None = None
    port_kind: str | None = None
    io: str | None = None
    placement: Placement | None = None
    verification: Verification | None = None
    throughput: Throughput | None = None
    latency: Latency | None = None
    method: MethodResult | None = None
    limit: Limit | None = None
    verdict: Verdict | None = None
    cpu: CpuCost | None = None
    cpu_quota: CpuQuota | None = None
    neighbour: Neighbour | None = None
    trim: Trim | None = None
    steady: SteadyRun | None = None
    timing: Timing | None = None
    reconciliation: Reconciliation | None = None
    engines: list[EngineRun] = Field(default_factory=list)
    vnfs: list[VnfRun] = Field(default_factory=list)
    topology: list[str] = Field(default_factory=list)  # a line for each path
    wire_ends: list[str] = Field(default_factory=list)  # nodes that stand in for physical ports
    loops: dict[str, LoopCost] = Field(default_factory=dict)  # by role
    switch_details: dict[str, str] = Field(default_factory=dict)
    switch_counters_before: FreeForm = Field(default_factory=dict)
    switch_counters_after: FreeForm = Field(default_factory=dict)
    switch_log: str = ""
    provenance: FreeForm = Field(default_factory=dict)

    @model_validator(mode="after")
    def _status_and_content_agree(self) -> Record:
        if (self.status == "failed") != bool(self.message.strip()):
            raise ValueError("a failed record needs a message, a finished one must not have any")
        if parse_utc(self.ended_at) < parse_utc(self.started_at):
            raise ValueError("ended_at lies before started_at")
        if self.status == "finished":
            needed = ["placement", "limit", "verdict"]
            if self.trial.method is not Method.PLAIN:
                needed.append("method")
            else:
                latency = self.trial.dimension is Dimension.LATENCY
                needed.append("latency" if latency else "throughput")
            missing = [name for name in needed if getattr(self, name) is None]
            if missing:
                raise ValueError(f"a finished record lacks {', '.join(missing)}")
        return self

    @model_validator(mode="after")
    def _bit_rates_follow_from_frames(self) -> Record:
        """L2 counts the frame with FCS; L1 adds 20 B. A slip here would change every figure."""
        if self.throughput is None:
            return self
        size: float = self.trial.packet_size_bytes
        if self.trial.packet_mix and self.throughput.forwarded_pps > 0:  # the mean that arrived
            size = self.throughput.forwarded_l2_bps / 8 / self.throughput.forwarded_pps
        for name, frame_bytes in (
            ("forwarded_l2_bps", size),
            ("forwarded_l1_bps", size + L1_OVERHEAD_BYTES),
        ):
            stored: float = getattr(self.throughput, name)
            due = self.throughput.forwarded_pps * frame_bytes * 8
            if not math.isclose(stored, due, rel_tol=0.01, abs_tol=frame_bytes * 8):
                raise ValueError(
                    f"throughput.{name} is {stored:.0f}, but {self.throughput.forwarded_pps:.1f} "
                    f"frames/s of {frame_bytes:g} B make {due:.0f}"
                )
        return self
