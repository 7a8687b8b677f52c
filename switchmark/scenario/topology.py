"""What a scenario expands to: nodes with their ports, and the paths that traffic takes.

Ports are numbered as the switch sees them, in the order in which a frame meets them: 2k and
2k+1 are the two sides of one crossing of the switch. So cross-connect is right for a chain
as it is for a pair, and every port's MAC address follows from its number alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from switchmark.campaign.model import Dimension, Trial, rewrites
from switchmark.environment.base import NodePort, NodeSpec
from switchmark.errors import UsageError
from switchmark.switch.base import PortKind
from switchmark.testbed.nics import Nic, parse_nics

MOST_PAIRS = 500  # paths, that is: their addresses are planned
MOST_PORTS = 2 * 2048  # of the switch
APPLICATION_PREFIX, DEVICE_PREFIX = "02", "06"  # locally administered, unicast
STANDARD_MTU_BYTES = 1500
ETHERNET_OVERHEAD_BYTES = 18  # header and FCS: what a frame has beyond its MTU


class Place(StrEnum):
    """Where a node is: in the environment of the trial, or outside of it, at a wire."""

    ENVIRONMENT = "environment"
    WIRE = "wire"  # stands in for a tester behind a physical port


@dataclass(frozen=True, slots=True)
class TopologyPort:
    """A node's port: its number at the switch, its addresses, and where its frames go next."""

    index: int
    mac: str
    ip: str  # with prefix length
    next_mac: str  # of the port that frames sent here must reach
    next_ip: str


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """A place for one traffic application with one port, or for a VNF with two."""

    name: str
    role: str  # of the engine: sender, receiver, client, server, duplex; or `vnf`
    pair: int  # which path it belongs to
    ports: tuple[TopologyPort, ...]
    place: Place = Place.ENVIRONMENT
    far: bool = False  # on the other host
    nic: Nic | None = None  # of a wire end that has real ports: its own, and the switch's

    @property
    def port_index(self) -> int:
        """Of its first port, at the switch."""
        return self.ports[0].index

    @property
    def mac(self) -> str:
        """Of its first port."""
        return self.ports[0].mac

    @property
    def ip(self) -> str:
        """Of its first port, with prefix length."""
        return self.ports[0].ip


@dataclass(frozen=True, slots=True)
class Link:
    """What a port is joined to: the switch under test, or (without one) another node."""

    node: str
    peer: str | None  # None: the switch
    port: int = 0  # of the node


@dataclass(frozen=True, slots=True)
class Path:
    """The way of one stream of traffic, from node to node, through VNFs if there are any."""

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
    paths: tuple[Path, ...]
    direct: bool  # no switch: each pair on a wire of its own
    frame_size_bytes: int

    @property
    def links(self) -> tuple[Link, ...]:
        """Every port and what it is joined to."""
        owners = {port.index: node.name for node in self.nodes for port in node.ports}
        return tuple(
            Link(node.name, owners[port.index ^ 1] if self.direct else None, number)
            for node in self.nodes
            for number, port in enumerate(node.ports)
        )

    @property
    def port_count(self) -> int:
        """Ports of the switch."""
        return sum(len(node.ports) for node in self.nodes)

    def node(self, name: str) -> TopologyNode:
        """The node of this name. Raises KeyError."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def pairs(self, *, far: bool = False) -> tuple[tuple[str, ...], ...]:
        """Node names of each path, its sending end first, then the receiving one, then the
        VNFs (for placement): those on this host, or those on the other one."""
        there = self.far_names
        return tuple(
            tuple(n for n in (path.source, path.target, *path.via) if (n in there) == far)
            for path in self.paths
        )

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
        powers: tuple[str, ...] = (),
        vnf_powers: tuple[str, ...] = (),
    ) -> list[NodeSpec]:
        """What environments are asked to make, node by node; `cores` by node name.

        `past_ip_stack`: the applications read frames from the device themselves, and the
        kernel's IP stack is to leave them alone; the devices get addresses of their own.
        `powers`: see `NodeSpec`; VNFs have their own."""

        def port_of(port: TopologyPort, kind: PortKind, nic: Nic | None) -> NodePort:
            device_mac = port_mac(port.index, DEVICE_PREFIX) if past_ip_stack else None
            return NodePort(
                kind,
                port.mac,
                port.ip,
                mtu_bytes=self._mtu_bytes(),
                device_mac=device_mac,
                peer_mac=port.next_mac,
                peer_ip=port.next_ip,
                nic=nic,
            )

        def kind_at(place: Place) -> PortKind:
            return wire_kind(kind) if place is Place.WIRE else kind

        return [
            NodeSpec(
                node.name,
                tuple(port_of(port, kind_at(node.place), node.nic) for port in node.ports),
                tuple(cores.get(node.name, ())),
                vnf_powers if node.role == "vnf" else powers,
            )
            for node in self.nodes
        ]

    def _mtu_bytes(self) -> int:
        return max(STANDARD_MTU_BYTES, self.frame_size_bytes - ETHERNET_OVERHEAD_BYTES)


def wire_kind(kind: PortKind) -> PortKind:
    """What a wire end has where the environment has ports of this kind: a tap is there for a
    virtual machine, and wire ends live in network namespaces."""
    return PortKind.VETH if kind is PortKind.TAP else kind


# By dimension: for each end, how its nodes are called (at most 3 letters: they end the names
# of devices) and the engine's role there.
ENDS = {
    Dimension.THROUGHPUT: (("tx", "sender"), ("rx", "receiver")),
    Dimension.LATENCY: (("cl", "client"), ("sv", "server")),
}


def lay_out(trial: Trial, places: tuple[Place, Place], chain: int = 0) -> Topology:
    """`trial.pairs` equal paths: an end, `chain` VNFs one behind the other, and the other end.

    Raises UsageError when there are more than addresses or names are planned for."""
    check_pairs(trial, chain)
    duplex = trial.bidirectional and trial.dimension is Dimension.THROUGHPUT
    nodes, paths = _laid_out(
        trial.dimension, trial.pairs, places, chain, duplex, rewrites(trial.vnf),
        trial.location == "remote",
    )  # fmt: skip
    return Topology(nodes, paths, trial.switch == "direct", trial.frame_sizes.largest)


@lru_cache(maxsize=256)
def _laid_out(
    dimension: Dimension,
    pairs: int,
    places: tuple[Place, Place],
    chain: int,
    duplex: bool,
    rewriting: bool,
    remote: bool,
) -> tuple[tuple[TopologyNode, ...], tuple[Path, ...]]:
    """Campaigns have many trials and few layouts: equal ones are the same objects."""
    crossings = chain + 1  # of the switch, a path
    nodes: list[TopologyNode] = []
    paths: list[Path] = []
    for pair in range(pairs):
        first = 2 * crossings * pair  # port of the switch
        last = first + 2 * crossings - 1
        (source, near), (target, far) = ENDS[dimension]
        near, far = ("duplex", "duplex") if duplex else (near, far)
        names = [f"{source}{pair}", *(f"v{pair}-{k}" for k in range(1, chain + 1))]
        names.append(f"{target}{pair}")
        roles = [near, *["vnf"] * chain, far]
        numbers = [(first,), *((first + 2 * k - 1, first + 2 * k) for k in range(1, chain + 1))]
        numbers.append((last,))
        between = places[0], *[Place.ENVIRONMENT] * chain, places[1]
        # The first half of a chain is here, the rest and the other end there: one crossing of
        # the cable, wherever it is.
        here = 1 + (chain + 1) // 2 if remote else len(names)
        nodes += [
            TopologyNode(
                name,
                role,
                pair,
                tuple(_port(index, pair, first, last, rewriting) for index in own),
                place,
                far=station >= here,
            )
            for station, (name, role, own, place) in enumerate(
                zip(names, roles, numbers, between, strict=True)
            )
        ]
        both_ways = duplex or dimension is Dimension.LATENCY
        paths.append(Path(pair, pair, names[0], names[-1], both_ways, tuple(names[1:-1])))
    return tuple(nodes), tuple(paths)


def _port(index: int, pair: int, first: int, last: int, rewriting: bool) -> TopologyPort:
    """Frames that leave by a port cross the switch to the other side of the crossing. Where the
    VNFs do not rewrite addresses, the ends address each other. The ends of a path are one IP
    subnet; VNFs have no IP address."""
    if index not in (first, last):
        return TopologyPort(index, port_mac(index), "", port_mac(index ^ 1), "")
    other = first + last - index
    next_mac = port_mac(index ^ 1 if rewriting else other)
    own_ip, other_ip = (pair_ip(pair, int(which == last)) for which in (index, other))
    return TopologyPort(index, port_mac(index), own_ip, next_mac, other_ip)


def port_mac(index: int, prefix: str = APPLICATION_PREFIX) -> str:
    """The address behind a port of the switch."""
    return pair_mac(index >> 1, index & 1, prefix)


def pair_mac(pair: int, end: int, prefix: str = APPLICATION_PREFIX) -> str:
    """A locally administered unicast address: prefix, "SM", the pair, the end from 1."""
    return f"{prefix}:53:4d:{pair >> 8:02x}:{pair & 255:02x}:{end + 1:02x}"


def pair_ip(pair: int, end: int) -> str:
    """Each pair has a /24 of its own from 10.64.0.0 on; its ends are .1 and .2."""
    return f"10.{64 + (pair >> 8)}.{pair & 255}.{end + 1}/24"


def with_nics(topology: Topology, text: str) -> Topology:
    """The topology with these real ports at its wire ends, in turn. Raises UsageError where they
    are not as many as there are ends."""
    nics = parse_nics(text)
    if not nics:
        return topology
    ends = [node.name for node in topology.nodes if node.place is Place.WIRE]
    if len(ends) != len(nics):
        raise UsageError(
            f"nics: {text} names {len(nics)} of TESTER/SWITCH, and there are {len(ends)} wire ends"
            f" ({', '.join(ends) or 'none in this scenario'}); name one for each"
        )
    at = dict(zip(ends, nics, strict=True))
    nodes = tuple(replace(node, nic=at.get(node.name)) for node in topology.nodes)
    return replace(topology, nodes=nodes)


def check_pairs(trial: Trial, chain: int = 0) -> None:
    """Raises UsageError when there are more paths than addresses, or VNFs than names."""
    if trial.pairs > MOST_PAIRS:
        raise UsageError(
            f"pairs: {trial.pairs} is more than the {MOST_PAIRS} that addresses are planned for"
        )
    ports = 2 * (chain + 1) * trial.pairs
    if chain and (trial.pairs > 100 or ports > MOST_PORTS):
        raise UsageError(
            f"{trial.scenario}: {trial.pairs} chains of {chain} VNFs make {ports} ports; at most "
            f"100 chains and {MOST_PORTS} ports are planned for"
        )
