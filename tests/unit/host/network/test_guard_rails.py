"""Guard rails refuse networks without their name, and cap the load."""

from __future__ import annotations

from dataclasses import replace

import pytest

from switchmark.host.network.guard_rails import (
    PacketLoad,
    cap_refusal,
    connections_refusal,
    judge_bridge,
    judge_path,
)
from switchmark.host.network.path import UNKNOWN_WAY, NetworkPath, Station, Trace
from switchmark.host.network.state import Firewall, Link, NamespaceState
from switchmark.model.endpoints import Endpoints
from switchmark.switch.existing import Existing, Request

HOST, END = 1, 2


def link(name: str, kind: str = "veth", master: str | None = None, **changes: object) -> Link:
    plain = Link(
        1, name, kind, "02:00:00:00:00:01", 1500, True, False, None, None, master, "", False, ()
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def host(*links: Link, default: tuple[str, ...] = ()) -> NamespaceState:
    named = {one.name: one for one in links}
    return NamespaceState("this host", HOST, named, default, (), {}, None, Firewall(""))


def path_over(state: NamespaceState, *devices: str, arrives: bool = True) -> NetworkPath:
    container = replace(
        host(link("eth0"), default=("eth0",)), label="docker:a", inode=END, gateways=("10.0.0.1",)
    )
    stations = [Station(END, "eth0", "sends"), *(Station(HOST, one, "sends") for one in devices)]
    trace = Trace(tuple(stations), arrives, "" if arrives else "no route")
    return NetworkPath("10.0.0.2", "10.0.0.3", trace, trace, {HOST: state, END: container}, HOST)


def test_a_container_network_with_a_gateway_is_not_refused() -> None:
    """The default route of a container and the address of docker0 are permitted."""
    docker0 = link("docker0", "bridge", addresses=("172.17.0.1/16",))
    state = host(docker0, link("v1", master="docker0"), link("eth0", ""), default=("eth0",))
    verdict = judge_path(path_over(state, "v1", "docker0"), state, ())
    assert verdict.refusals == () and not verdict.leaves


@pytest.mark.parametrize(
    ("state", "device", "reason"),
    [
        (host(link("up0"), default=("up0",)), "up0", "default route"),
        (host(link("eth1", "")), "eth1", "physical port"),
        (host(link("vx0", "vxlan")), "vx0", "vxlan tunnel"),
        (host(link("br0", "bridge"), link("eth1", "", "br0")), "br0", "by its port eth1"),
        (host(link("br0", "bridge"), default=("br0",)), "br0", "default route"),
    ],
)
def test_a_way_out_is_refused_until_it_is_named(
    state: NamespaceState, device: str, reason: str
) -> None:
    refused = judge_path(path_over(state, device), state, ())
    assert reason in str(refused.refusals[0])
    assert f"--yes-this-network {device}" in str(refused.refusals[0])
    assert judge_path(path_over(state, device), state, ("other",)).refusals
    permitted = judge_path(path_over(state, device), state, (device,))
    assert permitted.refusals == () and permitted.leaves


def test_some_networks_are_never_permitted() -> None:
    state = host(link("wg0", "wireguard"))
    assert judge_path(path_over(state, "wg0"), state, ("wg0",)).refusals


def test_a_path_without_a_known_end_is_refused() -> None:
    state = host(link("v1"))
    verdict = judge_path(path_over(state, "v1", arrives=False), state, ())
    assert "not known to its end" in str(verdict.refusals[0])


def test_a_way_back_that_does_not_leave_its_end_is_refused() -> None:
    """The second end also has the address of the first, so answers would stay there."""
    state = host(link("v1"))
    path = replace(path_over(state, "v1"), back=Trace((), False, "10.0.0.2 is an address of b"))
    assert "10.0.0.2 is an address of b" in str(judge_path(path, state, ()).refusals)
    unknown = replace(path, back=UNKNOWN_WAY)  # the second end is an address, or a remote pod
    assert judge_path(unknown, state, ()).refusals == ()


@pytest.mark.parametrize(("size", "refused"), [(1298, False), (1299, True)])
def test_frames_above_the_smallest_mtu_are_refused(size: int, refused: bool) -> None:
    """The kernel of the sender reads only its own MTU; a bridge forwards by that of its ports."""
    state = host(link("v1", mtu_bytes=1280), link("br0", "bridge", mtu_bytes=1000))
    stations = (Station(HOST, "v1", "receives"), Station(HOST, "br0", "bridges"))
    trace = Trace(stations, True, "")
    path = replace(path_over(state), forth=trace, back=trace)
    switch = Existing()
    switch.request = Request(Endpoints("netns:a+netns:b"), frame_bytes=size)
    assert ("use packet_size up to 1298" in str(switch._guard(path, state))) is refused


def test_datagrams_above_the_mtu_are_refused_by_their_key() -> None:
    """A datagram of 1400 bytes is an IP packet of 1428."""
    switch = Existing()
    switch.request = Request(frame_bytes=1446, size_key="datagram_size")
    assert switch._mtu_refusal(1428) is None
    refusal = str(switch._mtu_refusal(1400))
    assert "datagram_size 1400 makes IP packets of 1428 bytes" in refusal
    assert "use datagram_size up to 1372" in refusal


def test_a_bridge_is_judged_by_its_ports() -> None:
    inside = host(link("br0", "bridge"), link("v1", master="br0"))
    assert judge_bridge(inside, "br0", ()).refusals == ()
    outside = host(link("br0", "bridge"), link("bond0", "bond", "br0"))
    assert judge_bridge(outside, "br0", ()).names == ("br0",)


@pytest.mark.parametrize(
    ("rate", "size", "seconds", "most", "word"),
    [
        (None, 64, 1, None, "rate max"),
        (None, 64, 1, 10**6, "rate max"),
        (1001, 64, 1, None, "at most 1000"),
        (1000, 1500, 1, None, "at most 1000"),
        (1000, 64, 11, None, "at most 1000"),
        (5000, 64, 1, 4000, "above max_rate"),
    ],
)
def test_a_load_above_the_cap_is_refused(
    rate: int | None, size: float, seconds: float, most: int | None, word: str
) -> None:
    load = None if rate is None else PacketLoad(rate, size)
    assert word in str(cap_refusal(load, seconds, most))


def test_a_load_below_the_cap_is_permitted() -> None:
    assert cap_refusal(PacketLoad(1000, 64), 10, None) is None
    assert cap_refusal(PacketLoad(4000, 1500), 60, 4000) is None


def test_connections_of_a_campaign_are_bounded() -> None:
    """A connection for each request, at a rate, through a network with few free entries."""

    full = replace(
        host(link("v1")), conntrack_count=1000, settings={"netfilter/nf_conntrack_max": "2000"}
    )
    switch = Existing()
    for rate, word in ((None, "write a rate"), (10, "None"), (100, "entries of conntrack")):
        switch.request = Request(
            Endpoints("netns:a+netns:b"), rate_pps=rate, duration_s=5, new_connections=True
        )
        assert word in str(switch._guard(path_over(full, "v1"), full))


def test_connections_are_bounded_by_ports_and_conntrack() -> None:
    assert connections_refusal(20_000, 28_232, 262_144) is None
    assert "local ports" in str(connections_refusal(30_000, 28_232, None))
    assert "conntrack" in str(connections_refusal(2000, 28_232, 10_000))


class PodWithout:
    """A pod on another node that has none of these programs."""

    label = "host db (pod shop/db-1)"

    def missing(self, programs: tuple[str, ...]) -> list[str]:
        return list(programs)


@pytest.mark.parametrize(("servers", "lacks"), [((), ""), (("nginx",), "no program nginx")])
def test_pod_without_the_server_is_refused(servers: tuple[str, ...], lacks: str) -> None:
    switch = Existing()
    switch.far_end = PodWithout()  # type: ignore[assignment]
    switch.request = Request(Endpoints("netns:a+pod:shop/db-1"), servers=servers)
    refusal = switch._servers_refusal()
    assert (refusal is None) is (not lacks)
    if refusal is not None:
        assert f"host db (pod shop/db-1) has {lacks}" in str(refusal)
        assert "add it to the image" in str(refusal)
