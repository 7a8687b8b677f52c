"""Attaching to a bridge: refusals, and the comparison of the bridge before and after."""

from __future__ import annotations

from dataclasses import replace

import pytest

from switchmark.errors import UnavailableError
from switchmark.host.network import ovs
from switchmark.host.network.state import Firewall, Link, NamespaceState
from switchmark.switch.support import attaching
from switchmark.switch.support.attaching import BridgeFacts, linux_bridge_refusal, outside_mac

BRIDGE = Link(1, "br0", "bridge", "52:54:00:00:00:01", 9000, True, False, None, None, None, "",
              False, (), {"stp_state": 0, "vlan_filtering": 1})  # fmt: skip
PORT = Link(2, "v1", "veth", "02:00:00:00:00:05", 9000, True, False, 3, 4, "br0", "", False, ())


def host(*links: Link) -> NamespaceState:
    named = {link.name: link for link in links}
    return NamespaceState("this host", 1, named, (), (), {}, None, Firewall("nft"))


def test_a_bridge_with_ports_takes_ends() -> None:
    assert linux_bridge_refusal(host(BRIDGE, PORT), "br0", None) is None
    assert linux_bridge_refusal(host(BRIDGE, PORT), "br0", 7) is None


@pytest.mark.parametrize(
    ("bridge", "vlan", "reason"),
    [
        (replace(BRIDGE, up=False), None, "is down"),
        (replace(BRIDGE, kind="bond"), None, "is not a bridge"),
        (replace(BRIDGE, info={"stp_state": 1}), None, "spanning tree"),
        (replace(BRIDGE, info={"stp_state": 0, "vlan_filtering": 0}), 7, "does not filter VLANs"),
    ],
)
def test_a_bridge_that_cannot_take_ends_is_refused(
    bridge: Link, vlan: int | None, reason: str
) -> None:
    assert reason in str(linux_bridge_refusal(host(bridge, PORT), "br0", vlan))


def test_an_empty_bridge_needs_a_fixed_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attaching, "_assigned", lambda _: "1")
    assert "would change its MAC address" in str(linux_bridge_refusal(host(BRIDGE), "br0", None))
    monkeypatch.setattr(attaching, "_assigned", lambda _: "3")
    assert linux_bridge_refusal(host(BRIDGE), "br0", None) is None


def test_a_changed_bridge_is_noticed() -> None:
    before = BridgeFacts.of(host(BRIDGE), "br0", ["v1", "v2", "sm123456p0"])
    same = BridgeFacts.of(host(BRIDGE), "br0", ["v2", "v1", "sm123456p1"])
    assert same.difference(before, "br0") == ""
    for changed, text in (
        (replace(same, mac="02:00:00:00:00:05"), "the MAC address of br0 was 52:54"),
        (replace(same, mtu_bytes=1500), "the MTU of br0 was 9000 and is 1500"),
        (replace(same, ports=("v1",)), "br0 has lost its port v2"),
    ):
        assert text in changed.difference(before, "br0")
    # Ports that the user adds meanwhile are not a fault.
    assert replace(same, ports=("v1", "v2", "v3")).difference(before, "br0") == ""
    with pytest.raises(UnavailableError, match="br0 is gone"):
        BridgeFacts.of(host(), "br0", [])


def test_the_outer_end_has_the_highest_address() -> None:
    """A bridge takes the lowest address of its ports."""
    macs = [outside_mac("1a2b3c", number) for number in (0, 1)]
    assert macs == ["fe:53:4d:1a:2b:00", "fe:53:4d:1a:2b:01"]


def test_a_database_that_is_gone_has_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ovs, "_run", lambda *_: pytest.fail("it must not be called"))
    ovs.delete_port("unix:/nonexistent/db.sock", "br-int", "sm1p0")


def test_a_port_that_cannot_be_deleted_stays_in_the_ledger(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(ovs, "_run", lambda *_: None)
    monkeypatch.setattr(ovs, "which", lambda _: "/usr/bin/ovs-vsctl")
    with pytest.raises(OSError, match="does not answer"):
        ovs.delete_port("unix:/", "br-int", "sm1p0")
