"""The programs of a trial and their samples: placement, the engines' reports, the kept samples."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from switchmark.model.io import Io
from switchmark.model.placement import Placement
from switchmark.model.ports import PortKind
from switchmark.model.value import Amount, Count, FreeForm, Ratio, UtcTime, Value
from switchmark.record.cost import CpuCost

# Counters that can be below 0 in an interval.
MAY_FALL = ("rx_frames", "rx_bytes", "rx_missing", "rx_early")


class ClockOffset(Value):
    """Two hosts' CLOCK_MONOTONIC compared over the control path. The true offset lies within the
    uncertainty of the stated one, whichever way the path is slower."""

    ahead_ns: int  # the other host's clock less this one's
    uncertainty_ns: Count  # half the quickest round trip, less the time it was held there


class BareWire(Value):
    """The description of the baseline of a trial: its keys that differ."""

    location: Literal["local", "remote"]
    environment: str
    port_kind: PortKind
    io: Io


class FarHost(Value):
    """The other host of a trial between hosts (L=remote)."""

    name: str  # in the testbed file
    address: str
    hostname: str
    near_interface: str  # the two ends of the cable
    far_interface: str
    agent_version: str
    engine_version: str
    placement: Placement | None  # the use of its cores; None: it was not reached
    clock_before: ClockOffset | None
    clock_after: ClockOffset | None
    cpu: CpuCost | None = None  # this host's cost; the record's `cpu` is the other host's
    facts: FreeForm
    same_machine: bool = False  # one kernel: each sees the other's programs among its own


class Interval(Value):
    """One sample of one engine process; counters are deltas over `duration_ns`.

    Frames that turn out to be an earlier trial's are taken back (`rx_stale`), and frames that come
    late are no longer missing, so these deltas may be negative (engine/events.schema.json); no
    others may."""

    index: Count
    t_ns: int
    duration_ns: Count
    counters: dict[str, int]

    @model_validator(mode="after")
    def _only_some_may_fall(self) -> Interval:
        for name, value in self.counters.items():
            if value < 0 and name not in MAY_FALL:
                raise ValueError(f"interval {self.index}: {name} is {value}, below 0")
        return self


class EngineRun(Value):
    """The report of one traffic application: its ready line, raw intervals and result."""

    node: str
    role: str
    pair: Count
    args: list[str]
    ready: FreeForm
    intervals: list[Interval]
    result: FreeForm


class InstrumentNote(Value):
    """The foreign instrument that made the traffic, what it cannot know, and whether its counts are
    the kernel's. Both ends' commands and output are among the record's `engines`."""

    name: str
    version: str
    cannot_know: list[str]  # figures that records of the engine have and this tool cannot give
    # By its own count, in the whole trial; None: a workload, whose counts are in `transport`.
    sent_frames: Count | None
    received_frames: Count | None
    # By the kernel, at the network devices of the two ends; None: they are none of the kernel's.
    device_sent_frames: Count | None = None
    device_received_frames: Count | None = None
    socket_drops: Count = 0  # frames dropped at its own socket
    own_frames: Count = 0  # so many of these may be its own (a control connection's) at most
    agrees: bool = True  # its counts are the kernel's


class VnfRun(Value):
    """A network function in a chain, with its own report."""

    node: str
    pair: Count
    kind: str  # forwarder, l2fwd, bridge, pcap, program
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


class Attempt(Value):
    """One of several measurements of a trial that other programs disturbed."""

    started_at: UtcTime
    figure: float | None  # `headline` of its record; None: it failed, or has none
    unit: str = ""  # pps, ns, or a method's own
    others_cores: Amount  # used by others meanwhile, on the host where they used more
    disturbed: bool
    message: str = ""  # why it failed


class OutlierSample(Value):
    """A sample that does not belong to the rest; reported, never dropped."""

    index: Count
    value: float
    score: float  # modified z-score; beyond +-3.5


class SteadyRun(Value):
    """The point from which the run was steady, and whether it stayed steady, by tests over *all*
    samples (docs/methods.md). The figures use the samples of the fixed trim policy."""

    policy: str  # e.g. "MSER-5: first 3 of 50 samples left out"
    steady: bool
    reason: str
    warm_up_samples: Count
    change_p: Ratio | None  # p-value of the CUSUM test; None: not testable
    mean_pps: Amount | None  # over the samples after the warm-up
    mean_without_outliers_pps: Amount | None
    outliers: list[OutlierSample]
    two_bands: str | None  # in words, where the samples fall into two groups


class CpuQuota(Value):
    """The limit on the switch's CPU time, and how it was used during the measurement."""

    share: Ratio  # the configured share of each core
    cores: Amount  # CPU seconds a second that it allows in all
    used_cores: Amount | None  # CPU seconds a second that the switch used
    quota_us: Count
    period_us: Count
    cgroup_version: Literal[1, 2]
    periods: Count
    throttled_periods: Count
    throttled_s: Amount  # summed over the switch's threads
    in_force: bool  # it read back as set, and no more than it was used
    group: str = ""  # the control group that it was set on, below its hierarchy's root


class GroupQuota(Value):
    """The CPU quota of the control groups that the bench and all its programs ran in, and how it
    was used during the measurement. The switch's own limit is `CpuQuota`."""

    cpus: Amount | None  # CPU seconds a second, of the narrowest group; None: no quota is visible
    throttled_periods: Count  # summed over these groups
    throttled_s: Amount  # summed over these groups and over CPUs

    @property
    def throttled(self) -> bool:
        """Return True if the kernel stopped programs because the quota was used up."""
        return self.throttled_periods > 0 or self.throttled_s > 0


class Neighbour(Value):
    """Background load during the measurement."""

    kind: str
    command: list[str]
    cores: list[Count]  # none: not pinned
    cpu_s: Amount  # CPU time that it used
    wall_s: Amount  # elapsed time


class Timing(Value):
    """The bench's own time around the measurement, seconds."""

    deploy_s: Amount
    verify_s: Amount
    measure_s: Amount
    teardown_s: Amount
    overhead_s: Amount  # deploy + verify + teardown + anything else not measuring
