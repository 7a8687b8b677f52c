"""`http`: GET requests of HTTP/1.1 to nginx, over connections that stay open."""

from switchmark.model.workload import Workload

WORKLOAD = Workload(
    name="http",
    meaning="GET requests of HTTP/1.1 to nginx, over connections that stay open",
    protocol="tcp",
    unit="requests/s",
    generator="switchmark",
    reads=frozenset({"connections", "response_bytes", "congestion_control", "offload"}),
)
