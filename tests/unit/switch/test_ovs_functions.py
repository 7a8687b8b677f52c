"""Network functions as OpenFlow entries."""

from __future__ import annotations

import ipaddress
import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from switchmark.errors import UsageError
from switchmark.function.support.table import (
    FunctionTable,
    Mirror,
    NextHop,
    Policer,
    RouterPort,
    Routes,
    Rule,
    Tunnel,
    Vlan,
)
from switchmark.model.functions import unit_refusal
from switchmark.switch.support.lookups import LookupCounts, parse_lookups, since
from switchmark.switch.support.ovs_functions import (
    SUPPORT,
    Translation,
    acl_entries,
    meters,
    port_blocks,
    priority_levels,
    refusal,
    rule_matches,
)
from switchmark.switch.support.ovs_instance import parse_meter_drops

PORTS = tuple(
    RouterPort(k, f"02:72:00:00:00:{k:02x}", f"198.19.{k}.1/24", f"10.64.0.{k + 1}",
               f"02:53:4d:00:00:{k + 1:02x}")
    for k in range(2)
)  # fmt: skip
HOPS = (
    NextHop(0, 0, "02:6e:00:00:00:00", "198.19.0.2"),
    NextHop(1, 1, "02:6e:00:00:00:01", "198.19.1.2"),
)
ROUTES = Routes(
    np.array([[1, 2, 0, 0], [1, 2, 3, 0]], np.uint8),
    np.array([16, 24], np.uint8),
    np.array([1, 0], np.uint16),
)


def entries_of(table: FunctionTable, base: list[str] | None = None) -> list[str]:
    return list(Translation(table, base or []).lines())


def test_routes_have_their_prefix_length_as_priority() -> None:
    entries = entries_of(FunctionTable(("route",), 4, PORTS, HOPS, ROUTES))
    assert entries[-2:] == [
        "table=1,priority=16,ip,nw_dst=1.2.0.0/16,actions=dec_ttl,"
        "set_field:02:72:00:00:00:01->eth_src,set_field:02:6e:00:00:00:01->eth_dst,output:2",
        "table=1,priority=24,ip,nw_dst=1.2.3.0/24,actions=dec_ttl,"
        "set_field:02:72:00:00:00:00->eth_src,set_field:02:6e:00:00:00:00->eth_dst,output:1",
    ]
    assert "table=0,priority=2,ip,nw_ttl=1,actions=drop" in entries
    # A frame may leave by the port where it came in, so the ingress port is set to none.
    assert (
        "table=0,priority=1,in_port=2,dl_dst=02:72:00:00:00:01,ip,"
        "actions=load:0->NXM_OF_IN_PORT[],goto_table:1"
    ) in entries


def test_written_entries_are_counted_by_table() -> None:
    rules = (Rule(False, "198.18.0.1/32", "0.0.0.0/0", 17, None, (5, 6)),)
    table = FunctionTable(("route", "acl"), 4, PORTS, HOPS, ROUTES, rules, default_permit=True)
    translation = Translation(table, [])
    entries = list(translation.lines())
    assert dict(translation.written) == {"acl": 3, "router ports": 4, "routes": 4}
    for stage in translation.stages:
        of_table = [entry for entry in entries if entry.startswith(f"table={stage.number},")]
        assert len(of_table) == translation.written[stage.name]
    assert translation.prefix_fields() == {0: "nw_src,nw_dst", 2: "nw_dst"}


def test_acl_before_forwarding_goes_on_to_its_rules() -> None:
    table = FunctionTable(("forward", "acl"), 6, PORTS, rules=(
        Rule(True, "2001:2::/48", "::/0"),), default_permit=False)  # fmt: skip
    assert entries_of(table, ["actions=NORMAL"]) == [
        "table=0,priority=65535,udp6,ipv6_src=2001:2::/48,actions=goto_table:1",
        "table=0,priority=0,actions=drop",
        "table=1,actions=NORMAL",
    ]


@pytest.mark.parametrize(("first", "last"), [(0, 65_535), (7, 7), (1000, 2000), (1, 65_534)])
def test_port_blocks_cover_exactly_their_range(first: int, last: int) -> None:
    covered = [
        port
        for value, mask in port_blocks(first, last)
        for port in range(value, value + (0x10000 - mask))
    ]
    assert covered == list(range(first, last + 1))


def drawn_rules(seed: int) -> list[Rule]:
    generator = np.random.default_rng(seed)
    rules = []
    for _ in range(40):
        low = int(generator.integers(0, 12))
        ports = None if generator.random() < 0.3 else (low, low + int(generator.integers(0, 4)))
        bits = int(generator.integers(28, 33))
        source = ipaddress.ip_network((f"198.18.0.{generator.integers(0, 16)}", bits), strict=False)
        protocol = [17, 6, None][int(generator.integers(0, 3))]
        rules.append(
            Rule(bool(generator.random() < 0.5), str(source), "0.0.0.0/0", protocol, None, ports)
        )
    return rules


def decides(entries: list[str], source: str, port: int, protocol: str) -> str:
    """Return the actions of the matching entry of the highest priority, as a switch would."""
    best, actions = -1, ""
    for entry in entries:
        fields, _, action = entry.partition(",actions=")
        match = dict(re.findall(r"([a-z_]+)=([^,]+)", fields))
        named = re.search(r",(udp|tcp|ip)\b", fields)
        if named and named[1] not in ("ip", protocol):
            continue
        network = match.get("nw_src")
        if network and ipaddress.ip_address(source) not in ipaddress.ip_network(network):
            continue
        if "tp_dst" in match:
            value, _, mask = match["tp_dst"].partition("/")
            if port & int(mask or "0xffff", 0) != int(value, 0):
                continue
        if int(match["priority"]) > best:
            best, actions = int(match["priority"]), action
    return actions


@pytest.mark.parametrize("seed", range(6))
def test_priorities_give_the_verdict_of_the_first_matching_rule(seed: int) -> None:
    rules = drawn_rules(seed)
    table = FunctionTable(("forward", "acl"), 4, PORTS, rules=tuple(rules))
    entries = list(acl_entries(table, "goto_table:1"))
    assert len(entries) == len({entry.partition(",actions")[0] for entry in entries})
    for host, port, protocol in itertools.product(range(16), range(16), ("udp", "tcp")):
        number = {"udp": 17, "tcp": 6}[protocol]
        source = ipaddress.ip_address(f"198.18.0.{host}")
        permit = next(
            (rule.permit for rule in rules
             if rule.protocol in (None, number) and source in ipaddress.ip_network(rule.source)
             and (rule.destination_ports is None
                  or rule.destination_ports[0] <= port <= rule.destination_ports[1])),
            False,
        )  # fmt: skip
        expected = "goto_table:1" if permit else "drop"
        assert decides(entries, str(source), port, protocol) == expected


def test_rules_that_cannot_overlap_share_a_priority() -> None:
    port = [Rule(k % 2 == 0, "198.18.0.0/15", "0.0.0.0/0", 17, None, (k, k)) for k in range(9)]
    assert priority_levels(port) == [0] * 9
    verdicts = [True, True, False, False, True]
    row = [Rule(permit, "198.18.0.0/15", "0.0.0.0/0") for permit in verdicts]
    assert priority_levels(row) == [0, 0, 1, 1, 2]


def test_list_with_too_many_priorities_is_refused() -> None:
    rules = tuple(Rule(k % 2 == 0, f"198.18.0.{k % 250}/32", "0.0.0.0/0") for k in range(65_536))
    table = FunctionTable(("forward", "acl"), 4, PORTS, rules=rules)
    with pytest.raises(UsageError, match="65536 changes between permit and deny"):
        next(acl_entries(table, "goto_table:1"))


def test_rule_with_ports_and_no_protocol_matches_both_protocols() -> None:
    rule = Rule(False, "0.0.0.0/0", "10.0.0.0/8", None, (4, 4))
    assert list(rule_matches(rule, 4)) == [
        "udp,nw_dst=10.0.0.0/8,tp_src=4",
        "tcp,nw_dst=10.0.0.0/8,tp_src=4",
    ]
    assert list(rule_matches(Rule(False, "0.0.0.0/0", "0.0.0.0/0", 47), 4)) == ["ip,nw_proto=47"]


def vlan_table(direction: str) -> FunctionTable:
    return FunctionTable(("forward", "vlan"), 4, PORTS, vlan=Vlan(100, direction))


def test_tags_are_pushed_and_popped_by_entries_of_the_ports() -> None:
    base = ["in_port=1,actions=output:2", "in_port=2,actions=output:1"]
    push = "vlan_tci=0,actions=push_vlan:0x8100,set_field:4196->vlan_vid,goto_table:1"
    assert entries_of(vlan_table("push"), base)[:2] == [
        f"table=0,in_port=1,{push}",
        "table=0,in_port=2,dl_vlan=100,actions=pop_vlan,goto_table:1",
    ]
    assert entries_of(vlan_table("pop"), base)[:2] == [
        "table=0,in_port=1,dl_vlan=100,actions=pop_vlan,goto_table:1",
        f"table=0,in_port=2,{push}",
    ]


def test_learning_switch_has_the_vlan_in_its_ports() -> None:
    translation = Translation(vlan_table("push"), ["actions=NORMAL"], is_learning=True)
    assert [translation.port_columns(port) for port in (0, 1)] == [["tag=100"], ["trunks=100"]]
    assert list(translation.lines()) == ["table=0,actions=NORMAL"]
    assert translation.written == {"ports with a VLAN": 2, "forwarding rules": 1}


def test_each_port_has_a_meter() -> None:
    policed = FunctionTable(("forward", "policer"), 4, PORTS, policer=Policer(10_000_000, 64_000))
    band = "type=drop,rate=10000,burst_size=512"
    assert meters(policed)[1] == f"meter=2,kbps,burst,stats,bands={band}"
    entries = entries_of(policed, ["actions=NORMAL"])
    assert entries[0] == "table=0,in_port=1,actions=meter:1,goto_table:1"


def test_mirror_is_made_in_the_database_unless_it_has_no_copies() -> None:
    mirrored = FunctionTable(("forward", "mirror"), 4, PORTS, mirror=Mirror(0, 2))
    translation = Translation(mirrored, ["actions=NORMAL"])
    commands = translation.mirror_commands("br", {0: "p0", 1: "p1", 2: "p2"})
    assert commands[:2] == [
        ["--id=@source", "get", "Port", "p0"],
        ["--id=@monitor", "get", "Port", "p2"],
    ]
    assert translation.written["mirrors"] == 1
    planted = replace(mirrored, mirror=Mirror(0, 2, copies=False))
    assert not Translation(planted, []).mirror_commands("br", {0: "p0", 2: "p2"})


def test_tunnels_are_chosen_by_station_and_by_vni() -> None:
    tunnel = Tunnel(7, "198.19.1.1", "198.19.1.2", "02:72:00:00:00:01", "02:6e:00:00:00:01",
                    "02:73:00:00:00:00")  # fmt: skip
    table = FunctionTable(("forward", "vxlan"), 4, PORTS, tunnels=(tunnel,))
    assert entries_of(table, ["actions=NORMAL"]) == [
        "table=0,in_port=1,dl_dst=02:73:00:00:00:00,actions=set_field:7->tun_id,output:2",
        "table=0,in_port=2,tun_id=7,actions=output:1",
    ]
    decap = replace(table, tunnel_direction="decap")
    assert entries_of(decap)[1] == "table=0,in_port=1,tun_id=7,actions=output:2"


METER_STATS = """\
OFPST_METER reply (OF1.3) (xid=0x2):
meter:1 flow_count:1 packet_in_count:9 byte_in_count:540 duration:0.064s bands:
0: packet_count:4 byte_count:240

meter:2 flow_count:0 packet_in_count:0 byte_in_count:0 duration:0.036s bands:
0: packet_count:0 byte_count:0
"""


def test_frames_that_a_meter_dropped_are_read() -> None:
    assert parse_meter_drops(METER_STATS) == {1: 4, 2: 0}


def test_values_between_the_units_of_a_meter_are_refused() -> None:
    support = SUPPORT["policer"]
    assert unit_refusal("ovs-dpdk", "policer", support, "cir", 10_000) is None
    refused = unit_refusal("ovs-dpdk", "policer", support, "cbs", 64_001)
    assert refused is not None and "use 64000 or 64125" in str(refused)
    refused = unit_refusal("ovs-dpdk", "policer", support, "cir", 10)
    assert refused is not None and "use 1000" in str(refused)


def test_burst_that_a_meter_never_refills_is_refused() -> None:
    """A meter adds the tokens of whole milliseconds."""
    table = FunctionTable(
        ("forward", "policer"), 4, PORTS, policer=Policer(16_000_000_000, 2_000_000)
    )
    assert refusal(table) is None
    refused = refusal(replace(table, policer=Policer(16_000_000_000, 1_999_875)))
    assert refused is not None and "use 2000000 or more" in str(refused)


PMD_STATS = """\
pmd thread numa_id 0 core_id 1:
  packets received: 106
  simple match hits: 1
  emc hits: 20
  smc hits: 3
  megaflow hits: 40
  miss with success upcall: 5
  miss with failed upcall: 0
main thread:
  packets received: 2
  simple match hits: 0
  emc hits: 1
  smc hits: 0
  megaflow hits: 0
  miss with success upcall: 1
  miss with failed upcall: 2
"""
SUBTABLES = """\
Available dpcls implementations:
  autovalidator (Use count: 0, Priority: 0)
  generic (Use count: 3, Priority: 1)
"""


def test_lookups_are_summed_over_threads() -> None:
    counts = parse_lookups(PMD_STATS, "netdev@ovs-netdev:\n  flows: 7\n", SUBTABLES)
    assert counts == LookupCounts(1, 21, 3, 40, 6, 2, megaflows=7, subtables=3)
    assert parse_lookups("", "  flows: 7\n", SUBTABLES) is None
    assert parse_lookups(PMD_STATS, "flows: x", SUBTABLES) is None


def test_lookups_of_a_restarted_switch_count_from_zero() -> None:
    before = LookupCounts(5, 5, 5, 5, 5, 5, 1, 1)
    assert since(before, LookupCounts(6, 7, 5, 5, 5, 5, 9, 9))["emc_hits"] == 2
    assert since(before, LookupCounts(6, 7, 4, 5, 5, 5, 9, 9))["emc_hits"] == 7
