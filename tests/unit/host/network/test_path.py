"""Paths over bonds, VLAN devices and several bridges, from the output of `ip -j`.

Kernels without bonds or VLAN devices also run these tests: nothing is made here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest

from switchmark.host.network import path as paths
from switchmark.host.network.entered import OpenEndpoint
from switchmark.host.network.guard_rails import judge_path
from switchmark.host.network.handle import NamespaceHandle
from switchmark.host.network.path import NetworkPath, PathReader, Station, Trace
from switchmark.host.network.state import Firewall, NamespaceState, parse_links
from switchmark.model.endpoints import read_endpoint

HOST, A, B = 1, 2, 3
NUMBERS = {HOST: 0, A: 1, B: 2}  # by which namespaces refer to each other


class FakeHandle:
    """A namespace that prints what `ip` printed."""

    def __init__(self, inode: int, label: str, *rows: dict[str, Any]) -> None:
        self.inode, self.label, self.is_own, self.path = inode, label, inode == HOST, f"/{label}"
        self.rows = rows
        self.routes: dict[str, dict[str, str]] = {}

    def output_of(self, args: Sequence[str]) -> str | None:
        if args[:5] != ["ip", "-j", "-4", "route", "get"]:
            return "[]"
        route = self.routes.get(args[5])
        return None if route is None else json.dumps([{"dst": args[5], **route}])

    def number_of(self, other: FakeHandle) -> int:
        return NUMBERS[other.inode]

    def state(self) -> NamespaceState:
        links = parse_links(json.dumps(self.rows))
        return NamespaceState(self.label, self.inode, links, (), (), {}, None, Firewall("nft"))


def device(index: int, name: str, kind: str = "", **more: Any) -> dict[str, Any]:
    """A device as `ip -j -d address show` prints it."""
    data, address = more.pop("data", {}), more.pop("address", "")
    row = {
        "ifindex": index, "ifname": name, "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
        "mtu": 1500, "qdisc": "noqueue", "operstate": "UP", "link_type": "ether",
        "address": f"02:00:00:00:00:{index:02x}",
        "linkinfo": {"info_kind": kind, "info_data": data} if kind else {}, "addr_info": [], **more,
    }  # fmt: skip
    if address:
        row["addr_info"] = [
            {"family": "inet", "local": address, "prefixlen": 24, "scope": "global"}
        ]
    return row


def veth(index: int, name: str, peer: int, netns: int, **more: Any) -> dict[str, Any]:
    return device(index, name, "veth", link_index=peer, link_netnsid=NUMBERS[netns], **more)


def vlan(index: int, name: str, below: str, number: int, **more: Any) -> dict[str, Any]:
    data = {"protocol": "802.1Q", "id": number, "flags": ["REORDER_HDR"]}
    return device(index, name, "vlan", link=below, data=data, **more)


def bridge(index: int, name: str, **more: Any) -> dict[str, Any]:
    return device(index, name, "bridge", **more)


def read(host: FakeHandle, a: FakeHandle, b: FakeHandle) -> NetworkPath:
    names = ("netns:a", "netns:b")
    handles = [cast(NamespaceHandle, each) for each in (a, b)]
    ends = [
        OpenEndpoint(read_endpoint(name), handle)
        for name, handle in zip(names, handles, strict=True)
    ]
    reader = PathReader(ends, host=cast(NamespaceHandle, host))
    reader._states.update({each.inode: each.state() for each in (host, a, b)})
    reader._searched = True
    return reader.read()


def steps(trace: Trace) -> list[str]:
    return [" ".join(filter(None, (one.device, one.action, one.note))) for one in trace.stations]


@pytest.fixture(autouse=True)
def no_open_vswitch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "ovs_bridge_of", lambda device: None)


def ends(a: Sequence[dict[str, Any]], b: Sequence[dict[str, Any]]) -> tuple[FakeHandle, FakeHandle]:
    """Two namespaces with the addresses 10.0.0.2 and 10.0.0.3, each on its last device."""
    first, second = FakeHandle(A, "netns:a", *a), FakeHandle(B, "netns:b", *b)
    first.routes["10.0.0.3"] = {"dev": a[-1]["ifname"], "prefsrc": "10.0.0.2"}
    second.routes["10.0.0.2"] = {"dev": b[-1]["ifname"], "prefsrc": "10.0.0.3"}
    return first, second


PLAIN = ends(
    [veth(2, "eth0", 11, HOST, address="10.0.0.2")], [veth(2, "eth0", 12, HOST, address="10.0.0.3")]
)
PORTS = (veth(11, "va", 2, A, master="br0"), veth(12, "vb", 2, B, master="br1"))


def test_two_bridges_that_a_veth_pair_joins_are_followed() -> None:
    """`ip` names the other end of a pair in the same namespace, and prints no index. Neither bridge
    has learned an address: each has one other port."""
    host = FakeHandle(
        HOST, "this host", bridge(3, "br0"), bridge(4, "br1"), *PORTS,
        device(5, "j0", "veth", link="j1", master="br0"),
        device(6, "j1", "veth", link="j0", master="br1"),
    )  # fmt: skip
    path = read(host, *PLAIN)
    assert steps(path.forth) == [
        "eth0 sends", "va receives", "br0 bridges", "j0 sends", "j1 receives", "br1 bridges",
        "vb sends", "eth0 receives",
    ]  # fmt: skip
    assert path.forth.arrives and path.back.arrives
    assert judge_path(path, path.states[HOST], ()).refusals == ()
    assert (HOST, "j0") in path.counted() and (HOST, "br0") not in path.counted()


def test_bridge_with_several_ports_needs_a_learned_address() -> None:
    host = FakeHandle(
        HOST, "this host", bridge(3, "br0"), PORTS[0],
        device(5, "t0", "tun", master="br0"), device(6, "t1", "tun", master="br0"),
    )  # fmt: skip
    path = read(host, *PLAIN)
    assert "br0 has not learned behind which of its 3 ports" in path.forth.end


def test_vlan_devices_of_both_ends_are_on_the_path() -> None:
    a, b = ends(
        [veth(2, "eth0", 11, HOST), vlan(3, "eth0.7", "eth0", 7, address="10.0.0.2")],
        [veth(2, "eth0", 12, HOST), vlan(3, "eth0.7", "eth0", 7, address="10.0.0.3")],
    )
    one_bridge = (PORTS[0], veth(12, "vb", 2, B, master="br0"))
    path = read(FakeHandle(HOST, "this host", bridge(3, "br0"), *one_bridge), a, b)
    assert steps(path.forth) == [
        "eth0.7 sends", "eth0 sends VLAN 7", "va receives", "br0 bridges", "vb sends",
        "eth0 receives", "eth0.7 receives",
    ]  # fmt: skip
    assert path.forth.arrives and path.back.arrives
    assert {(A, "eth0.7"), (A, "eth0"), (B, "eth0.7")} <= set(path.counted())


def test_vlan_device_of_the_host_routes() -> None:
    """The gateway is a VLAN device on the bridge."""
    a, b = ends(
        [veth(2, "eth0", 11, HOST, address="10.0.0.2")],
        [veth(2, "eth0", 12, HOST), vlan(3, "eth0.9", "eth0", 9, address="10.0.0.3")],
    )
    a.routes["10.0.0.3"] |= {"gateway": "10.0.0.1"}
    b.routes["10.0.0.2"] |= {"gateway": "10.9.0.1"}
    host = FakeHandle(
        HOST, "this host", bridge(3, "br0"), vlan(4, "br0.7", "br0", 7, address="10.0.0.1"),
        PORTS[0], veth(12, "vb", 2, B), vlan(13, "vb.9", "vb", 9, address="10.9.0.1"),
    )  # fmt: skip
    host.routes = {"10.0.0.3": {"dev": "vb.9"}, "10.0.0.2": {"dev": "br0.7"}}
    path = read(host, a, b)
    assert steps(path.forth) == [
        "eth0 sends", "va receives", "br0 bridges", "br0.7 routes next hop 10.0.0.3", "vb.9 sends",
        "vb sends VLAN 9", "eth0 receives", "eth0.9 receives",
    ]  # fmt: skip
    assert steps(path.back) == [
        "eth0.9 sends", "eth0 sends VLAN 9", "vb receives", "vb.9 routes next hop 10.0.0.2",
        "br0.7 sends", "br0 bridges VLAN 7", "va sends", "eth0 receives",
    ]  # fmt: skip
    assert path.forth.arrives and path.back.arrives
    assert path.forth.routers == path.back.routers == 1


def ends_of_a_bond(**data: Any) -> tuple[FakeHandle, FakeHandle]:
    """Return an end with a bond of two ports, and one with a single device."""
    data = {"mode": "active-backup", "miimon": 100, **data}
    return ends(
        [veth(2, "p0", 11, HOST, master="bond0"), veth(3, "p1", 13, HOST, master="bond0"),
         device(4, "bond0", "bond", data=data, address="10.0.0.2")],
        [veth(2, "eth0", 12, HOST, address="10.0.0.3")],
    )  # fmt: skip


def test_active_port_of_a_bond_is_followed() -> None:
    a, b = ends_of_a_bond(active_slave="p1")
    host = FakeHandle(
        HOST, "this host", bridge(3, "br0"), PORTS[0], veth(13, "vc", 3, A, master="br0"),
        veth(12, "vb", 2, B, master="br0"),
    )  # fmt: skip
    path = read(host, a, b)
    assert steps(path.forth) == [
        "bond0 sends", "p1 sends", "vc receives", "br0 bridges", "vb sends", "eth0 receives"
    ]  # fmt: skip
    assert path.forth.arrives
    assert steps(path.back)[-2:] == ["p1 receives", "bond0 receives"], "not the first port"


def test_ports_that_share_the_load_are_not_followed() -> None:
    a, b = ends_of_a_bond(mode="balance-rr")
    path = read(FakeHandle(HOST, "this host", bridge(3, "br0"), *PORTS), a, b)
    assert path.forth.end == (
        "bond0 shares packets among its ports (p0, p1), which is not followed"
    )
    assert "not known to its end" in str(judge_path(path, path.states[A], ()).refusals[0])


def test_bond_of_physical_ports_is_refused_until_it_is_named() -> None:
    """A VLAN device on a bond of two network cards leads to another machine."""
    a, b = PLAIN
    a.routes["10.0.0.3"] = {"dev": "eth0", "prefsrc": "10.0.0.2", "gateway": "10.0.0.1"}
    host = FakeHandle(
        HOST, "this host", veth(11, "va", 2, A, address="10.0.0.1"),
        device(5, "eno1", master="bond0"), device(6, "eno2", master="bond0"),
        device(7, "bond0", "bond", data={"mode": "802.3ad"}), vlan(8, "bond0.5", "bond0", 5),
    )  # fmt: skip
    host.routes = {"10.0.0.3": {"dev": "bond0.5"}}
    path = read(host, a, b)
    a.routes["10.0.0.3"].pop("gateway")
    assert steps(path.forth)[2:] == ["bond0.5 sends", "bond0 sends VLAN 5", "bond0 leaves"]
    assert path.forth.end == "the path leaves this machine by bond0 (ports: eno1, eno2)"
    verdict = judge_path(path, path.states[HOST], ())
    assert verdict.names == ("bond0",)
    assert "bond bond0 leads out of this machine by its port eno1" in str(verdict.refusals[0])
    assert judge_path(path, path.states[HOST], ("bond0",)).leaves


def test_checksums_that_a_user_space_switch_loses_have_a_remedy() -> None:
    """The device of a bridge of Open vSwitch is a tap only with the datapath in user space."""
    for kind, offloads, expected in (
        ("tun", {"tx-checksumming": True}, "`ethtool -K eth0 tx off` in netns:a"),
        ("tun", {"tx-checksumming": False}, ""),
        ("openvswitch", {"tx-checksumming": True}, ""),
    ):
        states = {
            A: NamespaceState(
                "netns:a", A, parse_links(json.dumps(PLAIN[0].rows), {"eth0": offloads}), (), (),
                {}, None, Firewall("nft"),
            ),
            HOST: FakeHandle(HOST, "this host", device(3, "br-int", kind)).state(),
        }  # fmt: skip
        stations = (Station(A, "eth0", "sends"), Station(HOST, "br-int", "switches"))
        forth = Trace(stations, True, "")
        path = NetworkPath("10.0.0.2", "10.0.0.3", forth, Trace((), False, ""), states, HOST)
        assert path.lost_checksums().endswith(expected) and bool(path.lost_checksums()) == bool(
            expected
        )
