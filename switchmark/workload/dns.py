"""`dns`: queries over UDP to a server that knows the answer."""

from switchmark.model.workload import Workload

WORKLOAD = Workload(
    name="dns",
    meaning="queries over UDP to dnsmasq, which knows the answer",
    protocol="udp",
    unit="requests/s",
    generator="dnsperf",
    reads=frozenset({"offload"}),
)
