"""`tcp-crr`: for each request a connection is made, used once, and closed."""

from switchmark.model.workload import Workload

WORKLOAD = Workload(
    name="tcp-crr",
    meaning="connect, request, response, close; a new TCP connection for each request",
    protocol="tcp",
    unit="requests/s",
    generator="switchmark",
    reads=frozenset(
        {"connections", "request_bytes", "response_bytes", "congestion_control", "offload"}
    ),
)
