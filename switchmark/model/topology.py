"""The topology of a scenario: nodes with their ports, and the paths that traffic takes.

Ports are numbered as the switch sees them, in the order in which a frame meets them: 2k and
2k+1 are the two sides of one crossing of the switch. So cross-connect is right for a chain
as it is for a pair, and every port's MAC address follows from its number alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from switchmark.model.nics import Nic
from switchmark.model.node import NodePort, NodeSpec
from switchmark.model.ports import PortKind

APPLICATION_PREFIX, DEVICE_PREFIX = "02", "06"  # locally administered, unicast
STANDARD_MTU_BYTES = 1500
MONITOR = "mo0"  # node at the monitor port of function `mirror`, the last port
ETHERNET_OVERHEAD_BYTES = 18  # header and FCS: bytes of a frame beyond its MTU


class NodePlace(StrEnum):
    """Where a node is: in the environment of the trial, or outside of it at a wire."""

    ENVIRONMENT = "environment"
    WIRE = "wire"  # stands in for a tester behind a physical port


@dataclass(frozen=True, slots=True)
class TopologyPort:
    """A node's port: its number at the switch, its addresses, and where its frames go next."""

    index: int
    mac: str
    ip: str  # with prefix length
    next_mac: str  # address of the port that frames sent here must reach
    next_ip: str


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """A place for one traffic application with one port, or for a VNF with two."""

    name: str
    role: str  # of the engine (sender, receiver, client, server, duplex), or `vnf`
    pair: int  # which path it belongs to
    ports: tuple[TopologyPort, ...]
    place: NodePlace = NodePlace.ENVIRONMENT
    far: bool = False  # on the other host
    nic: Nic | None = None  # real ports of a wire end: the tester's and the switch's

    @property
    def mac(self) -> str:
        """The MAC address of its first port."""
        return self.ports[0].mac

    @property
    def ip(self) -> str:
        """The IP address of its first port, with prefix length."""
        return self.ports[0].ip


@dataclass(frozen=True, slots=True)
class PortPeer:
    """The other side of a port: the switch under test or, without one, another node."""

    node: str
    peer: str | None  # None: the switch
    port: int = 0  # index in the node


@dataclass(frozen=True, slots=True)
class TrafficPath:
    """The path of one stream of traffic, from node to node, through VNFs if there are any."""

    pair: int
    stream: int  # the engine's --stream
    source: str
    target: str
    both_ways: bool  # requests and answers, or traffic from both ends
    via: tuple[str, ...] = ()
    chains: int = 1  # beside each other, that `via` lists one after the other

    def ways(self) -> list[tuple[str, ...]]:
        """The VNFs of each chain."""
        length = len(self.via) // self.chains
        return [self.via[k * length : (k + 1) * length] for k in range(self.chains)]


@dataclass(frozen=True, slots=True)
class Topology:
    """A trial's nodes and paths."""

    nodes: tuple[TopologyNode, ...]  # in the order of their first port
    paths: tuple[TrafficPath, ...]
    direct: bool  # no switch: each pair on its own wire
    frame_size_bytes: int

    @property
    def links(self) -> tuple[PortPeer, ...]:
        """Every port with its other side."""
        owners = {port.index: node.name for node in self.nodes for port in node.ports}
        return tuple(
            PortPeer(node.name, owners[port.index ^ 1] if self.direct else None, number)
            for node in self.nodes
            for number, port in enumerate(node.ports)
        )

    @property
    def monitor(self) -> TopologyNode | None:
        """The node that receives copies of frames, which is on no path; None if there is none."""
        last = self.nodes[-1]
        return last if last.name == MONITOR else None

    @property
    def port_count(self) -> int:
        """The number of the switch's ports."""
        return sum(len(node.ports) for node in self.nodes)

    def node(self, name: str) -> TopologyNode:
        """The node of this name. Raises KeyError."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def pairs(self, *, far: bool = False) -> tuple[tuple[str, ...], ...]:
        """Node names of each path for placement: the sending end, the receiving end, then the VNFs;
        those on this host, or those on the other one."""
        there = self.far_names
        names = tuple((path.source, path.target, *path.via) for path in self.paths)
        if self.monitor is not None:
            names = ((*names[0], self.monitor.name), *names[1:])
        if not there:
            return tuple(() for _ in names) if far else names
        return tuple(tuple(n for n in path if (n in there) == far) for path in names)

    @property
    def far_names(self) -> frozenset[str]:
        """The nodes on the other host."""
        return frozenset(node.name for node in self.nodes if node.far)

    @property
    def far_ports(self) -> frozenset[int]:
        """The ports of these nodes."""
        return frozenset(port.index for node in self.nodes if node.far for port in node.ports)

    def specs(
        self,
        kind: PortKind,
        cores: Mapping[str, Sequence[int]],
        *,
        past_ip_stack: bool = False,
        linux_capabilities: tuple[str, ...] = (),
        vnf_capabilities: tuple[str, ...] = (),
    ) -> list[NodeSpec]:
        """The nodes that environments have to make; `cores` by node name. `past_ip_stack`: the
        applications read frames from the device themselves, so the kernel's IP stack must leave
        them alone, and the devices get addresses of their own. `linux_capabilities`: see
        `NodeSpec`; VNFs have their own."""

        def port_of(node: TopologyNode, port: TopologyPort) -> NodePort:
            return NodePort(
                wire_kind(kind) if node.place is NodePlace.WIRE else kind,
                port.mac,
                port.ip,
                mtu_bytes=mtu_bytes(self.frame_size_bytes),
                device_mac=port_mac(port.index, DEVICE_PREFIX) if past_ip_stack else None,
                peer_mac=port.next_mac,
                peer_ip=port.next_ip,
                nic=node.nic,
            )

        return [
            NodeSpec(
                node.name,
                tuple(port_of(node, port) for port in node.ports),
                tuple(cores.get(node.name, ())),
                vnf_capabilities if node.role == "vnf" else linux_capabilities,
            )
            for node in self.nodes
        ]


def mtu_bytes(frame_bytes: int) -> int:
    """The MTU of devices that carry frames of this size (with FCS)."""
    return max(STANDARD_MTU_BYTES, frame_bytes - ETHERNET_OVERHEAD_BYTES)


def wire_kind(kind: PortKind) -> PortKind:
    """The kind of port at a wire end, where the environment has ports of this kind. Wire ends live
    in network namespaces; a tap, which serves a virtual machine, becomes a veth there."""
    return PortKind.VETH if kind is PortKind.TAP else kind


def port_mac(index: int, prefix: str = APPLICATION_PREFIX) -> str:
    """The MAC address behind a port of the switch."""
    return pair_mac(index >> 1, index & 1, prefix)


def router_mac(index: int) -> str:
    """The MAC address of the switch itself at a port, if it routes."""
    return f"02:72:00:00:{index >> 8:02x}:{index & 255:02x}"


def pair_mac(pair: int, end: int, prefix: str = APPLICATION_PREFIX) -> str:
    """A locally administered unicast address: prefix, "SM", the pair, the end from 1."""
    return f"{prefix}:53:4d:{pair >> 8:02x}:{pair & 255:02x}:{end + 1:02x}"
