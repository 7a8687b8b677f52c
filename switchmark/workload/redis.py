"""`redis`: GET requests to redis-server, over connections that stay open."""

from switchmark.model.workload import Workload

WORKLOAD = Workload(
    name="redis",
    meaning="GET requests for one value of redis-server, over connections that stay open",
    protocol="tcp",
    unit="requests/s",
    generator="redis-benchmark",
    reads=frozenset({"connections", "response_bytes", "congestion_control", "offload"}),
)
