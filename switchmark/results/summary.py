"""What a run found: repetitions drawn together, with confidence, trust marks and limits.

A *point* is a workload (size, rate, pairs, ...); a *contender* is a way to carry it (a
switch, with its connect mode, I/O and port kind). Rows of one point may be compared.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import polars as pl

from switchmark.campaign.model import Dimension, Trial
from switchmark.results.histogram import PERCENTILES, merge_histograms, percentiles_ns
from switchmark.results.method_summary import MethodSummary, summarise_method
from switchmark.results.order_statistics import Bounds, percentile_intervals_ns
from switchmark.results.quality_summary import QualitySummary, summarise_quality
from switchmark.results.query import (
    CPU_NUMBERS,
    HARDWARE_NUMBERS,
    TRIAL_COLUMNS,
    Table,
    read_histograms,
    read_table,
)
from switchmark.results.statistics import Difference, Estimate, compare_with_best, estimate
from switchmark.scenario.registry import without_vnfs

CPU_MORE = (*CPU_NUMBERS, *HARDWARE_NUMBERS, "microjoules_per_frame")
KNOWN_TRUTH = "reference"
BASELINE = "direct"  # the switch that is no switch: the bare wire
CONTENDER_FIELDS = (
    *(
        "connect_mode",
        "io",
        "port_kind",
        "idle",
        "switch_cores",
        "switch_options",
        "switch_environment",
    ),
)
_NOT_OF_THE_POINT = {
    "switch", "repetition", "connect_mode", "io", "port_kind", "idle", "switch_cores",
    "spare_cores", "switch_options", "switch_environment",
}  # fmt: skip
_DONE = ("connect_mode", "port_kind", "io")  # as the record tells, whatever was asked
_LOAD_FIELDS = {
    "dimension", "location", "pairs", "packet_size_bytes", "rate_pps", "burst", "environment",
    "touch", "bidirectional", "schedule", "probe_rate_pps",
    "packet_mix", "flows", "ip_version", "vlan",
}  # fmt: skip
_GROUPS_A_QUERY = 200


@dataclass(frozen=True, slots=True)
class ThroughputSummary:
    """Loads over the repetitions; frames/s, and bit/s of forwarded frames."""

    intended_pps: float | None  # None: saturating
    offered_pps: Estimate
    forwarded_pps: Estimate
    forwarded_l2_bps: Estimate  # frame with FCS
    forwarded_l1_bps: Estimate  # plus 20 B a frame
    loss_ratio: Estimate


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Round-trip times; percentiles come from the repetitions' merged histogram."""

    count: int
    lost: int
    min_ns: float
    max_ns: float
    mean_ns: Estimate
    p50_ns: Estimate  # over the repetitions' own medians
    p99_ns: Estimate
    stdev_ns: float  # of all samples, as the percentiles
    percentiles_ns: dict[str, float]
    intervals_ns: dict[str, Bounds]  # 95 %, of the percentiles; empty where not recorded
    intended_mean_ns: float | None
    intended_stdev_ns: float | None
    intended_percentiles_ns: dict[str, float]
    intended_intervals_ns: dict[str, Bounds]


@dataclass(frozen=True, slots=True)
class CpuSummary:
    """Mean CPU cost, in cores used."""

    switch_cores: float | None  # None: in-kernel, its work is part of the others
    applications_cores: float
    softirq_cores: float | None
    run_delay_share: float | None
    total_cores: float | None  # of the trial in all, nothing counted twice
    more: dict[str, float | None]  # by name as in the record: for each frame, useful share, ...


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One trial with its repetitions."""

    trial: Trial  # repetition 0
    contender: str  # the switch, with what tells it from its other rows
    notation: str
    connect_mode: str | None
    port_kind: str | None
    io: str | None
    idle: str | None
    oversubscribed: bool
    finished: int  # repetitions
    failed: int
    throughput: ThroughputSummary | None
    latency: LatencySummary | None
    method: MethodSummary | None
    cpu: CpuSummary | None
    quality: QualitySummary
    valid: bool  # every repetition is
    marks: tuple[str, ...]  # of all repetitions
    limited_by: tuple[str, ...]  # the most frequent first
    overhead_s: float | None  # median of the bench's own time a trial
    trial_ids: tuple[str, ...]  # finished ones
    failures: tuple[str, ...]  # messages

    @property
    def point(self) -> tuple[tuple[str, Any], ...]:
        """The workload: rows that share it may be compared."""
        values = self.trial.model_dump(mode="json", exclude=_NOT_OF_THE_POINT)
        return tuple(values.items())

    @property
    def is_known_truth(self) -> bool:
        """Whether this is the switch whose faults were set, which is never ranked."""
        return self.trial.switch == KNOWN_TRUTH

    @property
    def is_baseline(self) -> bool:
        """Whether this is the bare wire rather than a switch."""
        return self.trial.switch == BASELINE


@dataclass(frozen=True, slots=True)
class Comparison:
    """The contenders at one point, the best first."""

    point: tuple[tuple[str, Any], ...]
    best: SummaryRow
    others: tuple[tuple[SummaryRow, Difference], ...]
    left_out: tuple[SummaryRow, ...]  # not valid, so not ranked
    baseline: SummaryRow | None  # of the best one's port kind


def summary(run_directory: Path) -> list[SummaryRow]:
    """The summary rows of a run. Raises nothing for bad files: see `summarise`."""
    return summarise(run_directory, read_table(run_directory))


def summarise(run_directory: Path, table: Table) -> list[SummaryRow]:
    """Group the table's repetitions; `table.problems` tells of files that were refused."""
    rows = [_row(group) for group in _groups(table.frame)]
    rows = _with_merged_percentiles(run_directory, rows)
    rows = _with_contenders(_with_mixed_modes(rows))
    return sorted(rows, key=_order)


def compare(rows: Sequence[SummaryRow]) -> list[Comparison]:
    """Rank the valid contenders of every point and test each against the best."""
    points: dict[tuple[tuple[str, Any], ...], list[SummaryRow]] = defaultdict(list)
    for row in rows:
        if row.finished and row.method is None:  # figures of methods are no means of runs
            points[row.point].append(row)
    comparisons = []
    for point, members in points.items():
        switches = [row for row in members if not row.is_baseline and not row.is_known_truth]
        ranked = sorted((row for row in switches if row.valid), key=_rank)
        if not ranked:
            continue
        best, others = ranked[0], ranked[1:]
        differences = compare_with_best(headline(best), [headline(row) for row in others])
        comparisons.append(
            Comparison(
                point=point,
                best=best,
                others=tuple(zip(others, differences, strict=True)),
                left_out=tuple(row for row in switches if not row.valid),
                baseline=baseline_of(best, rows),
            )
        )
    return comparisons


def headline(row: SummaryRow) -> Estimate:
    """The figure a row is ranked by: forwarded frames/s, or the median RTT in ns."""
    if row.latency is not None:
        return row.latency.p50_ns
    assert row.throughput is not None, "a finished row has a throughput or a latency"
    return row.throughput.forwarded_pps


def baseline_of(row: SummaryRow, rows: Iterable[SummaryRow]) -> SummaryRow | None:
    """The bare wire at the same point, port kind and I/O; None where it was not measured."""
    for other in rows:
        if other.method is not None:
            continue
        same_port = (other.port_kind, other.io) == (row.port_kind, row.io)
        if other.is_baseline and other.finished and same_port and _load(other) == _load(row):
            return other
    return None


def _load(row: SummaryRow) -> dict[str, Any]:
    """The workload without its duration: a ceiling holds however long it was measured."""
    load = row.trial.model_dump(include=_LOAD_FIELDS)
    one_way = {"pairs": row.trial.pairs if row.trial.split == "none" else 1}
    return load | one_way | {"scenario": without_vnfs(row.trial.scenario)}


def _rank(row: SummaryRow) -> float:
    if row.method is not None:
        return 0.0
    value = headline(row).mean
    return value if row.latency is not None else -value


def _order(row: SummaryRow) -> tuple[Any, ...]:
    trial = row.trial
    return (
        trial.dimension != Dimension.THROUGHPUT,
        trial.packet_size_bytes,
        trial.pairs,
        trial.rate_pps or float("inf"),
        trial.burst,
        str(row.point),
        row.is_baseline,
        _rank(row) if row.finished else float("inf"),
        row.contender,
    )


_Group = tuple[list[dict[str, Any]], list[dict[str, Any]]]  # finished, failed


def _groups(frame: pl.DataFrame) -> Iterator[_Group]:
    """Records that differ in nothing but the repetition. What was asked *and* what was done
    must agree; failures, of which less is known, join the first group that asked the same."""
    asked = [
        f"asked_{name}" if f"asked_{name}" in frame.columns else name
        for name in TRIAL_COLUMNS
        if name != "repetition"
    ]
    # Sorted, so that only one group at a time need be held as Python objects.
    ordered = frame.sort(*asked, "repetition", "started_at").iter_rows(named=True)
    for _, same_asked in groupby(ordered, key=lambda record: tuple(record[k] for k in asked)):
        failed: list[dict[str, Any]] = []
        by_done: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for record in same_asked:
            if record["status"] == "failed":
                failed.append(record)
            else:
                by_done.setdefault(tuple(record[name] for name in _DONE), []).append(record)
        finished = list(by_done.values())
        yield (finished[0] if finished else []), failed
        for group in finished[1:]:
            yield group, []


def _row(group: _Group) -> SummaryRow:
    finished, failed = group
    first = (finished or failed)[0]
    marks = dict.fromkeys(mark for record in finished for mark in record["marks"])
    limits = Counter(record["limited_by"] for record in finished)
    overheads = [r["overhead_s"] for r in finished if r["overhead_s"] is not None]
    return SummaryRow(
        trial=_trial(first),
        contender=first["switch"],
        notation=first["notation"],
        connect_mode=first["connect_mode"],
        port_kind=first["port_kind"],
        io=first["io"],
        idle=first["idle_used"],
        oversubscribed=any(record["oversubscribed"] for record in finished),
        finished=len(finished),
        failed=len(failed),
        throughput=_throughput(finished) if _has(finished, "forwarded_pps") else None,
        method=summarise_method(finished) if _has(finished, "method_figures") else None,
        latency=_latency(finished) if _has(finished, "rtt_mean_ns") else None,
        cpu=_cpu(finished) if _has(finished, "applications_cores_used") else None,
        quality=summarise_quality(finished),
        valid=bool(finished) and all(record["valid"] for record in finished),
        marks=tuple(marks),
        limited_by=tuple(what for what, _ in limits.most_common()),
        overhead_s=estimate(overheads).median if overheads else None,
        trial_ids=tuple(record["trial_id"] for record in finished),
        failures=tuple(record["message"] for record in failed),
    )


def _trial(record: dict[str, Any]) -> Trial:
    """As asked; a record from before there was a key has none of it, which is its default."""
    values = {name: record.get(f"asked_{name}", record.get(name)) for name in TRIAL_COLUMNS}
    values = {name: value for name, value in values.items() if value is not None}
    return Trial.model_validate(values | {"repetition": 0})


def _has(records: Sequence[dict[str, Any]], column: str) -> bool:
    return bool(records) and all(record[column] is not None for record in records)


def _over(records: Sequence[dict[str, Any]], column: str) -> Estimate:
    return estimate([record[column] for record in records])


def _mean(records: Sequence[dict[str, Any]], column: str) -> float | None:
    values = [record[column] for record in records if record[column] is not None]
    return sum(values) / len(values) if values else None


def _throughput(records: Sequence[dict[str, Any]]) -> ThroughputSummary:
    return ThroughputSummary(
        intended_pps=records[0]["intended_pps"],
        offered_pps=_over(records, "offered_pps"),
        forwarded_pps=_over(records, "forwarded_pps"),
        forwarded_l2_bps=_over(records, "forwarded_l2_bps"),
        forwarded_l1_bps=_over(records, "forwarded_l1_bps"),
        loss_ratio=_over(records, "loss_ratio"),
    )


def _latency(records: Sequence[dict[str, Any]]) -> LatencySummary:
    first = records[0]
    return LatencySummary(
        count=sum(record["rtt_count"] for record in records),
        lost=sum(record["rtt_lost"] for record in records),
        min_ns=min(record["rtt_min_ns"] for record in records),
        max_ns=max(record["rtt_max_ns"] for record in records),
        mean_ns=_over(records, "rtt_mean_ns"),
        p50_ns=_over(records, "rtt_p50_ns"),
        p99_ns=_over(records, "rtt_p99_ns"),
        # Right for one repetition; with more, `_with_merged_percentiles` puts the union's here.
        stdev_ns=first["rtt_stdev_ns"],
        percentiles_ns={name: first[f"rtt_p{name}_ns"] for name in PERCENTILES},
        intervals_ns=json.loads(first["rtt_intervals"] or "{}"),
        intended_mean_ns=first["intended_rtt_mean_ns"],
        intended_stdev_ns=first["intended_rtt_stdev_ns"],
        intended_percentiles_ns={name: first[f"intended_rtt_p{name}_ns"] for name in PERCENTILES},
        intended_intervals_ns=json.loads(first["intended_rtt_intervals"] or "{}"),
    )


def _cpu(records: Sequence[dict[str, Any]]) -> CpuSummary:
    return CpuSummary(
        switch_cores=_mean(records, "switch_cores_used"),
        applications_cores=_mean(records, "applications_cores_used") or 0.0,
        softirq_cores=_mean(records, "softirq_cores_used"),
        run_delay_share=_mean(records, "run_delay_share"),
        total_cores=_mean(records, "total_cores_used"),
        more={name: _mean(records, name) for name in CPU_MORE},
    )


def _with_merged_percentiles(run_directory: Path, rows: list[SummaryRow]) -> list[SummaryRow]:
    """Replace the percentiles of repeated latency trials by those of the merged histogram."""
    repeated = iter([i for i, row in enumerate(rows) if row.latency and row.finished > 1])
    while chunk := list(islice(repeated, _GROUPS_A_QUERY)):
        wanted = [trial_id for i in chunk for trial_id in rows[i].trial_ids]
        held = {one.trial_id: one for one in read_histograms(run_directory, wanted)}
        for i in chunk:
            latency = rows[i].latency
            assert latency is not None
            parts = [held[trial_id] for trial_id in rows[i].trial_ids]
            actual = merge_histograms(part.actual for part in parts)
            intended = merge_histograms(part.intended for part in parts)
            merged = replace(
                latency,
                stdev_ns=float(actual.get_stddev()),
                percentiles_ns=percentiles_ns(actual),
                intervals_ns=percentile_intervals_ns(actual),
                intended_mean_ns=float(intended.get_mean_value()),
                intended_stdev_ns=float(intended.get_stddev()),
                intended_percentiles_ns=percentiles_ns(intended),
                intended_intervals_ns=percentile_intervals_ns(intended),
            )
            rows[i] = replace(rows[i], latency=merged)
    return rows


def _with_mixed_modes(rows: list[SummaryRow]) -> list[SummaryRow]:
    """Mark rows of points at which switches forward by different rules."""
    modes: dict[Any, set[str]] = defaultdict(set)
    for row in rows:
        if row.finished and not row.is_baseline and row.connect_mode:
            modes[row.point].add(row.connect_mode)
    mark = "mixed-connect-modes"
    return [
        replace(row, marks=(*row.marks, mark))
        if len(modes[row.point]) > 1 and not row.is_baseline and mark not in row.marks
        else row
        for row in rows
    ]


def _with_contenders(rows: list[SummaryRow]) -> list[SummaryRow]:
    """Name rows so that no two of one switch share a name for different means."""
    values: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        for name in CONTENDER_FIELDS if row.finished else ():
            values[row.trial.switch][name].add(_means(row, name))
    return [replace(row, contender=_contender(row, values[row.trial.switch])) for row in rows]


def _contender(row: SummaryRow, seen: dict[str, set[str]]) -> str:
    varying = [name for name in CONTENDER_FIELDS if len(seen[name]) > 1]
    if "io" in varying and len(seen["port_kind"]) == len(seen["io"]):
        varying = [name for name in varying if name != "io"]  # the port kind says it all
    if row.trial.switch_options and "switch_options" not in varying:
        varying.append("switch_options")  # a switch that was set up on purpose always says so
    parts = [_means(row, name) for name in varying]
    return f"{row.trial.switch} ({', '.join(parts)})" if parts else row.trial.switch


def _means(row: SummaryRow, name: str) -> str:
    if name == "switch_cores":
        return f"{row.trial.switch_cores} core{'s' if row.trial.switch_cores > 1 else ''}"
    if name == "switch_environment":
        return f"in {row.trial.switch_environment}"
    if name == "idle":
        return f"idle {row.trial.idle}"
    if name == "switch_options":
        return row.trial.switch_options.replace("+", ", ").replace(":", " ") or "default options"
    return str(getattr(row, name) or "?")
