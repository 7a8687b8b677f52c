"""`tcp-rr`: a request and its response, again and again, over connections that stay open."""

from switchmark.model.workload import Workload

WORKLOAD = Workload(
    name="tcp-rr",
    meaning="request and response over an open TCP connection",
    protocol="tcp",
    unit="requests/s",
    generator="switchmark",
    reads=frozenset(
        {"connections", "request_bytes", "response_bytes", "congestion_control", "offload"}
    ),
)
