"""`bare`: processes on the host without isolation.

Network devices of the trial lie among the host's own, under names that carry the session, without
addresses, so that no address or route of the host's changes. So only I/O that reads frames from the
device itself (raw, DPDK) can be used, not UDP sockets.
"""

from __future__ import annotations

import os

from switchmark.environment.netns import NetnsEnvironment
from switchmark.environment.support.base import Traits
from switchmark.host import place
from switchmark.host.host import Session
from switchmark.host.place import Facility
from switchmark.model.capabilities import Availability, available
from switchmark.model.node import NodeSpec
from switchmark.model.ports import PortKind
from switchmark.port.attached import Attached, in_host_namespace


class BareEnvironment(NetnsEnvironment):
    """Makes nodes that are nothing but processes and their ports."""

    name = "bare"
    traits = Traits(noun="plain processes", own_network=False)

    def availability(self) -> Availability:
        """Always available: processes with sockets as ports need no privilege."""
        return available(os.uname().release)

    def port_availability(self, kind: PortKind) -> Availability:
        """See `DiffersByPort`; devices are made here, and frames read from them by packet
        sockets."""
        if kind is not PortKind.VETH:
            return self.availability()
        problem = place.missing(Facility.NETWORK_DEVICE, Facility.PACKET_SOCKET)
        return problem or self.availability()

    def port_kinds(self) -> tuple[PortKind, ...]:
        """The kinds of port that its nodes can have."""
        return (PortKind.VETH, PortKind.VHOST_USER, PortKind.MEMIF, PortKind.VALE)

    def place(self, session: Session, spec: NodeSpec) -> Attached:  # noqa: ARG002
        """A place among the host's own devices."""
        return in_host_namespace(spec)
