"""Summary rows as a flat table for other programs: one column a figure, its unit in its name.

`show --format csv|json|parquet` writes it, and `--where` and `--columns` use its names."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import polars as pl
from rapidfuzz import process

from switchmark.errors import UsageError
from switchmark.model.parameter_table import KEYS
from switchmark.results.between_hosts import BETWEEN_HOSTS_PLACES, QUALITY_PLACES
from switchmark.results.granted_summary import GrantedSummary
from switchmark.results.method_summary import MethodSummary
from switchmark.results.ranking import baseline_of, headline
from switchmark.results.rows import CPU_MORE, SummaryRow
from switchmark.results.transfer_summary import COSTS
from switchmark.statistics.histogram import PERCENTILES
from switchmark.statistics.means import Estimate

_OPERATORS = {
    "!=": operator.ne, ">=": operator.ge, "<=": operator.le,
    "=": operator.eq, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_ESTIMATES: dict[str, tuple[str, str]] = {
    # column stem: (part of the row, attribute)
    "forwarded_pps": ("throughput", "forwarded_pps"),
    "offered_pps": ("throughput", "offered_pps"),
    "forwarded_l2_bps": ("throughput", "forwarded_l2_bps"),
    "forwarded_l1_bps": ("throughput", "forwarded_l1_bps"),
    "loss_ratio": ("throughput", "loss_ratio"),
    "completed_per_s": ("transfer", "completed_per_s"),
    "offered_per_s": ("transfer", "offered_per_s"),
    "payload_bps": ("transfer", "payload_bps"),
    "rtt_mean_ns": ("latency", "mean_ns"),
    "rtt_p50_ns": ("latency", "p50_ns"),
    "rtt_p99_ns": ("latency", "p99_ns"),
}
_ABSENT = ("", "none", "null", "max")  # the rate `max` is stored as null
_WIRE_SLACK = 1.1  # a switch may be better than the baseline by this factor
_ENDS = ("low", "high")
TRANSPORT = (*("bytes_per_packet_forth", "bytes_per_packet_back", "retransmitted_segments"),)
GRANTED = tuple(GrantedSummary.__dataclass_fields__)
LISTS = ("marks", "remarks", "limited_by", "trial_ids", "failures")  # columns with lists
_ESTIMATE_PARTS = ("mean", "median", "stdev", "low", "high")


def flat_rows(rows: Sequence[SummaryRow]) -> list[dict[str, Any]]:
    """Return every row as plain values: the requested, the used and the measured ones.

    Absent figures are None. `<figure>_low` and `_high` bound the 95 % confidence interval of
    `<figure>_mean`; `rtt_merged_p99_ns` and the like come from the repetitions' merged
    histogram."""
    return [_flat(row, rows) for row in rows]


def frame(flat: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return the flat rows as a polars frame. Lists become lists of text, also if all are empty."""
    lists = {name: pl.List(pl.String) for name in LISTS}
    return pl.DataFrame(list(flat), infer_schema_length=None, schema_overrides=lists)


def columns() -> list[str]:
    """Return the names of all columns, in order."""
    # The column `contender` has the value of the key; without a key, it has the name of the
    # contender.
    trial = [parameter.field for parameter in KEYS if parameter.field != "contender"]
    estimates = [f"{stem}_{part}" for stem in _ESTIMATES for part in _ESTIMATE_PARTS]
    kinds = ("rtt_merged", "rtt_intended")
    merged = [f"{kind}_p{p}_ns" for kind in kinds for p in PERCENTILES]
    bounds = [f"{k}_p{p}_{end}_ns" for k in kinds for p in PERCENTILES for end in _ENDS]
    return [
        "contender", *trial, "notation", "connect_mode_used", "port_kind_used", "io_used",
        "idle_used", "page_size_kib", *GRANTED, "oversubscribed", "repetitions_finished",
        "repetitions_failed", "valid", "marks", "remarks", "limited_by",
        "intended_pps", "transfer_unit", *TRANSPORT, *COSTS, *estimates, "of_baseline_ratio",
        *merged,
        *bounds, "rtt_merged_mean_ns", "rtt_stdev_ns", "rtt_intended_mean_ns",
        "rtt_intended_stdev_ns",
        "rtt_count", "rtt_lost", "rtt_min_ns", "rtt_max_ns", "switch_cores_used",
        "applications_cores_used", "softirq_cores_used", "run_delay_share", "total_cores_used",
        *CPU_MORE, "method_headline", "method_value", "method_low", "method_high", "method_unit",
        "method_decided_by", "method_trials", "method_spent_s", "overhead_s", *QUALITY_PLACES,
        *BETWEEN_HOSTS_PLACES,
        "trial_ids", "failures", "left_out",
    ]  # fmt: skip


def where(flat: Sequence[dict[str, Any]], conditions: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows that fulfil all conditions, e.g. `switch=ovs-dpdk` or
    `packet_size_bytes>=512`.

    Raises UsageError for an unknown column or a condition that cannot be read.
    """
    selected = list(flat)
    for condition in conditions:
        name, sign, text = _split(condition)
        selected = [row for row in selected if _holds(row[name], sign, text, condition)]
    return selected


def check_columns(names: Sequence[str]) -> list[str]:
    """Return the full names of columns that a user wrote. Raises UsageError for unknown names."""
    return [_column(name, "--columns") for name in names]


def _flat(row: SummaryRow, rows: Sequence[SummaryRow]) -> dict[str, Any]:
    values: dict[str, Any] = dict.fromkeys(columns())
    values |= row.trial.model_dump(mode="json", exclude={"repetition", "contender"})
    values |= {
        "contender": row.contender,
        "notation": row.notation,
        "connect_mode_used": row.connect_mode,
        "port_kind_used": row.port_kind,
        "io_used": row.io,
        "idle_used": row.idle,
        "page_size_kib": row.page_size_kib,
        **{name: "; ".join(getattr(row.granted, name)) or None for name in GRANTED},
        "oversubscribed": row.oversubscribed,
        "repetitions_finished": row.finished,
        "repetitions_failed": row.failed,
        "valid": row.valid,
        "marks": list(row.marks),
        "remarks": list(row.remarks),
        "limited_by": list(row.limited_by),
        "overhead_s": row.overhead_s,
        "trial_ids": list(row.trial_ids),
        "failures": list(row.failures),
        "left_out": row.left_out,
    }
    for stem, (part, attribute) in _ESTIMATES.items():
        holder = getattr(row, part)
        if holder is not None:
            estimate: Estimate = getattr(holder, attribute)
            values |= {f"{stem}_{key}": getattr(estimate, key) for key in _ESTIMATE_PARTS}
    if row.throughput is not None:
        values["intended_pps"] = row.throughput.intended_pps
    if row.transfer is not None:
        values["transfer_unit"] = row.transfer.unit
    if row.transport is not None:
        values |= {name: getattr(row.transport, name) for name in TRANSPORT} | row.transport.costs
    if row.latency is not None:
        values |= _flat_latency(row)
    if row.method is not None:
        values |= _flat_method(row.method)
    if row.cpu is not None:
        values |= {
            "switch_cores_used": row.cpu.switch_cores,
            "applications_cores_used": row.cpu.applications_cores,
            "softirq_cores_used": row.cpu.softirq_cores,
            "run_delay_share": row.cpu.run_delay_share,
            "total_cores_used": row.cpu.total_cores,
            **row.cpu.more,
        }
    values |= asdict(row.quality) | asdict(row.between)
    values["of_baseline_ratio"] = of_baseline(row, rows)
    return values


def _flat_method(method: MethodSummary) -> dict[str, Any]:
    """Return the headline of a method. Its other figures, bounds and trials are only in records."""
    values: dict[str, Any] = {
        "method_headline": method.headline,
        "method_decided_by": method.decided_by,
        "method_trials": method.trials,
        "method_spent_s": method.spent_s,
    }
    if figure := method.figure(method.headline):
        values |= {
            "method_value": figure.value.mean,
            "method_low": figure.value.low,
            "method_high": figure.value.high,
            "method_unit": figure.unit,
        }
    return values


def of_baseline(row: SummaryRow, rows: Sequence[SummaryRow]) -> float | None:
    """Return the row's headline figure divided by that of the baseline; None if it is unknown."""
    if row.is_wire or not row.finished or row.method is not None:
        return None
    baseline = baseline_of(row, rows)
    if baseline is None or headline(baseline).mean <= 0:
        return None
    return headline(row).mean / headline(baseline).mean


def remarks(row: SummaryRow, rows: Sequence[SummaryRow]) -> list[str]:
    """Return the reasons to doubt the row's figures: its own remarks, and a warning if the baseline
    was slower than the switch, which is impossible."""
    share = of_baseline(row, rows)
    quicker = 1 / share if share and row.latency is not None else share
    if quicker is None or quicker <= _WIRE_SLACK:
        return list(row.remarks)
    baseline = baseline_of(row, rows)
    marks = ", ".join(baseline.marks) if baseline and baseline.marks else "none"
    return [
        *row.remarks,
        f"{quicker:.2f} times as good as the baseline, which is impossible: the trial of the "
        f"baseline was disturbed (its marks: {marks}), so `of baseline` and `beyond baseline` have "
        "no meaning here; measure both again on a quiet machine",
    ]


def _flat_latency(row: SummaryRow) -> dict[str, Any]:
    assert row.latency is not None
    latency = row.latency
    values: dict[str, Any] = {
        "rtt_count": latency.count,
        "rtt_lost": latency.lost,
        "rtt_min_ns": latency.min_ns,
        "rtt_max_ns": latency.max_ns,
        "rtt_merged_mean_ns": latency.all_mean_ns,
        "rtt_stdev_ns": latency.stdev_ns,
        "rtt_intended_mean_ns": latency.intended_mean_ns,
        "rtt_intended_stdev_ns": latency.intended_stdev_ns,
    }
    for kind, percentiles_ns, intervals in (
        ("rtt_merged", latency.percentiles_ns, latency.intervals_ns),
        ("rtt_intended", latency.intended_percentiles_ns, latency.intended_intervals_ns),
    ):
        values |= {f"{kind}_p{name}_ns": value for name, value in percentiles_ns.items()}
        for name, bounds in intervals.items():
            values |= {
                f"{kind}_p{name}_{end}_ns": bound for end, bound in zip(_ENDS, bounds, strict=True)
            }
    return values


def _column(name: str, place: str) -> str:
    known = columns()
    for candidate in (name, f"{name}_bytes", f"{name}_pps", f"{name}_s"):
        if candidate in known:
            return candidate
    nearest = process.extractOne(name, known)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    raise UsageError(f"{place}: {name}: no such column{hint} (all: show --columns help)")


def _split(condition: str) -> tuple[str, str, str]:
    operators = [(condition.find(op), -len(op), op) for op in _OPERATORS if op in condition]
    if not operators:
        raise UsageError(f"--where: {condition}: write column=value, e.g. switch=ovs-dpdk")
    position, _, sign = min(operators)
    name, text = condition[:position].strip(), condition[position + len(sign) :].strip()
    return _column(name, "--where"), sign, text


def _holds(value: Any, sign: str, operand: str, condition: str) -> bool:
    compares_order = sign not in ("=", "!=")
    absent = operand.lower() in _ABSENT
    if value is None or (absent and isinstance(value, int | float)):
        return not compares_order and ((value is None) == absent) == (sign == "=")
    if isinstance(value, list | str | bool):
        if compares_order:
            kind = "a list" if isinstance(value, list) else "text"
            raise UsageError(f"--where: {condition}: {kind} is compared with = or != only")
        if isinstance(value, list):
            return (operand in value) == (sign == "=")
        text = str(value).lower() if isinstance(value, bool) else value
        return (text == operand) == (sign == "=")
    try:
        return bool(_OPERATORS[sign](value, float(operand)))
    except ValueError as error:
        raise UsageError(f"--where: {condition}: {operand!r} is not a number") from error
