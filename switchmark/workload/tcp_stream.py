"""`tcp-stream`: bulk data from the client to the server, over one TCP connection or more."""

from switchmark.model.workload import Workload

WORKLOAD = Workload(
    name="tcp-stream",
    meaning="bulk data over TCP, client to server; goodput in bits of payload a second",
    protocol="tcp",
    unit="bit/s",
    generator="switchmark",
    reads=frozenset({"tcp_streams", "congestion_control", "offload"}),
    times_requests=False,
)
