"""The record of one trial: its request, course, observations and conclusions.

The other modules of this package define its parts (runs, figures, method_result, reconciliation,
trust, cost, quality).

One JSON document a trial, validated when written and again when read. Units are in the names. Raw
samples and histograms are kept, so every figure can be computed again. The validators refuse
numbers that contradict each other: a wrong number is the worst bug.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field, model_validator

from switchmark.model.choices import PLAIN, WIRE
from switchmark.model.machine_state import MachineState
from switchmark.model.placement import Placement
from switchmark.model.rates import L1_OVERHEAD_BYTES
from switchmark.model.trial import Trial
from switchmark.model.value import FreeForm, UtcTime, Value, parse_utc
from switchmark.model.workload import FRAMES
from switchmark.record.certificate import CertificateNote
from switchmark.record.cost import CpuCost
from switchmark.record.crossing import Crossing
from switchmark.record.figures import Latency, Throughput
from switchmark.record.function import FunctionNote
from switchmark.record.granted import Granted
from switchmark.record.lookups import LookupNote
from switchmark.record.method_result import MethodResult
from switchmark.record.page_sizes import size_of_old
from switchmark.record.quality import LoopCost
from switchmark.record.reconciliation import Reconciliation
from switchmark.record.runs import (
    Attempt,
    BareWire,
    CpuQuota,
    EngineRun,
    FarHost,
    GroupQuota,
    InstrumentNote,
    Neighbour,
    SteadyRun,
    Timing,
    Trim,
    VnfRun,
)
from switchmark.record.transfer import Transfer, Transport
from switchmark.record.trust import Limit, TrialVerdict, Verification


def serves_others(switch: str, is_baseline: bool | None) -> bool:
    """Return True for a trial that is only a baseline of other trials. In older records, without
    `is_baseline`, each trial without a switch counts as a baseline."""
    return switch == WIRE if is_baseline is None else is_baseline


class Circumstances(Value):
    """The request of a trial, its time and place, and its end."""

    schema_version: Literal[1] = 1
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
    # Of the memory that DPDK programs (and VPP) keep their buffers in: 4, or that of the hugepages.
    # None: no program of the trial has such memory.
    page_size_kib: int | None = Field(default=None, ge=4)
    placement: Placement | None = None
    verification: Verification | None = None
    bare_wire: BareWire | None = None  # that judges it; None: there is none (or an older record)
    left_out: bool = False  # after this failure the contender was left out for the rest of its run
    is_baseline: bool | None = None  # measured only to judge other trials; None: an older record


class Figures(Value):
    """The figures of a trial: a throughput of frames or of an application, a latency, or those of a
    method."""

    throughput: Throughput | None = None
    latency: Latency | None = None
    transfer: Transfer | None = None  # throughput of a workload other than frames
    one_way: Latency | None = None  # latency trials between hosts: the way to the server
    method: MethodResult | None = None

    @property
    def clocks_uncertain(self) -> bool:
        """True if the median one-way time between hosts is smaller than its uncertainty."""
        return any(
            one.percentiles_ns["50"] <= one.clock_uncertainty_ns
            for one in self._one_way_times()
            if one.clock_uncertainty_ns is not None
        )

    @property
    def least_median_ns(self) -> float:
        """Return the shortest median time of all that were measured; infinity if none was."""
        times = [*self._one_way_times(), *([self.latency] if self.latency else [])]
        return min((one.percentiles_ns["50"] for one in times), default=math.inf)

    def _one_way_times(self) -> list[Latency]:
        at_loads = [one.latency for one in self.method.latency] if self.method else []
        return [*at_loads, *([self.one_way] if self.one_way else [])]


class Record(Figures, Circumstances):
    """One trial, finished or failed."""

    limit: Limit | None = None
    verdict: TrialVerdict | None = None
    cpu: CpuCost | None = None
    cpu_quota: CpuQuota | None = None  # the limit of the switch alone, where the trial sets one
    group_quota: GroupQuota | None = None  # the limit of all programs; None: an older record
    neighbour: Neighbour | None = None
    granted: Granted | None = None  # None: an older record
    trim: Trim | None = None
    steady: SteadyRun | None = None
    timing: Timing | None = None
    state_before: MachineState | None = None  # right before the traffic
    state_after: MachineState | None = None  # right after the traffic
    reconciliation: Reconciliation | None = None
    crossing: Crossing | None = None  # None: the network has no device with suitable counters
    far_host: FarHost | None = None  # only trials between hosts
    function: FunctionNote | None = None  # None: the switch only forwards
    lookups: LookupNote | None = None  # None: the switch does not report them
    instrument: InstrumentNote | None = None  # a foreign one; None: our own engine
    transport: Transport | None = None  # only workloads other than frames
    engines: list[EngineRun] = Field(default_factory=list)
    faults: list[str] = Field(default_factory=list)  # why results of applications are partial
    contradictions: list[str] = Field(default_factory=list)  # between the applications' counters
    uncertain_losses: list[str] = Field(default_factory=list)  # known between two bounds only
    vnfs: list[VnfRun] = Field(default_factory=list)
    machines: dict[str, dict[str, str]] = Field(default_factory=dict)  # virtual ones, by node
    topology: list[str] = Field(default_factory=list)  # a line for each path
    wire_ends: list[str] = Field(default_factory=list)  # nodes that stand in for physical ports
    loops: dict[str, LoopCost] = Field(default_factory=dict)  # by role
    switch_details: dict[str, str] = Field(default_factory=dict)
    switch_counters_before: FreeForm = Field(default_factory=dict)
    switch_counters_after: FreeForm = Field(default_factory=dict)
    switch_log: str = ""
    provenance: FreeForm = Field(default_factory=dict)
    certificate: CertificateNote | None = None  # None: `switchmark certify` has not been run
    attempts: list[Attempt] = Field(default_factory=list)  # all, where it was measured again

    @property
    def serves_others(self) -> bool:
        """Return True if this trial was measured only to judge other trials."""
        return serves_others(self.trial.switch, self.is_baseline)

    @property
    def headline(self) -> tuple[float, str] | None:
        """The figure that counts, and its unit: forwarded load, the throughput of an application,
        median round trip, or a method's."""
        if self.transfer is not None:
            return self.transfer.completed_per_s, self.transfer.unit
        if self.throughput is not None:
            return self.throughput.forwarded_pps, "pps"
        if self.latency is not None:
            return self.latency.percentiles_ns["50"], "ns"
        figure = self.method.figure(self.method.headline) if self.method else None
        return None if figure is None else (figure.value, figure.unit)

    @model_validator(mode="before")
    @classmethod
    def _with_page_size(cls, document: Any) -> Any:
        """Add the page size to a record that was made before records had one."""
        if not isinstance(document, dict) or "page_size_kib" in document:
            return document
        return {**document, "page_size_kib": size_of_old(document)}

    @model_validator(mode="after")
    def _status_and_content_agree(self) -> Record:
        if (self.status == "failed") != bool(self.message.strip()):
            raise ValueError("a failed record needs a message, a finished one must not have any")
        if parse_utc(self.ended_at) < parse_utc(self.started_at):
            raise ValueError("ended_at lies before started_at")
        if self.status == "finished":
            is_plain = self.trial.method == PLAIN
            figures = self.trial.dimension.value if is_plain else "method"
            if figures == "throughput" and self.trial.workload != FRAMES:
                figures = "transfer"
            needed = ("placement", "limit", "verdict", figures)
            if missing := [name for name in needed if getattr(self, name) is None]:
                raise ValueError(f"a finished record lacks {', '.join(missing)}")
        return self

    @model_validator(mode="after")
    def _one_way_says_how_surely(self) -> Record:
        """A one-way time between hosts must have the uncertainty of their clocks."""
        for times in self._one_way_times() if self.trial.location == "remote" else []:
            if times.kind == "one_way" and times.clock_uncertainty_ns is None:
                raise ValueError("a one-way time between hosts lacks clock_uncertainty_ns")
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
