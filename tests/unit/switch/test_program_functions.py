"""Translations of the neutral table to switches that are programs, as text or values."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from switchmark.function.registry import router_port
from switchmark.function.support.table import (
    FunctionTable,
    Mirror,
    Policer,
    Routes,
    Rule,
    Vlan,
    next_hops,
)
from switchmark.model.ports import ConnectMode
from switchmark.switch import fastclick
from switchmark.switch.support import (
    bess_functions,
    fastclick_functions,
    snabb_functions,
    vpp_functions,
)
from tests.unit.switch_programs import PORTS

LINEAR = {"acl_lookup": "linear"}
TUPLES = {"acl_lookup": "tuple-space"}
DENIAL = Rule(False, "198.18.0.9/32", "0.0.0.0/0", 17, None, (2000, 2000))
PERMIT = Rule(True, "198.18.0.0/15", "0.0.0.0/0")


def table_with(*functions: str, rules: tuple[Rule, ...] = (), **more: object) -> FunctionTable:
    """A table of two ports; of base route it has 10.0.0.0/8 and 10.1.2.128/25."""
    ports = tuple(router_port(k, f"10.64.0.{k + 1}", f"02:74:00:00:00:0{k}", 4) for k in range(2))
    table = FunctionTable(functions, 4, ports, rules=rules, **more)  # type: ignore[arg-type]
    if not table.is_routed:
        return table
    hops = tuple(hop for k in range(2) for hop in next_hops(k, 2 * k, 4))
    networks = np.array([[10, 0, 0, 0], [10, 1, 2, 128]], np.uint8)
    lengths, numbers = np.array([8, 25], np.uint8), np.array([2, 1], np.uint16)
    return replace(table, next_hops=hops, routes=Routes(networks, lengths, numbers))


def test_vpp_router_has_addresses_neighbours_and_routes() -> None:
    """The testers' own routes come with the addresses, since their neighbours are FIB entries."""
    table, names = table_with("route"), {0: "if0", 1: "if1"}
    lines = vpp_functions.setup_commands(table, names, {"acl_lookup": "hash"})
    assert "set interface ip address if1 198.19.1.1/24" in lines
    assert "set ip neighbor if1 198.19.1.2 02:6e:00:00:00:01 static" in lines
    routes = list(vpp_functions.route_commands(table, names))
    assert "ip route add 10.64.0.1/32 via 10.64.0.1 if0" in lines
    assert routes == [
        "ip route add 10.0.0.0/8 via 198.19.1.2 if1",
        "ip route add 10.1.2.128/25 via 198.19.0.3 if0",
    ]
    assert vpp_functions.announced(table) == {"routes": len(routes)}


def test_vpp_list_ends_with_the_default_verdict_if_it_permits() -> None:
    """The acl plugin denies what matches no entry."""
    table = table_with("forward", "acl", rules=(DENIAL,), default_permit=True)
    lines = vpp_functions.setup_commands(table, {0: "if0", 1: "if1"}, {"acl_lookup": "linear"})
    assert lines == [
        "set acl-plugin use-hash-acl-matching 0",
        "set acl-plugin acl deny src 198.18.0.9/32 dst 0.0.0.0/0 proto 17 dport 2000-2000, "
        "permit src 0.0.0.0/0 dst 0.0.0.0/0",
        "set acl-plugin interface if0 input acl 0",
        "set acl-plugin interface if1 input acl 0",
    ]
    assert vpp_functions.announced(table) == {"acl entries": 2, "acl inputs": 2}


def test_vpp_refuses_a_burst_that_it_would_raise() -> None:
    """VPP raises bursts below 9216 bytes in silence."""
    table = table_with("forward", "policer", policer=Policer(10_000_000, 9000))
    refusal = vpp_functions.refusal(table, {})
    assert refusal is not None and "9216" in refusal.reason
    assert vpp_functions.refusal(replace(table, policer=Policer(10_000_000, 9216)), {}) is None


def test_vpp_counts_are_read_from_its_own_words() -> None:
    summary = "ipv4-VRF:0, fib_index:0\n    Prefix length         Count\n  0   1\n  24   12\n"
    assert vpp_functions.routes_in(summary) == 13
    text = "acl-index 0 count 1 tag {cli}\n          0: ipv4 deny src 1.2.3.4/32 dst 0.0.0.0/0\n"
    assert vpp_functions.rules_in(text) == 1
    assert vpp_functions.inputs_in("sw_if_index 1:\n  input acl(s): 0\nsw_if_index 2:\n") == 1


def test_bess_chains_end_in_the_router() -> None:
    """Every port has its own filter; the next hops and hosts share one lookup."""
    table = table_with("route", "acl", rules=(DENIAL, PERMIT))
    plan = bess_functions.plan_of(table, LINEAR)
    assert plan.heads == {0: "protocols-0", 1: "protocols-1"} and plan.routed
    assert ["routes", 4, "hop-4"] in plan.links and ["hop-4", 0, "out-p0"] in plan.links
    assert plan.announced == {"acl entries": 4, "routes": 4}
    spare = bess_functions.SPARE_ROUTES // 256 + 16
    # 10.1.2.0/24 and 10.64.0.0/24
    assert bess_functions.tables_of_8(table) == 2 + spare


def test_bess_route_rows_name_gates() -> None:
    rows = bess_functions.route_rows(table_with("route"))
    assert [struct.unpack("!4sBH", rows[at : at + 7]) for at in range(0, len(rows), 7)] == [
        (bytes([10, 64, 0, 1]), 32, 4),
        (bytes([10, 64, 0, 2]), 32, 5),
        (bytes([10, 0, 0, 0]), 8, 2),
        (bytes([10, 1, 2, 128]), 25, 1),
    ]


def test_bess_tuple_space_keeps_the_first_of_equal_rules() -> None:
    """One key has one entry, so a later rule with the same key must not replace the first."""
    again = replace(DENIAL, permit=True)
    plan = bess_functions.plan_of(table_with("forward", "acl", rules=(DENIAL, again)), TUPLES)
    lists = [c[3]["rules"] for c in plan.commands if c[2] == "WildcardMatchConfig"]
    assert [[rule["gate"] for rule in rules] for rules in lists if rules] == [[1], [1]]


def test_bess_refuses_ranges_of_ports_and_too_many_masks() -> None:
    ranged = replace(DENIAL, destination_ports=(1, 2))
    refusal = bess_functions.refusal(table_with("forward", "acl", rules=(ranged,)), LINEAR)
    assert refusal is not None and "ports 1-2" in refusal.reason
    many = tuple(replace(DENIAL, source=f"128.0.0.0/{bits}") for bits in range(8, 25))
    refusal = bess_functions.refusal(table_with("forward", "acl", rules=many), TUPLES)
    assert refusal is not None and "17 combinations" in refusal.reason
    assert bess_functions.refusal(table_with("forward", "acl", rules=many), LINEAR) is None


@pytest.mark.parametrize(
    ("rules", "default", "expression"),
    [
        (
            (DENIAL, PERMIT),
            False,
            "not ((ip and udp and src net 198.18.0.9/32 and dst port 2000)) and "
            "(((ip and udp and src net 198.18.0.0/15)))",
        ),
        (
            (DENIAL,),
            True,
            "not ((ip and udp and src net 198.18.0.9/32 and dst port 2000)) and (ip)",
        ),
        ((DENIAL,), False, "len = 0"),
    ],
)
def test_snabb_filter_asks_runs_of_rules_in_order(
    rules: tuple[Rule, ...], default: bool, expression: str
) -> None:
    table = table_with("forward", "acl", rules=rules, default_permit=default)
    assert snabb_functions.filter_of(table) == expression


def test_snabb_plan_is_a_table_of_lua(tmp_path: Path) -> None:
    table = table_with("route", "policer", policer=Policer(8_000_000, 20_000))
    text = snabb_functions.write_plan(table, tmp_path).read_text()
    assert '{mac = "02:6e:00:00:01:01", port = 1}' in text
    assert "policer = {rate = 1000000.0, burst = 20000}" in text
    assert len((tmp_path / "routes").read_bytes()) == 4 * 7
    assert snabb_functions.chain(table, 1) == ["policer1"]


def test_fastclick_router_and_filter() -> None:
    table = table_with("route", "acl", rules=(DENIAL, PERMIT))
    elements = fastclick_functions.configuration(table, {"route_lookup": "radix"})
    assert elements.tails == elements.heads == {}
    text = "\n".join(elements.lines)
    assert "rt :: RadixIPLookup(\n10.64.0.1/32 4" in text and "10.1.2.128/25 1);" in text
    assert "rt[2] -> DecIPTTL -> Unstrip(14) -> EtherRewrite(02:72:00:00:00:01, " in text
    assert "deny udp && src net 198.18.0.9/32 && dst port 2000" in text and "deny all);" in text
    assert table.entries_of_ports() == {"routes": 4, "filters": 2}


def test_trunk_port_takes_part_by_its_vlan() -> None:
    """VPP joins the sub-interface; the others put modules at both ends of the port."""
    table = table_with("forward", "vlan", vlan=Vlan(100, "push"))
    names = {0: "if0", 1: "if1"}
    assert vpp_functions.joined_names(table, names) == {0: "if0", 1: "if1.100"}
    assert list(vpp_functions.sub_interfaces(table, names)) == ["create sub-interfaces if1 100"]
    text = "if1.100    4     up   0/0/0/0\npipe0.0    5     up   0/0/0/0\n"
    assert vpp_functions.sub_interfaces_in(text) == 1
    plan = bess_functions.plan_of(table, LINEAR)
    assert plan.exits == {1: "push-1"} and plan.tails == {1: ("pop-1", 0)}
    assert snabb_functions.chain(table, 1) == ["untag1"] and not snabb_functions.chain(table, 0)
    elements = fastclick_functions.configuration(table, {})
    assert elements.tails == {0: "f0", 1: "v1"} and elements.heads == {1: "g1"}


@pytest.mark.parametrize(("copies", "joined"), [(True, "mi[1] -> t2;"), (False, "Idle -> t2;")])
def test_fastclick_monitor_port_is_in_no_pair(copies: bool, joined: str) -> None:
    table = table_with("forward", "mirror", mirror=Mirror(0, 2, copies))
    elements = fastclick_functions.configuration(table, {})
    text = fastclick.click_config(PORTS[:3], ConnectMode.CROSS_CONNECT, "/c", elements)
    assert joined in text and "f2 -> Discard;" in text and text.count("-> t2;") == 1
    assert table.entries_of_ports() == {"copies": int(copies)}


def test_fastclick_copies_are_read_back_from_the_outputs() -> None:
    text = "1 input\npush\tf0 [0]\n2 outputs\npush\tt1 [0]\npush\tt2 [0]\n"
    assert fastclick_functions.read_back({"mi.ports": text})["copies"] == 1
    assert fastclick_functions.read_back({})["copies"] == 0
