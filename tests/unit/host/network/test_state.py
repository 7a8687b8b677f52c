"""Reading what `ip` and `nft` print of a namespace, also if it is hostile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from switchmark.errors import TrialFailed
from switchmark.host.network import state

VETH: dict[str, Any] = {
    "ifindex": 7, "link_index": 2, "ifname": "va", "flags": ["BROADCAST", "UP", "LOWER_UP"],
    "mtu": 1500, "qdisc": "noqueue", "master": "br0", "operstate": "UP",
    "address": "fe:00:00:00:00:01",
    "link_netnsid": 3, "linkinfo": {"info_kind": "veth", "info_slave_kind": "bridge"},
    "addr_info": [
        {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link"},
        {"family": "inet6", "local": "2001:db8::1", "prefixlen": 64, "scope": "global"},
        {"family": "inet", "local": "10.77.0.1", "prefixlen": 24, "scope": "global"},
    ],
}  # fmt: skip


def test_a_device_is_read_with_its_other_end_and_its_bridge() -> None:
    link = state.parse_links(json.dumps([VETH, {}]))["va"]
    assert (link.kind, link.peer_index, link.peer_namespace, link.master) == ("veth", 2, 3, "br0")
    assert link.addresses == ("10.77.0.1/24", "2001:db8::1/64")
    assert not link.is_physical and not link.is_tunnel and link.up


def test_hardware_is_physical_and_loopback_is_not() -> None:
    plain = {key: value for key, value in VETH.items() if key not in ("linkinfo", "master")}
    loopback = plain | {"ifname": "lo", "flags": ["LOOPBACK", "UP"]}
    links = state.parse_links(json.dumps([plain | {"ifname": "eth0"}, loopback]))
    assert links["eth0"].is_physical and not links["lo"].is_physical


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "7", '["x"]', '[{"ifname": "a"}]', json.dumps([VETH | {"mtu": "big"}]),
     json.dumps([VETH | {"linkinfo": 7}]), json.dumps([VETH | {"addr_info": 7}])],
)  # fmt: skip
def test_an_unknown_answer_of_ip_ends_in_one_line(text: str) -> None:
    with pytest.raises(TrialFailed, match="ip -j"):
        state.parse_links(text)


def ruleset(*rules: dict[str, Any]) -> str:
    chain = {"family": "ip", "table": "nat", "name": "POSTROUTING", "handle": 1, "type": "nat",
             "hook": "postrouting", "prio": 100, "policy": "drop"}  # fmt: skip
    return json.dumps({
        "nftables": [
            {"metainfo": {"version": "1.0.6"}},
            {"table": {"family": "ip", "name": "nat", "handle": 1}},
            {"chain": chain},
            *({"rule": {"family": "ip", "table": "nat", "chain": "POSTROUTING"} | rule}
              for rule in rules),
        ]
    })  # fmt: skip


def test_rules_are_counted_and_counters_not_hashed() -> None:
    counted = [
        {"expr": [{"counter": {"packets": n, "bytes": n}}, {"masquerade": None}]} for n in (1, 9)
    ]
    first, second = (state.parse_ruleset(ruleset(rule)) for rule in counted)
    assert (first.tables, first.rules, first.nat_rules) == (1, 1, 1)
    assert first.base_chains == ("postrouting ip nat/POSTROUTING, policy drop",)
    assert first == second
    assert state.parse_ruleset(ruleset(*counted)).digest != first.digest


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"nftables": 7}', '{"nftables": [{"rule": 7}]}'])
def test_an_unknown_answer_of_nft_ends_in_one_line(text: str) -> None:
    with pytest.raises(TrialFailed, match="nft -j"):
        state.parse_ruleset(text)


LEGACY = """*nat
:PREROUTING ACCEPT [0:0]
-A POSTROUTING -s 172.17.0.0/16 -j MASQUERADE
COMMIT
*filter
:FORWARD DROP [0:0]
-A FORWARD -j ACCEPT
COMMIT
"""


def test_rules_of_the_older_iptables_are_added() -> None:
    found = state.with_legacy(state.Firewall(""), LEGACY)
    assert (found.program, found.tables, found.rules, found.nat_rules) == ("iptables", 2, 2, 1)
    assert "iptables FORWARD, policy drop" in found.base_chains


def test_default_routes_have_devices_and_gateways() -> None:
    plain = {"dst": "default", "gateway": "10.0.0.1", "dev": "eth0"}
    several = {"dst": "default", "nexthops": [{"gateway": "10.1.0.1", "dev": "br1"}]}
    text = json.dumps([plain, several])
    assert state.parse_default_routes(text) == (("eth0", "br1"), ("10.0.0.1", "10.1.0.1"))
