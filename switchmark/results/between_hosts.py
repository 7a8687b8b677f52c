"""Figures over the repetitions of a row: order, delay variation, fairness, cost of the engine; for
trials between two hosts also one-way times, clocks and the CPU cost of the other host."""

from __future__ import annotations

from dataclasses import dataclass, fields

from switchmark.results.groups import Records

# column of the table of records -> its place in the document
BETWEEN_HOSTS_PLACES = {
    "one_way_min_ns": "/one_way/min_ns",
    "one_way_p50_ns": "/one_way/percentiles_ns/50",
    "one_way_p99_ns": "/one_way/percentiles_ns/99",
    "one_way_uncertainty_ns": "/one_way/clock_uncertainty_ns",
    "clock_ahead_ns": "/far_host/clock_before/ahead_ns",
    "clock_uncertainty_ns": "/far_host/clock_before/uncertainty_ns",
    "clock_ahead_after_ns": "/far_host/clock_after/ahead_ns",
    "clock_uncertainty_after_ns": "/far_host/clock_after/uncertainty_ns",
    "far_switch_cores_used": "/far_host/cpu/switch_cores_used",
    "far_applications_cores_used": "/far_host/cpu/applications_cores_used",
    "far_softirq_cores_used": "/far_host/cpu/softirq_cores_used",
    "far_total_cores_used": "/far_host/cpu/total_cores_used",
    "far_ns_per_frame": "/far_host/cpu/ns_per_frame",
}


@dataclass(frozen=True, slots=True)
class BetweenHostsSummary:
    """Means over the repetitions, also of percentiles, but the largest uncertainty. The clocks are
    those of the last repetition, because an offset belongs to one moment. None: not measured."""

    one_way_min_ns: float | None
    one_way_p50_ns: float | None
    one_way_p99_ns: float | None
    one_way_uncertainty_ns: float | None  # largest common error of all one-way times
    clock_ahead_ns: float | None  # the other host's CLOCK_MONOTONIC, before the trial
    clock_uncertainty_ns: float | None
    clock_ahead_after_ns: float | None
    clock_uncertainty_after_ns: float | None
    far_switch_cores_used: float | None
    far_applications_cores_used: float | None
    far_softirq_cores_used: float | None
    far_total_cores_used: float | None
    far_ns_per_frame: float | None


def summarise_between_hosts(records: Records) -> BetweenHostsSummary:
    """Summarise the finished repetitions of one trial, as `query.read_table` returns them."""
    summary: dict[str, float | None] = {}
    for field in fields(BetweenHostsSummary):
        values = records.known(field.name)
        if not values:
            summary[field.name] = None
        elif field.name.startswith("clock_"):
            summary[field.name] = values[-1]
        elif field.name == "one_way_uncertainty_ns":
            summary[field.name] = max(values)
        else:
            summary[field.name] = sum(values) / len(values)
    return BetweenHostsSummary(**summary)


# column of the table of records -> its place in the document
QUALITY_PLACES = {
    "ipdv_p50_ns": "/latency/variation/ipdv_percentiles_ns/50",
    "ipdv_p99_ns": "/latency/variation/ipdv_percentiles_ns/99",
    "pdv_p50_ns": "/latency/variation/pdv_percentiles_ns/50",
    "pdv_p99_ns": "/latency/variation/pdv_percentiles_ns/99",
    "reordered_ratio": "/throughput/reordered_ratio",
    "max_reorder_extent": "/throughput/max_reorder_extent",
    "jain_fairness": "/throughput/jain_fairness",
    "sender_ns_per_frame": "/loops/sender/ns_per_frame",
    "receiver_ns_per_frame": "/loops/receiver/ns_per_frame",
    "client_ns_per_frame": "/loops/client/ns_per_frame",
    "server_ns_per_frame": "/loops/server/ns_per_frame",
}


@dataclass(frozen=True, slots=True)
class QualitySummary:
    """Means over the repetitions, but the largest extent. A percentile is the mean of the
    percentiles of the repetitions, not that of a merged histogram. None: not measured, or not
    applicable."""

    ipdv_p50_ns: float | None
    ipdv_p99_ns: float | None
    pdv_p50_ns: float | None
    pdv_p99_ns: float | None
    reordered_ratio: float | None
    max_reorder_extent: float | None
    jain_fairness: float | None
    sender_ns_per_frame: float | None
    receiver_ns_per_frame: float | None
    client_ns_per_frame: float | None
    server_ns_per_frame: float | None


def summarise_quality(records: Records) -> QualitySummary:
    """Summarise the finished repetitions of one trial, as `query.read_table` returns them."""
    summary: dict[str, float | None] = {}
    for field in fields(QualitySummary):
        values = records.known(field.name)
        largest = field.name == "max_reorder_extent"
        summary[field.name] = (
            (max(values) if largest else sum(values) / len(values)) if values else None
        )
    return QualitySummary(**summary)
