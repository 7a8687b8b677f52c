"""`bare`: processes on the host, nothing set apart: the engine as any program of the host runs.

Network devices of the trial lie among the host's own, under names that carry the session,
without addresses, so that no address or route of the host's changes. So only I/O that reads
frames from the device itself (raw, DPDK) can be used, not UDP sockets.
"""

from __future__ import annotations

import os

from switchmark.environment.base import NodeSpec
from switchmark.environment.engine_binary import find_engine
from switchmark.environment.netns import NetnsNode
from switchmark.environment.plug import hosts_own, plug, plug_wire
from switchmark.switch.base import PortKind, Probe
from switchmark.testbed import capabilities
from switchmark.testbed.host import Session


class BareEnvironment:
    """Makes nodes that are nothing but processes and their ports."""

    name = "bare"

    def probe(self) -> Probe:
        """Making devices, and packet sockets on them, needs root."""
        if not capabilities.enough():
            return Probe(False, reason="not root", remedy="run switchmark as root (sudo)")
        return Probe(True, version=os.uname().release)

    def port_kinds(self) -> tuple[PortKind, ...]:
        """The kinds of port that its nodes can have."""
        return (PortKind.VETH, PortKind.VHOST_USER, PortKind.MEMIF)

    def create(self, session: Session, spec: NodeSpec) -> NetnsNode:
        """Ports for a switch, and a program on them."""
        engine = find_engine()
        return NetnsNode(session, plug(session, hosts_own(spec)), engine)

    def create_wire(
        self, session: Session, a: NodeSpec, b: NodeSpec
    ) -> tuple[NetnsNode, NetnsNode]:
        """Two programs joined without a switch."""
        engine = find_engine()
        ends = plug_wire(session, hosts_own(a), hosts_own(b))
        return NetnsNode(session, ends[0], engine), NetnsNode(session, ends[1], engine)
