"""Order, delay variation, fairness and the engine's own cost over a row's repetitions."""

from __future__ import annotations

from dataclasses import dataclass, fields

from switchmark.results.groups import Records

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
    """Means over the repetitions (of percentiles, too: they are not of one merged histogram), but
    the largest extent. None: not measured, or not applicable."""

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
    """Summarise the finished repetitions of one trial, as `query.read_table` gives them."""
    values: dict[str, float | None] = {}
    for field in fields(QualitySummary):
        held = records.known(field.name)
        largest = field.name == "max_reorder_extent"
        values[field.name] = (max(held) if largest else sum(held) / len(held)) if held else None
    return QualitySummary(**values)
