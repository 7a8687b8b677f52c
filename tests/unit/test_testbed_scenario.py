"""The pairs scenario: nodes, addresses and wires, for any number of pairs."""

from __future__ import annotations

import ipaddress

import pytest

from switchmark.campaign.model import Dimension, Trial
from switchmark.errors import UsageError
from switchmark.scenario.registry import SCENARIOS
from switchmark.scenario.topology import Topology
from switchmark.switch.base import PortKind


def topology(pairs: int = 1, dimension: str = "throughput", switch: str = "linux-bridge",
             size: int = 64) -> Topology:  # fmt: skip
    trial = Trial(
        dimension=Dimension(dimension), pairs=pairs, switch=switch, packet_size_bytes=size
    )
    return SCENARIOS["pairs"](trial)


def test_one_pair_of_each_dimension() -> None:
    one = topology()
    assert [(node.name, node.role) for node in one.nodes] == [
        ("tx0", "sender"),
        ("rx0", "receiver"),
    ]
    assert one.pairs() == (("tx0", "rx0"),) and not one.paths[0].both_ways
    two = topology(dimension="latency")
    assert [(node.name, node.role) for node in two.nodes] == [("cl0", "client"), ("sv0", "server")]
    assert two.paths[0].both_ways


def test_addresses_of_500_pairs_are_distinct_and_valid() -> None:
    nodes = topology(500).nodes
    assert len({node.mac for node in nodes}) == len({node.ip for node in nodes}) == 1000
    assert len({node.name for node in nodes}) == 1000
    assert [node.port_index for node in nodes] == list(range(1000))
    for node in nodes:
        first = int(node.mac.partition(":")[0], 16)
        assert first & 2 and not first & 1, "locally administered, and unicast"
        assert ipaddress.ip_interface(node.ip).is_private
        assert len("sm1a2b3c" + node.name) <= 15
    for a, b in zip(nodes[::2], nodes[1::2], strict=True):
        assert ipaddress.ip_interface(a.ip).network == ipaddress.ip_interface(b.ip).network
    assert topology(500) == topology(500), "the same every time"


def test_too_many_pairs() -> None:
    with pytest.raises(UsageError, match="501 is more than the 500"):
        topology(501)


def test_links_go_to_the_switch_or_to_the_peer() -> None:
    assert [link.peer for link in topology(2).links] == [None] * 4
    wires = topology(2, switch="direct")
    assert wires.direct
    assert [(link.node, link.peer) for link in wires.links] == [
        ("tx0", "rx0"),
        ("rx0", "tx0"),
        ("tx1", "rx1"),
        ("rx1", "tx1"),
    ]


def test_specs_know_their_peers_cores_and_mtu() -> None:
    cores = {"tx0": [1], "rx0": [2], "tx1": [3], "rx1": [3]}
    specs = topology(2).pair_specs(PortKind.VETH, cores)
    assert [(a.name, b.name) for a, b in specs] == [("tx0", "rx0"), ("tx1", "rx1")]
    for a, b in specs:
        assert (a.peer_mac, a.peer_ip) == (b.port.mac, b.port.ip)
        assert (b.peer_mac, b.peer_ip) == (a.port.mac, a.port.ip)
        assert a.cores == tuple(cores[a.name]) and a.port.mtu_bytes == 1500
    jumbo = topology(1, size=9018).pair_specs(PortKind.VETH, cores)
    assert jumbo[0][0].port.mtu_bytes == 9000
    largest_standard = topology(1, size=1518).pair_specs(PortKind.VETH, cores)
    assert largest_standard[0][0].port.mtu_bytes == 1500
