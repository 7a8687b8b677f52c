"""The throughput of an application and the facts of its transport, over the repetitions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from switchmark.results.groups import Records
from switchmark.statistics.means import Estimate

PARTS = ("client", "server", "switch")
COSTS = tuple(
    f"{part}_{unit}" for part in PARTS for unit in ("s_per_gigabit", "us_per_request")
)  # columns


@dataclass(frozen=True, slots=True)
class TransferSummary:
    """Rates over the repetitions, in `unit`."""

    unit: str
    intended_per_s: float | None  # None: as much as it can
    offered_per_s: Estimate
    completed_per_s: Estimate
    payload_bps: Estimate  # that arrived, both directions together
    loss_ratio: Estimate  # requests without an answer, or lost datagrams
    # Mean rate of each pair over the repetitions, in the order of the pairs; empty for one pair.
    pairs_per_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class TransportSummary:
    """The transport of the payload by the kernel: means over the repetitions."""

    bytes_per_packet_forth: float | None
    bytes_per_packet_back: float | None
    retransmitted_segments: float  # both ends together, for each repetition
    congestion_control: str  # all that were algorithms
    offload_note: str
    costs: dict[str, float | None]  # by the names of `COSTS`


def summarise_transfer(records: Records) -> TransferSummary:
    """Summarise the throughput of an application."""
    return TransferSummary(
        unit=records.first("transfer_unit"),
        intended_per_s=records.first("intended_per_s"),
        offered_per_s=records.over("offered_per_s"),
        completed_per_s=records.over("completed_per_s"),
        payload_bps=records.over("payload_bps"),
        loss_ratio=records.over("transfer_loss_ratio"),
        pairs_per_s=pair_rates(records.known("transfer_pairs")),
    )


def pair_rates(texts: list[str]) -> tuple[float, ...]:
    """Return the mean rate of each pair over the records."""
    rates: dict[int, list[float]] = {}
    for share in (share for text in texts for share in json.loads(text)):
        rates.setdefault(int(share["pair"]), []).append(float(share["completed_per_s"]))
    return tuple(sum(each) / len(each) for _, each in sorted(rates.items()))


def summarise_transport(records: Records) -> TransportSummary:
    """Summarise the facts of the transport."""
    counts = [sum(_counts(text)) for text in records.known("retransmitted_segments")]
    algorithms = Counter(
        str(name)
        for text in records.known("congestion_control_used")
        for name in json.loads(text).values()
    )
    notes = Counter(filter(None, records.known("offload_note")))
    return TransportSummary(
        bytes_per_packet_forth=_ratio(records, "bytes_forth", "packets_forth"),
        bytes_per_packet_back=_ratio(records, "bytes_back", "packets_back"),
        retransmitted_segments=sum(counts) / len(counts) if counts else 0.0,
        congestion_control=", ".join(sorted(algorithms)),
        offload_note=next(iter(notes), ""),
        costs={name: _mean(records.known(name)) for name in COSTS},
    )


def _counts(text: str) -> Iterator[int]:
    counted: dict[str, Any] = json.loads(text)
    yield from (int(value) for value in counted.values())


def _ratio(records: Records, part: str, whole: str) -> float | None:
    parts, wholes = sum(records.known(part)), sum(records.known(whole))
    return parts / wholes if wholes else None


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
