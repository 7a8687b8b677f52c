"""Scenarios: nodes, addresses and links, for any number of paths, and their drawings."""

from __future__ import annotations

import ipaddress
from xml.etree import ElementTree

import pytest

from switchmark.errors import UsageError
from switchmark.model.choices import Dimension
from switchmark.model.ports import PortKind
from switchmark.model.scenario import Scenario
from switchmark.model.topology import Topology
from switchmark.model.trial import Trial
from switchmark.scenario.registry import PLACES, expand, resolve_names
from switchmark.scenario.support.draw import Labels, draw_lines, draw_svg
from switchmark.scenario.support.layout import fits, wire_ends
from switchmark.scenario.support.split import split_of


def topology(pairs: int = 1, dimension: str = "throughput", switch: str = "linux-bridge",
             size: int = 64) -> Topology:  # fmt: skip
    trial = Trial(
        dimension=Dimension(dimension), pairs=pairs, switch=switch, packet_size_bytes=size
    )
    return expand(trial)


def test_pair_has_the_roles_of_its_dimension() -> None:
    single = topology()
    assert [(node.name, node.role) for node in single.nodes] == [
        ("tx0", "sender"),
        ("rx0", "receiver"),
    ]
    assert single.pairs() == (("tx0", "rx0"),) and not single.paths[0].both_ways
    two = topology(dimension="latency")
    assert [(node.name, node.role) for node in two.nodes] == [("cl0", "client"), ("sv0", "server")]
    assert two.paths[0].both_ways


def test_addresses_of_500_pairs_are_distinct_and_valid() -> None:
    nodes = topology(500).nodes
    assert len({node.mac for node in nodes}) == len({node.ip for node in nodes}) == 1000
    assert len({node.name for node in nodes}) == 1000
    assert [node.ports[0].index for node in nodes] == list(range(1000))
    for node in nodes:
        first = int(node.mac.partition(":")[0], 16)
        assert first & 2 and not first & 1, "locally administered, and unicast"
        assert ipaddress.ip_interface(node.ip).is_private
        assert len("sm1a2b3c" + node.name) <= 15
    for a, b in zip(nodes[::2], nodes[1::2], strict=True):
        assert ipaddress.ip_interface(a.ip).network == ipaddress.ip_interface(b.ip).network
    assert topology(500) == topology(500), "the layout is deterministic"


def test_layout_without_addresses_or_names_is_refused() -> None:
    assert fits(500, 0) and not fits(501, 0)
    assert fits(100, 19) and not fits(101, 1) and not fits(100, 20)
    with pytest.raises(AssertionError, match="campaign/rules"):
        topology(501)
    with pytest.raises(AssertionError, match="campaign/rules"):
        of("chains-101x1")
    with pytest.raises(AssertionError, match="campaign/rules"):
        of("p2p", nics="a/b")


@pytest.mark.parametrize("name", ["pairs-2", "p2p", "p2v", "v2p", "v2v", "chains-2x1"])
@pytest.mark.parametrize("dimension", Dimension)
def test_wire_ends_equal_those_of_the_layout(name: str, dimension: Dimension) -> None:
    found = Scenario(name)
    assert found.is_known
    laid_out = [node.name for node in of(name, dimension=dimension).nodes if node.place == "wire"]
    assert laid_out == wire_ends(dimension, found.paths or 1, PLACES[found.kind])
    if found.chain and dimension is Dimension.THROUGHPUT:
        joined = of(name, split="src-mac")
        laid_out = [node.name for node in joined.nodes if node.place == "wire"]
        assert laid_out == wire_ends(dimension, 2, PLACES[found.kind], "src-mac")


def test_links_lead_to_switch_or_peer() -> None:
    assert [link.peer for link in topology(2).links] == [None] * 4
    wires = topology(2, switch="direct")
    assert wires.direct
    assert [(link.node, link.peer) for link in wires.links] == [
        ("tx0", "rx0"),
        ("rx0", "tx0"),
        ("tx1", "rx1"),
        ("rx1", "tx1"),
    ]


def test_specs_have_peers_cores_and_mtu() -> None:
    cores = {"tx0": [1], "rx0": [2], "tx1": [3], "rx1": [3]}
    specs = topology(2).specs(PortKind.VETH, cores)
    assert [spec.name for spec in specs] == ["tx0", "rx0", "tx1", "rx1"]
    for a, b in zip(specs[::2], specs[1::2], strict=True):
        assert (a.port.peer_mac, a.port.peer_ip) == (b.port.mac, b.port.ip)
        assert (b.port.peer_mac, b.port.peer_ip) == (a.port.mac, a.port.ip)
        assert a.cores == tuple(cores[a.name]) and a.port.mtu_bytes == 1500
    jumbo = topology(1, size=9018).specs(PortKind.VETH, cores)
    assert jumbo[0].port.mtu_bytes == 9000
    largest_standard = topology(1, size=1518).specs(PortKind.VETH, cores)
    assert largest_standard[0].port.mtu_bytes == 1500


def of(scenario: str, **changes: object) -> Topology:
    values = {"dimension": Dimension.THROUGHPUT, "switch": "ovs-dpdk", "packet_size_bytes": 64}
    return expand(Trial.model_validate(values | {"scenario": scenario} | changes))


def test_chain_crosses_switch_between_all_nodes() -> None:
    chain = of("loopback-3")
    assert [node.name for node in chain.nodes] == ["tx0", "v0-1", "v0-2", "v0-3", "rx0"]
    numbers = [[port.index for port in node.ports] for node in chain.nodes]
    assert numbers == [[0], [1, 2], [3, 4], [5, 6], [7]], (
        "2k and 2k+1 are the sides of one crossing"
    )
    assert [node.place for node in chain.nodes] == ["wire", *["environment"] * 3, "wire"]
    ports = [port for node in chain.nodes for port in node.ports]
    assert len({port.mac for port in ports}) == 8
    for port in ports:
        assert port.next_mac == ports[port.index ^ 1].mac, "the address of the next node"
    assert chain.paths[0].via == ("v0-1", "v0-2", "v0-3")
    assert chain.pairs() == (("tx0", "rx0", "v0-1", "v0-2", "v0-3"),)


@pytest.mark.parametrize("vnf", ["bridge", "/usr/bin/my-vnf"])
def test_ends_address_each_other_without_rewriting_vnfs(vnf: str) -> None:
    chain = of("loopback-2", vnf=vnf)
    first, last = chain.node("tx0").ports[0], chain.node("rx0").ports[0]
    assert (first.next_mac, last.next_mac) == (last.mac, first.mac)
    assert (first.next_ip, last.next_ip) == (last.ip, first.ip)


def test_vnfs_have_no_ip_and_ends_share_a_subnet() -> None:
    chain = of("loopback-2")
    assert {port.ip for name in ("v0-1", "v0-2") for port in chain.node(name).ports} == {""}
    ends = [ipaddress.ip_interface(chain.node(name).ip) for name in ("tx0", "rx0")]
    assert ends[0].network == ends[1].network and ends[0] != ends[1]


@pytest.mark.parametrize(
    ("scenario", "places"),
    [
        ("p2p", ["wire", "wire"]),
        ("p2v", ["wire", "environment"]),
        ("v2p", ["environment", "wire"]),
        ("v2v", ["environment", "environment"]),
        ("pairs", ["environment", "environment"]),
    ],
)
def test_ends_have_the_places_of_the_scenario(scenario: str, places: list[str]) -> None:
    assert [node.place for node in of(scenario).nodes] == places


def test_names_with_numbers_are_resolved() -> None:
    for name in ("loopback", "loopback-0", "loopback-65", "pairs-0", "chains-2", "ring"):
        assert not Scenario(name).is_known
    plain = Trial(dimension=Dimension.THROUGHPUT, switch="x", packet_size_bytes=64)
    chains = resolve_names(plain.model_copy(update={"scenario": Scenario("chains-2x3")}))
    assert (chains.scenario, chains.pairs) == ("loopback-3", 2)
    assert resolve_names(plain) == plain
    assert resolve_names(plain.model_copy(update={"scenario": Scenario("pairs-4")})).pairs == 4
    with pytest.raises(UsageError, match="scenario 'ring': not known; known: pairs, pairs-N, p2p"):
        expand(plain.model_copy(update={"scenario": Scenario("ring")}))


def test_parallel_chains_share_only_the_switch() -> None:
    chains = of("chains-2x2")
    names = [node.name for node in chains.nodes]
    assert names == ["tx0", "v0-1", "v0-2", "rx0", "tx1", "v1-1", "v1-2", "rx1"]
    indexes = [port.index for node in chains.nodes for port in node.ports]
    assert indexes == list(range(12))
    assert all(len("sm1a2b3c" + name + "a") <= 15 for name in names)


def test_bidirectional_ends_are_duplex() -> None:
    both = of("loopback-1", bidirectional=True)
    assert [node.role for node in both.nodes] == ["duplex", "vnf", "duplex"]
    assert both.paths[0].both_ways


def test_path_between_hosts_crosses_the_cable_once() -> None:
    def remote(name: str) -> list[str]:
        return sorted(of(name, location="remote").far_names)

    assert remote("pairs-2") == ["rx0", "rx1"]
    assert remote("loopback-1") == ["rx0"]
    assert remote("loopback-2") == ["rx0", "v0-2"]
    assert remote("loopback-5") == ["rx0", "v0-4", "v0-5"]
    both = of("loopback-2", location="remote")
    assert both.far_ports == {3, 4, 5} and not of("loopback-2").far_names
    assert both.pairs() == (("tx0", "v0-1"),) and both.pairs(far=True) == (("rx0", "v0-2"),)


def test_drawing_shows_the_cable() -> None:
    labels = Labels("ovs, learning", "netns", "veth", "forwarder")
    assert draw_lines(of("pairs-1", location="remote"), labels) == [
        "[netns: sender 0] --veth--> [ovs, learning] --cable--> [ovs, learning] --veth--> "
        "[other host, netns: receiver 0]"
    ]


LABELS = Labels("ovs-dpdk, learning", "lxc", "vhost-user", "forwarder")


def test_drawings_show_all_nodes() -> None:
    assert draw_lines(of("loopback-1"), LABELS) == [
        "[wire: sender 0] --vhost-user--> [ovs-dpdk, learning] --vhost-user--> "
        "[lxc: forwarder 0.1] --vhost-user--> [ovs-dpdk, learning] --vhost-user--> "
        "[wire: receiver 0]"
    ]
    (both,) = draw_lines(of("p2v", bidirectional=True), LABELS)
    assert both.startswith("[wire: duplex 0] <--vhost-user--> [ovs") and "[lxc: duplex 0]" in both
    svg = ElementTree.fromstring(draw_svg(of("chains-20x2"), LABELS))
    texts = ["".join(node.itertext()) for node in svg.iter() if node.tag.endswith("text")]
    assert texts.count("ovs-dpdk, learning") == 16 and "forwarder 15.2" in texts
    assert texts[-1] == "and 4 more paths like these"


@pytest.mark.parametrize("split", ["src-mac", "flow"])
def test_split_distributes_a_stream_over_chains(split: str) -> None:
    both = of("chains-2x2", split=split)
    names = ["tx0", "v0-1", "v0-2", "v1-1", "v1-2", "rx0"]
    assert [node.name for node in both.nodes] == names
    ports = [port for node in both.nodes for port in node.ports]
    assert [port.index for port in ports] == list(range(10))
    assert len({port.mac for port in ports}) == 10
    (path,) = both.paths
    assert path.ways() == [("v0-1", "v0-2"), ("v1-1", "v1-2")]
    assert [node.pair for node in both.nodes] == [0, 0, 0, 1, 1, 0], "VNFs by their chain"
    by_index = {port.index: port for port in ports}
    # In each chain from the sender through both VNFs to the receiver, and back.
    for index, next_index in ((1, 0), (2, 3), (4, 9), (5, 0), (6, 7), (8, 9)):
        assert by_index[index].next_mac == by_index[next_index].mac
    unchanged = {
        p.index: p for n in of("chains-2x2", split=split, vnf="bridge").nodes for p in n.ports
    }
    ends = [unchanged[0].next_mac, unchanged[9].next_mac]
    assert ends == [unchanged[9].mac, unchanged[0].mac], (
        "a bridge does not rewrite addresses, so frames are for the other end"
    )
    assert len(draw_lines(both, LABELS)) == 2
    values = {"switch": "ovs-dpdk", "packet_size_bytes": 64, "split": split, "pairs": 2}
    distribution = split_of(Trial(dimension=Dimension.THROUGHPUT, **values), 2)  # type: ignore[arg-type]
    assert distribution is not None and len(set(distribution.source_macs)) == 2
    assert distribution.source_macs[0] == by_index[0].mac, (
        "the address with which the sender probes"
    )
