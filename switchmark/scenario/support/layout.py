"""What a scenario expands to: nodes with their ports, and the paths that traffic takes.

Ports are numbered as the switch sees them, in the order in which a frame meets them: 2k and
2k+1 are the two sides of one crossing of the switch. So cross-connect is right for a chain
as it is for a pair, and every port's MAC address follows from its number alone.
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

MOST_PAIRS = 500  # paths, that is: there are addresses for so many
MOST_CHAINS = 100  # there are names for so many
MOST_PORTS = 2 * 2048  # of the switch

# By dimension: for each end, how its nodes are called (at most 3 letters: they end the names
# of devices) and the engine's role there.
ENDS = {
    Dimension.THROUGHPUT: (("tx", "sender"), ("rx", "receiver")),
    Dimension.LATENCY: (("cl", "client"), ("sv", "server")),
}


def lay_out(trial: Trial, places: tuple[NodePlace, NodePlace], chain: int) -> Topology:
    """Lay out `trial.pairs` equal paths: an end, `chain` VNFs one behind the other, and the other
    end."""
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
    return Topology(*_laid_out(*layout), direct, frame_size_bytes)


@lru_cache(maxsize=256)
def _laid_out(
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
    """The layout, made once for equal trials: campaigns have many trials and few layouts."""
    crossings = chain + 1  # of the switch, a path
    nodes: list[TopologyNode] = []
    paths: list[TrafficPath] = []
    for pair in range(pairs):
        first = 2 * crossings * pair  # port of the switch
        last = first + 2 * crossings - 1
        (source, near), (target, far) = ENDS[dimension]
        near, far = ("duplex", "duplex") if duplex else (near, far)
        via = tuple(f"v{pair}-{k}" for k in range(1, chain + 1))
        stations = [
            (f"{source}{pair}", near, places[0]),
            *((vnf, "vnf", NodePlace.ENVIRONMENT) for vnf in via),
            (f"{target}{pair}", far, places[1]),
        ]
        # The first half of a chain is here, the rest and the other end there: one crossing of
        # the cable, wherever it is.
        here = 1 + (chain + 1) // 2 if remote else len(stations)
        for station, (name, role, place) in enumerate(stations):
            own = range(max(first, first + 2 * station - 1), min(last, first + 2 * station) + 1)
            ports = tuple(_port(index, pair, first, last, rewriting, routed) for index in own)
            nodes.append(TopologyNode(name, role, pair, ports, place, far=station >= here))
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
    """A port. Frames that leave by it cross the switch to the other side of the crossing. Where the
    VNFs do not rewrite addresses, the ends address each other, or the switch if it routes. The
    ends of a path are one IP
    subnet; VNFs have no IP address."""
    if index not in (first, last):
        return TopologyPort(index, port_mac(index), "", port_mac(index ^ 1), "")
    other = first + last - index
    next_mac = router_mac(index) if routed else port_mac(index ^ 1 if rewriting else other)
    own_ip, other_ip = (pair_ip(pair, int(which == last)) for which in (index, other))
    return TopologyPort(index, port_mac(index), own_ip, next_mac, other_ip)


def pair_ip(pair: int, end: int) -> str:
    """The address of an end: each pair has a /24 of its own from 10.64.0.0 on; its ends are .1 and
    .2."""
    return f"10.{64 + (pair >> 8)}.{pair & 255}.{end + 1}/24"


def with_nics(topology: Topology, nics: Sequence[Nic]) -> Topology:
    """The topology with these real ports at its wire ends, in turn."""
    if not nics:
        return topology
    ends = [node.name for node in topology.nodes if node.place is NodePlace.WIRE]
    assert len(ends) == len(nics), "campaign/rules/layout.py refuses it"
    at = dict(zip(ends, nics, strict=True))
    nodes = tuple(replace(node, nic=at.get(node.name)) for node in topology.nodes)
    return replace(topology, nodes=nodes)


def wire_ends(
    dimension: Dimension, pairs: int, places: Sequence[NodePlace], split: str = "none"
) -> list[str]:
    """The names of the wire ends of so many paths. Chains that a split joins have one sender and
    one receiver."""
    return [
        f"{name}{pair}"
        for pair in range(pairs if split == "none" else 1)
        for (name, _), place in zip(ENDS[dimension], places, strict=True)
        if place is NodePlace.WIRE
    ]


def ports_of(pairs: int, chain: int) -> int:
    """The ports of the switch that so many paths through so many VNFs need."""
    return 2 * (chain + 1) * pairs


def fits(pairs: int, chain: int) -> bool:
    """Whether there are addresses for so many paths, and names for their VNFs."""
    if not chain:
        return pairs <= MOST_PAIRS
    return pairs <= MOST_CHAINS and ports_of(pairs, chain) <= MOST_PORTS
