"""`udp-stream`: datagrams of one size from the client to the server, without answers."""

from switchmark.model.workload import Workload

WORKLOAD = Workload(
    name="udp-stream",
    meaning="bulk datagrams over UDP, client to server; goodput in bits of payload a second",
    protocol="udp",
    unit="bit/s",
    generator="switchmark",
    reads=frozenset({"datagram_bytes", "offload"}),
    times_requests=False,
)
