"""`udp-rr`: a datagram and its answer of the same size, again and again."""

from switchmark.model.workload import Workload

WORKLOAD = Workload(
    name="udp-rr",
    meaning="request and response of the same size, one UDP datagram each",
    protocol="udp",
    unit="requests/s",
    generator="switchmark",
    reads=frozenset({"request_bytes", "offload"}),
)
