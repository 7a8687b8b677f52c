"""The topology of a scenario: nodes with their ports, and the paths that traffic takes.

Ports have the numbers of the switch's ports, in the order in which a frame passes them: 2k and 2k+1
are the two sides of one crossing of the switch. Therefore cross-connect works for a chain as for a
pair, and the MAC address of a port follows from its number alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from switchmark.model.choices import ETHERNET_OVERHEAD_BYTES, STANDARD_MTU_BYTES
from switchmark.model.nics import Nic
from switchmark.model.node import NodePort, NodeSpec
from switchmark.model.ports import PortKind

APPLICATION_PREFIX, DEVICE_PREFIX = "02", "06"  # locally administered, unicast
MONITOR = "mo0"  # node at the monitor port of function `mirror`, the last port


class NodePlace(StrEnum):
    """The place of a node: in the environment of the trial, or outside as a tester."""

    ENVIRONMENT = "environment"
    WIRE = "wire"  # a tester, which would be behind a physical port


@dataclass(frozen=True, slots=True)
class TopologyPort:
    """A node's port: its number at the switch, its addresses, and the next hop of its frames."""

    index: int
    mac: str
    ip: str  # with prefix length
    next_mac: str  # address of the port that frames sent here must reach
    next_ip: str


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """A place for one traffic application with one port, or for a VNF with two."""

    name: str
    role: str  # role of the engine (sender, receiver, client, server, duplex), or `vnf`
    pair: int  # the number of its path
    ports: tuple[TopologyPort, ...]
    place: NodePlace = NodePlace.ENVIRONMENT
    far: bool = False  # on the remote host
    nic: Nic | None = None  # real ports: those of the tester and of the switch

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
    chains: int = 1  # number of parallel chains, which `via` lists one after the other

    def ways(self) -> list[tuple[str, ...]]:
        """Return the VNFs of each chain."""
        length = len(self.via) // self.chains
        return [self.via[k * length : (k + 1) * length] for k in range(self.chains)]


@dataclass(frozen=True, slots=True)
class Topology:
    """A trial's nodes and paths."""

    nodes: tuple[TopologyNode, ...]  # in the order of their first port
    paths: tuple[TrafficPath, ...]
    direct: bool  # no switch: the ends of each pair are connected
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
        """The node that receives copies of frames and is not on a path; None without a mirror."""
        last = self.nodes[-1]
        return last if last.name == MONITOR else None

    @property
    def port_count(self) -> int:
        """The number of the switch's ports."""
        return sum(len(node.ports) for node in self.nodes)

    def node(self, name: str) -> TopologyNode:
        """Return the node of this name. Raises KeyError."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def pairs(self, *, far: bool = False) -> tuple[tuple[str, ...], ...]:
        """Return the node names of each path for placement: sender, receiver, then VNFs. Only nodes
        of this host or, with `far`, of the remote host."""
        far_names = self.far_names
        names = tuple((path.source, path.target, *path.via) for path in self.paths)
        if self.monitor is not None:
            names = ((*names[0], self.monitor.name), *names[1:])
        if not far_names:
            return tuple(() for _ in names) if far else names
        return tuple(tuple(n for n in path if (n in far_names) == far) for path in names)

    @property
    def far_names(self) -> frozenset[str]:
        """The nodes on the remote host."""
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
        """Return the nodes that environments have to make; `cores` by node name. `past_ip_stack`:
        the applications read frames from the device themselves, so the devices get different
        addresses, and the kernel's IP stack ignores the frames. `linux_capabilities`: see
        `NodeSpec`; those of VNFs are `vnf_capabilities`."""

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
    """Return the MTU of devices for frames of this size (with FCS)."""
    return max(STANDARD_MTU_BYTES, frame_bytes - ETHERNET_OVERHEAD_BYTES)


def wire_kind(kind: PortKind) -> PortKind:
    """Return the port kind of a tester if the environment has ports of this kind. Testers are in
    network namespaces, where a veth replaces the tap of a virtual machine."""
    return PortKind.VETH if kind is PortKind.TAP else kind


def port_mac(index: int, prefix: str = APPLICATION_PREFIX) -> str:
    """Return the MAC address behind a port of the switch."""
    return pair_mac(index >> 1, index & 1, prefix)


def router_mac(index: int) -> str:
    """Return the MAC address of the switch itself at a port, if it routes."""
    return f"02:72:00:00:{index >> 8:02x}:{index & 255:02x}"


def pair_mac(pair: int, end: int, prefix: str = APPLICATION_PREFIX) -> str:
    """Return a locally administered unicast address: prefix, "SM", the pair, the end from 1."""
    return f"{prefix}:53:4d:{pair >> 8:02x}:{pair & 255:02x}:{end + 1:02x}"
