"""The fields of a record that are columns of the table of a run, and their types.

`COLUMNS` is the only list. query.py reads these columns from files with DuckDB. `columns_of` takes
them from one document, for the index of a store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from switchmark.model.parameter_table import PARAMETERS, RESOLVED_BY_PLAN
from switchmark.model.parameter_type import Parameter
from switchmark.results.between_hosts import BETWEEN_HOSTS_PLACES, QUALITY_PLACES
from switchmark.results.function_load import FUNCTION_COLUMNS
from switchmark.statistics.histogram import PERCENTILES

CPU_NUMBERS = (
    *("applications_system_cores", "ksoftirqd_cores_used", "stolen_cores", "ns_per_frame"),
    *("beyond_wire_ns_per_frame", "switch_ns_per_frame", "mpps_per_core", "switch_busy_share"),
    *("switch_busy_cycles_per_frame", "switch_useful_ns_per_frame"),
)
HARDWARE_NUMBERS = (
    *("instructions_per_cycle", "cache_miss_ratio", "cycles_per_frame"),
    *("cache_misses_per_frame", "dtlb_misses_per_frame"),
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table: its place in the document (JSON pointer) and its type."""

    name: str
    place: str
    kind: str = "VARCHAR"


def columns_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the columns for this record; absent ones are left out. The document must
    have been validated as a record."""
    values = {}
    for column in COLUMNS:
        value = _at(document, column.place)
        if value is not None:
            values[column.name] = _of_kind(value, column.kind)
    return values


def _at(document: Any, place: str) -> Any:
    for part in place.split("/")[1:]:
        if not isinstance(document, Mapping):
            return None
        document = document.get(part)
    return document


def _of_kind(value: Any, kind: str) -> Any:
    if kind == "VARCHAR" and not isinstance(value, str):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return float(value) if kind == "DOUBLE" else value


def _sql_type(parameter: Parameter) -> str:
    """Return the DuckDB type of a parameter; everything that is not a number is text."""
    kind = int if parameter.is_number and parameter.choices else parameter.value_type
    return {int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}.get(kind, "VARCHAR")


def _record_columns() -> list[Column]:
    plain = ("trial_id", "status", "message", "started_at", "notation")
    columns = [Column("schema_version", "/schema_version", "BIGINT")]
    columns += [Column(name, f"/{name}") for name in (*plain, *RESOLVED_BY_PLAN)]
    for name, parameter in PARAMETERS.items():
        alias = f"asked_{name}" if parameter.resolved else name
        columns.append(Column(alias, f"/trial/{name}", _sql_type(parameter)))
    columns += [
        Column("page_size_kib", "/page_size_kib", "BIGINT"),
        Column("page_size_set", "/trial/page_size"),  # absent from records without a page size
        Column("receive_buffer_bytes", "/granted/receive_buffer_bytes", "BIGINT"),
        Column("send_buffer_bytes", "/granted/send_buffer_bytes", "BIGINT"),
        Column("applications_class", "/granted/applications_class"),
        Column("switch_class", "/granted/switch_class"),
        Column("place", "/granted/place"),
        Column("bare_wire", "/bare_wire"),
        Column("is_baseline", "/is_baseline", "BOOLEAN"),
        Column("left_out", "/left_out", "BOOLEAN"),
        Column("oversubscribed", "/placement/oversubscribed", "BOOLEAN"),
        Column("idle_used", "/placement/idle"),
        Column("switch_placed_on", "/placement/switch_cores"),
        Column("limited_by", "/limit/factor"),
        Column("valid", "/verdict/valid", "BOOLEAN"),
        Column("marks", "/verdict/marks", "VARCHAR[]"),
        Column("instrument_version", "/instrument/version"),
        Column("instrument_cannot_know", "/instrument/cannot_know", "VARCHAR[]"),
        Column("far_same_machine", "/far_host/same_machine", "BOOLEAN"),
        Column("certificate", "/certificate"),
        Column("engine_build", "/engines/0/ready/build"),
        Column("engine_build_b", "/engines/1/ready/build"),
        Column("switch_hugepages_mb", "/switch_details/hugepages_mb"),
        Column("switch_build", "/switch_details/program_build_id"),
        Column("switch_stand_in", "/switch_details/stand_in"),
        Column("crossing_path", "/crossing/path", "VARCHAR[]"),
        Column("crossing_ttl", "/crossing/ttl_forth", "BIGINT"),
        Column("crossing_source", "/crossing/source_seen"),
        Column("crossing_translated", "/crossing/translated", "BOOLEAN"),
        Column("crossing_expiring", "/crossing/expiring", "VARCHAR[]"),
        Column("steady_mean_pps", "/steady/mean_pps", "DOUBLE"),
        Column("steady_rest_pps", "/steady/mean_without_outliers_pps", "DOUBLE"),
        Column("steady_change_p", "/steady/change_p", "DOUBLE"),
        Column("method_headline", "/method/headline"),
        Column("method_figures", "/method/figures"),
        Column("method_bounds", "/method/bounds"),
        Column("method_notes", "/method/notes", "VARCHAR[]"),
        Column("method_stopped", "/method/stopped"),
        Column("method_trials", "/method/trial_count", "BIGINT"),
        Column("method_spent_s", "/method/spent_s", "DOUBLE"),
        Column("transfer_unit", "/transfer/unit"),
        Column("transfer_loss_ratio", "/transfer/loss_ratio", "DOUBLE"),
        Column("transfer_pairs", "/transfer/pairs"),
        Column("retransmitted_segments", "/transport/retransmitted_segments"),
        Column("congestion_control_used", "/transport/congestion_control"),
        Column("offload_note", "/transport/offload_note"),
        Column("transport_unknown", "/transport/unknown", "VARCHAR[]"),
        *(Column(name, place, kind) for name, (place, kind) in FUNCTION_COLUMNS.items()),
        *(
            Column(f"{part}_{name}", f"/transport/{part}_cpu/{field}", "DOUBLE")
            for part in ("client", "server", "switch")
            for name, field in (
                ("s_per_gigabit", "per_gigabit_s"),
                ("us_per_request", "per_request_us"),
            )
        ),
        Column("rtt_count", "/latency/count", "BIGINT"),
        Column("rtt_lost", "/latency/lost", "BIGINT"),
    ]
    numbers = {
        "throughput": ("intended_pps", "offered_pps", "forwarded_pps", "forwarded_l2_bps",
                       "forwarded_l1_bps", "forwarded_stdev_pps", "loss_ratio", "burst_pps"),
        "transfer": ("intended_per_s", "offered_per_s", "completed_per_s", "goodput_bps",
                     "transactions_per_s", "payload_bps"),
        "transport": ("packets_forth", "bytes_forth", "packets_back", "bytes_back"),
        "cpu": ("switch_cores_used", "applications_cores_used", "softirq_cores_used",
                "run_delay_share", "total_cores_used", *CPU_NUMBERS),
        "cpu/hardware": HARDWARE_NUMBERS,
        "cpu/energy": ("microjoules_per_frame",),
        "timing": ("measure_s", "overhead_s"),
    }  # fmt: skip
    for part, names in numbers.items():
        columns += [Column(name, f"/{part}/{name}", "DOUBLE") for name in names]
    places = QUALITY_PLACES | BETWEEN_HOSTS_PLACES
    columns += [Column(name, place, "DOUBLE") for name, place in places.items()]
    for name in ("min_ns", "mean_ns", "stdev_ns", "max_ns"):
        columns.append(Column(f"rtt_{name}", f"/latency/{name}", "DOUBLE"))
    for name in ("mean_ns", "stdev_ns", "max_ns"):
        columns.append(Column(f"intended_rtt_{name}", f"/latency/intended_{name}", "DOUBLE"))
    columns += [
        Column("rtt_intervals", "/latency/percentile_intervals_ns"),
        Column("intended_rtt_intervals", "/latency/intended_percentile_intervals_ns"),
    ]
    for prefix, part in (("rtt", "percentiles_ns"), ("intended_rtt", "intended_percentiles_ns")):
        columns += [
            Column(f"{prefix}_p{name}_ns", f"/latency/{part}/{name}", "DOUBLE")
            for name in PERCENTILES
        ]
    return columns


COLUMNS = _record_columns()
COLUMNS_DIGEST = hashlib.sha256(repr(COLUMNS).encode()).hexdigest()[:16]
