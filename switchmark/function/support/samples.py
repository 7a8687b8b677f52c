"""Sample frames for the proof: of the load, or to an address of the caller's choice."""

from __future__ import annotations

from switchmark.function.support.flows import LOAD_PORT, PERMITTED_PORT, SOURCE_PORT
from switchmark.function.support.frames import Frame
from switchmark.function.support.functions import Passing
from switchmark.function.support.table import FunctionTable

SOURCE = {4: "198.18.250.{}", 6: "2001:2::fa:{:x}"}
DESTINATION = {4: "172.16.250.{}", 6: "2001:2:0:f000::fa:{:x}"}
PAYLOAD_BYTES = 18  # a frame of 64 bytes with FCS


def load_frame(
    table: FunctionTable,
    ingress: int,
    *,
    source: str | None = None,
    destination: str | None = None,
    source_port: int = SOURCE_PORT,
    destination_port: int | None = None,
    ttl: int = 64,
    dscp: int = 0,
    vid: int | None = None,
) -> Passing:
    """Return a frame of the load that enters a port. The default destination is inside the first
    route to the other port of the pair, or any address if the base is `forward`."""
    port, peer = table.ports[ingress], table.ports[ingress ^ 1]
    version = table.ip_version
    if destination is None:
        destination = _routed(table, peer.index) or DESTINATION[version].format(1 + ingress)
    if destination_port is None:
        spread = any(rule.permit and rule.destination_ports for rule in table.rules)
        destination_port = PERMITTED_PORT if spread else LOAD_PORT
    return Passing(
        ingress,
        Frame(
            source_mac=port.host_mac,
            destination_mac=port.mac if table.is_routed else peer.host_mac,
            source=source or SOURCE[version].format(1 + ingress),
            destination=destination,
            source_port=source_port,
            destination_port=destination_port,
            payload=bytes(PAYLOAD_BYTES),
            ttl=ttl,
            dscp=dscp,
            vid=vid,
        ),
    )


def _routed(table: FunctionTable, port: int) -> str | None:
    """Return an address that leads to a port: the tester's own, which is always routed."""
    return table.ports[port].host if table.is_routed else None
