"""The layout of a scenario: nodes with their ports, and the paths of the traffic.

Ports of the switch are numbered in the order in which a frame passes them: 2k and 2k+1 are the two
sides of one crossing of the switch. Cross-connect is therefore right for chains and for pairs, and
the MAC address of a port follows from its number alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from switchmark.model.choices import WIRE, Dimension, rewrites
from switchmark.model.functions import OUTER_BYTES, ROUTE
from switchmark.model.nics import Nic
from switchmark.model.topology import (
    MONITOR,
    NodePlace,
    Topology,
    TopologyNode,
    TopologyPort,
    TrafficPath,
    port_mac,
    router_mac,
)
from switchmark.model.trial import Trial

MOST_PAIRS = 500  # number of paths that have addresses
MOST_CHAINS = 100  # number of chains that have names
MOST_PORTS = 2 * 2048  # largest number of ports of the switch

# For each end: the name of its nodes, with at most 3 letters since device names end with it, and
# the role of the engine.
ENDS = {
    Dimension.THROUGHPUT: (("tx", "sender"), ("rx", "receiver")),
    Dimension.LATENCY: (("cl", "client"), ("sv", "server")),
}


def lay_out(trial: Trial, places: tuple[NodePlace, NodePlace], chain: int) -> Topology:
    """Lay out `trial.pairs` equal paths: an end, a chain of `chain` VNFs, and the other end."""
    assert fits(trial.pairs, chain), "campaign/rules/layout.py refuses it"
    duplex = trial.bidirectional and trial.dimension is Dimension.THROUGHPUT
    routed = trial.function.base == ROUTE
    is_tunnelled = "vxlan" in trial.function.names
    outer_bytes = OUTER_BYTES[trial.ip_version] if is_tunnelled else 0
    mirrored = "mirror" in trial.function.names and trial.switch != WIRE
    return _topology(
        (trial.dimension, trial.pairs, places, chain, duplex, rewrites(trial.vnf),
         trial.location == "remote", routed, mirrored),
        trial.switch == WIRE, trial.frame_sizes.largest + outer_bytes,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _topology(layout: tuple[Any, ...], direct: bool, frame_size_bytes: int) -> Topology:
    return Topology(*_nodes_and_paths(*layout), direct, frame_size_bytes)


@lru_cache(maxsize=256)
def _nodes_and_paths(
    dimension: Dimension,
    pairs: int,
    places: tuple[NodePlace, NodePlace],
    chain: int,
    duplex: bool,
    rewriting: bool,
    remote: bool,
    routed: bool,
    mirrored: bool,
) -> tuple[tuple[TopologyNode, ...], tuple[TrafficPath, ...]]:
    """Return the layout. It is cached, since campaigns have many trials and few layouts."""
    crossings = chain + 1  # number of times that a path crosses the switch
    nodes: list[TopologyNode] = []
    paths: list[TrafficPath] = []
    for pair in range(pairs):
        first = 2 * crossings * pair  # port of the switch
        last = first + 2 * crossings - 1
        (source, source_role), (target, target_role) = ENDS[dimension]
        if duplex:
            source_role = target_role = "duplex"
        via = tuple(f"v{pair}-{k}" for k in range(1, chain + 1))
        stations = [
            (f"{source}{pair}", source_role, places[0]),
            *((vnf, "vnf", NodePlace.ENVIRONMENT) for vnf in via),
            (f"{target}{pair}", target_role, places[1]),
        ]
        # Between hosts, the first half of a chain is on the local host, and the rest on the remote
        # host, so that a path crosses the cable once.
        local = 1 + (chain + 1) // 2 if remote else len(stations)
        for station, (name, role, place) in enumerate(stations):
            numbers = range(max(first, first + 2 * station - 1), min(last, first + 2 * station) + 1)
            ports = tuple(_port(index, pair, first, last, rewriting, routed) for index in numbers)
            nodes.append(TopologyNode(name, role, pair, ports, place, far=station >= local))
        both_ways = duplex or dimension is Dimension.LATENCY
        paths.append(TrafficPath(pair, pair, f"{source}{pair}", f"{target}{pair}", both_ways, via))
    if mirrored:
        nodes.append(_monitor(nodes[1], 2 * crossings * pairs))
    return tuple(nodes), tuple(paths)


def _monitor(target: TopologyNode, index: int) -> TopologyNode:
    """Return the node at the monitor port. It has the addresses of the target of the first path,
    since copies are frames for that target."""
    (port,) = target.ports
    return TopologyNode(MONITOR, "receiver", 0, (replace(port, index=index),), target.place)


def _port(
    index: int, pair: int, first: int, last: int, rewriting: bool, routed: bool
) -> TopologyPort:
    """Return a port. Frames that enter the switch by it leave by the other port of the crossing. If
    the VNFs do not rewrite addresses, the ends address each other, or the switch if it routes. The
    ends of a path are in one IP subnet; VNFs have no IP address."""
    if index not in (first, last):
        return TopologyPort(index, port_mac(index), "", port_mac(index ^ 1), "")
    other = first + last - index
    next_mac = router_mac(index) if routed else port_mac(index ^ 1 if rewriting else other)
    own_ip, other_ip = (pair_ip(pair, int(which == last)) for which in (index, other))
    return TopologyPort(index, port_mac(index), own_ip, next_mac, other_ip)


def pair_ip(pair: int, end: int) -> str:
    """Return the address of an end. Each pair has a /24 network, beginning with 10.64.0.0/24, and
    its ends are .1 and .2."""
    return f"10.{64 + (pair >> 8)}.{pair & 255}.{end + 1}/24"


def with_nics(topology: Topology, nics: Sequence[Nic]) -> Topology:
    """Return the topology with these real ports at its testers, in order."""
    if not nics:
        return topology
    ends = [node.name for node in topology.nodes if node.place is NodePlace.WIRE]
    assert len(ends) == len(nics), "campaign/rules/layout.py refuses it"
    nic_of = dict(zip(ends, nics, strict=True))
    nodes = tuple(replace(node, nic=nic_of.get(node.name)) for node in topology.nodes)
    return replace(topology, nodes=nodes)


def wire_ends(
    dimension: Dimension, pairs: int, places: Sequence[NodePlace], split: str = "none"
) -> list[str]:
    """Return the names of the testers of the paths. Chains with a split share one sender and one
    receiver."""
    return [
        f"{name}{pair}"
        for pair in range(pairs if split == "none" else 1)
        for (name, _), place in zip(ENDS[dimension], places, strict=True)
        if place is NodePlace.WIRE
    ]


def ports_of(pairs: int, chain: int) -> int:
    """Return the number of switch ports for `pairs` paths through `chain` VNFs each."""
    return 2 * (chain + 1) * pairs


def fits(pairs: int, chain: int) -> bool:
    """Return True if there are enough addresses for the paths, and names for their VNFs."""
    if not chain:
        return pairs <= MOST_PAIRS
    return pairs <= MOST_CHAINS and ports_of(pairs, chain) <= MOST_PORTS
