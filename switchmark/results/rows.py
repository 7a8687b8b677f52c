"""One row of a summary: a trial with its repetitions, from their records.

A *test point* is a workload (size, rate, pairs, ...); a *contender* is a configuration that carries
it (a switch with its connect mode, I/O and port kind). Rows of one test point may be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from switchmark.model.choices import WIRE
from switchmark.model.parameter_table import PARAMETERS, RESOLVED_BY_PLAN, point_of
from switchmark.model.trial import Trial
from switchmark.record import BareWire, serves_others
from switchmark.record.page_sizes import point_at
from switchmark.results.between_hosts import (
    BetweenHostsSummary,
    QualitySummary,
    summarise_between_hosts,
    summarise_quality,
)
from switchmark.results.columns import CPU_NUMBERS, HARDWARE_NUMBERS
from switchmark.results.function_load import FunctionLoad, summarise_function_loads
from switchmark.results.granted_summary import GrantedSummary, summarise_granted
from switchmark.results.groups import Group, Records
from switchmark.results.latency_summary import LatencySummary
from switchmark.results.method_summary import MethodSummary, summarise_method
from switchmark.results.remarks import remarks_of
from switchmark.results.transfer_summary import (
    TransferSummary,
    TransportSummary,
    summarise_transfer,
    summarise_transport,
)
from switchmark.statistics.means import Estimate, estimate
from switchmark.statistics.outliers import TWO_BANDS

CPU_MORE = (*CPU_NUMBERS, *HARDWARE_NUMBERS, "microjoules_per_frame")
KNOWN_TRUTH = "reference"


@dataclass(frozen=True, slots=True)
class ThroughputSummary:
    """Loads over the repetitions in frames/s, and in bit/s of forwarded frames."""

    intended_pps: float | None  # None: saturating
    offered_pps: Estimate
    forwarded_pps: Estimate
    forwarded_l2_bps: Estimate  # frame with FCS
    forwarded_l1_bps: Estimate  # plus 20 B a frame
    loss_ratio: Estimate


@dataclass(frozen=True, slots=True)
class CpuSummary:
    """Mean CPU cost, in cores used."""

    switch_cores: float | None  # None: in the kernel, where it is part of the other fields
    applications_cores: float
    softirq_cores: float | None
    run_delay_share: float | None
    total_cores: float | None  # the whole trial, without counting a core twice
    each_total_cores: tuple[float, ...]  # each repetition with this figure; cores of both hosts
    more: dict[str, float | None]  # by the name in the record: cost of a frame, useful share, ...

    @property
    def all_hosts_cores(self) -> float | None:
        """The mean number of cores used, on both hosts of a trial between two hosts."""
        cores = self.each_total_cores
        return sum(cores) / len(cores) if cores else None


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One trial with its repetitions."""

    trial: Trial  # with repetition 0
    contender: str  # the switch, with the parameters that distinguish its rows
    notation: str
    connect_mode: str | None
    port_kind: str | None
    io: str | None
    idle: str | None
    page_size_kib: int | None  # page size of DPDK's memory; None: no DPDK memory
    granted: GrantedSummary
    bare_wire: BareWire | None  # place of its baseline; None: no baseline, or unknown
    is_baseline: bool  # measured only to judge other rows, not requested by the campaign
    oversubscribed: bool
    switch_has_cores: bool  # False: it works on the cores of the senders
    finished: int  # repetitions
    failed: int
    throughput: ThroughputSummary | None
    transfer: TransferSummary | None
    transport: TransportSummary | None  # None: the traffic was frames
    latency: LatencySummary | None
    method: MethodSummary | None
    cpu: CpuSummary | None
    quality: QualitySummary
    between: BetweenHostsSummary
    one_machine: bool | None  # both hosts are this machine; None: there is one host
    valid: bool  # all repetitions are valid
    marks: tuple[str, ...]  # marks of the repetitions, and of the whole row
    remarks: tuple[str, ...]  # outliers, bands, unsteady runs: facts that the means hide
    limited_by: tuple[str, ...]  # the most frequent first
    overhead_s: float | None  # median overhead of a trial
    trial_ids: tuple[str, ...]  # finished trials
    failures: tuple[str, ...]  # messages
    left_out: str  # why the rest of the run skipped the contender; empty: it did not
    certificates: tuple[tuple[str | None, int], ...]  # text of a note, number of records
    stages: tuple[SummaryRow, ...] = ()  # a row for each stage, if the run was judged in stages
    has_page_size_apart: bool = False  # rows at its workload have other page sizes
    function_loads: tuple[FunctionLoad, ...] = ()  # one for each repetition with a function
    planned: int = 0  # repetitions of an unfinished first stage; 0: finished, or no stages

    @property
    def point(self) -> tuple[tuple[str, Any], ...]:
        """The test point: rows that share it may be compared."""
        point = point_of(self.trial)
        return point_at(point, self.page_size_kib) if self.has_page_size_apart else point

    @property
    def is_wire(self) -> bool:
        """True for `direct`, as a baseline or as a contender."""
        return self.trial.switch == WIRE


def draw_together(group: Group, latency: LatencySummary | None) -> SummaryRow:
    """Summarise a group as a row; `latency` is the summary of its round trips."""
    finished, failed = group.finished, group.failed
    any_of = finished or failed
    remarks = remarks_of(finished)
    marks = dict.fromkeys(mark for marks in finished.column("marks") for mark in marks)
    if any(remark.startswith(TWO_BANDS) for remark in remarks):
        marks["two-bands"] = None
    limits = Counter(finished.column("limited_by"))
    overheads = finished.known("overhead_s")
    wire = next(iter(finished.known("bare_wire")), None)
    return SummaryRow(
        trial=_trial(any_of),
        contender=any_of.first("switch"),
        notation=any_of.first("notation"),
        connect_mode=any_of.first("connect_mode"),
        port_kind=any_of.first("port_kind"),
        io=any_of.first("io"),
        idle=any_of.first("idle_used"),
        page_size_kib=next(iter(any_of.known("page_size_kib")), None),
        granted=summarise_granted(finished),
        bare_wire=BareWire.model_validate_json(wire) if wire else None,
        is_baseline=serves_others(any_of.first("switch"), any_of.first("is_baseline")),
        oversubscribed=any(finished.column("oversubscribed")),
        switch_has_cores=finished.first("switch_placed_on") != "[]" if finished else False,
        finished=len(finished),
        failed=len(failed),
        throughput=_throughput(finished) if finished.has("forwarded_pps") else None,
        transfer=summarise_transfer(finished) if finished.has("completed_per_s") else None,
        transport=summarise_transport(finished) if finished.has("packets_forth") else None,
        method=summarise_method(finished) if finished.has("method_figures") else None,
        latency=latency,
        cpu=_cpu(finished) if finished.has("applications_cores_used") else None,
        quality=summarise_quality(finished),
        between=summarise_between_hosts(finished),
        one_machine=next(iter(finished.known("far_same_machine")), None),
        valid=len(finished) > 0 and all(finished.column("valid")),
        marks=tuple(marks),
        remarks=remarks,
        limited_by=tuple(limit for limit, _ in limits.most_common()),
        overhead_s=estimate(overheads).median if overheads else None,
        trial_ids=tuple(finished.column("trial_id")),
        failures=tuple(failed.column("message")),
        left_out=_left_out(failed),
        function_loads=summarise_function_loads(finished),
        certificates=tuple(Counter(finished.column("certificate")).items()),
    )


def _left_out(failed: Records) -> str:
    failures = zip(failed.column("left_out"), failed.column("message"), strict=True)
    return next((message for is_left_out, message in failures if is_left_out), "")


def _trial(records: Records) -> Trial:
    """Return the requested trial; keys that an older record lacks have their defaults."""
    values = {}
    for name in PARAMETERS:
        value = records.first(f"asked_{name}" if name in RESOLVED_BY_PLAN else name)
        if value is not None:
            values[name] = value
    return Trial.model_validate(values | {"repetition": 0})


def _mean(records: Records, column: str) -> float | None:
    values = records.known(column)
    return sum(values) / len(values) if values else None


def _throughput(records: Records) -> ThroughputSummary:
    return ThroughputSummary(
        intended_pps=records.first("intended_pps"),
        offered_pps=records.over("offered_pps"),
        forwarded_pps=records.over("forwarded_pps"),
        forwarded_l2_bps=records.over("forwarded_l2_bps"),
        forwarded_l1_bps=records.over("forwarded_l1_bps"),
        loss_ratio=records.over("loss_ratio"),
    )


def _all_hosts_cores(records: Records) -> Iterator[float]:
    """Yield the cores that each repetition used on all hosts. If two hosts are one machine, the
    figure of the first host is that of the whole machine."""
    for local, remote, same in zip(
        records.column("total_cores_used"),
        records.column("far_total_cores_used"),
        records.column("far_same_machine"),
        strict=True,
    ):
        if local is not None:
            yield local if remote is None or same else local + remote


def _cpu(records: Records) -> CpuSummary:
    return CpuSummary(
        switch_cores=_mean(records, "switch_cores_used"),
        applications_cores=_mean(records, "applications_cores_used") or 0.0,
        softirq_cores=_mean(records, "softirq_cores_used"),
        run_delay_share=_mean(records, "run_delay_share"),
        total_cores=_mean(records, "total_cores_used"),
        each_total_cores=tuple(_all_hosts_cores(records)),
        more={name: _mean(records, name) for name in CPU_MORE},
    )
