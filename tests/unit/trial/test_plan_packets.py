"""The packets of a load, by which the guard rails judge it."""

from __future__ import annotations

from typing import Any

import pytest

from switchmark.host.network.guard_rails import CAP_BITS_PER_S, CAP_S, cap_refusal
from switchmark.trial.plan import packets_of
from tests.unit.trial_fakes import trial


def load(**fields: Any) -> tuple[int, float] | None:
    packets = packets_of(trial(**fields))
    return None if packets is None else (packets.per_s, packets.frame_bytes)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"workload": "tcp-rr", "rate_pps": None}, None),
        ({"workload": "frames", "rate_pps": 500}, (500, 64)),
        ({"workload": "tcp-rr", "rate_pps": 500}, (500, 64 + 70)),
        ({"workload": "tcp-rr", "rate_pps": 10, "response_bytes": 14_480}, (100, 1448 + 70)),
        ({"workload": "tcp-rr", "rate_pps": 10, "request_bytes": 1449}, (20, 724.5 + 70)),
        ({"workload": "tcp-crr", "rate_pps": 100}, (500, 12.8 + 70)),
        ({"workload": "udp-rr", "rate_pps": 100, "request_bytes": 1000}, (100, 1046)),
        ({"workload": "udp-stream", "rate_pps": 8_000_000, "datagram_bytes": 1000}, (1000, 1046)),
        # At a low rate the engine writes a thousand times a second.
        ({"workload": "tcp-stream", "rate_pps": 4_000_000}, (1000, 500 + 70)),
    ],
)
def test_packets_of_a_load_follow_from_its_rate_and_sizes(
    fields: dict[str, Any], expected: tuple[int, float] | None
) -> None:
    assert load(**fields) == expected


def test_large_requests_at_a_low_rate_are_above_the_cap() -> None:
    """100 requests/s of 100 kB are 80 Mbit/s."""
    refused = cap_refusal(
        packets_of(trial(workload="tcp-rr", rate_pps=100, request_bytes=100_000)), CAP_S, None
    )
    assert refused is not None and f"{CAP_BITS_PER_S // 1_000_000} Mbit/s" in str(refused)
