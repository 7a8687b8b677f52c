"""Translates the neutral table of functions to modules of BESS.

Frames of a port pass a chain of modules before the base (policer, access list), the base, and for
a router the modules of one next hop. BESS has no IPv6 in its lookup and list modules. `IPLookup`
and `ACL` have no command that reads entries back: the driver counts the entries that the daemon
has acknowledged, one by one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from switchmark.errors import Refusal
from switchmark.function.support.frames import mac_bytes
from switchmark.function.support.table import UDP, FunctionTable, Mirror, Rule, Vlan
from switchmark.function.support.wire import VXLAN_PORT
from switchmark.model.capabilities import SwitchOption
from switchmark.model.changes import TableChange
from switchmark.model.functions import FunctionSupport
from switchmark.switch.support.changes import spare_route, spare_rule

LINEAR, TUPLE_SPACE = "linear", "tuple-space"
ACL_LOOKUP = SwitchOption(
    "acl_lookup",
    "module of an access list: `ACL`, which compares rule by rule (linear), or `WildcardMatch`, "
    "which has a hash table for each combination of masks (tuple-space)",
    LINEAR,
    (LINEAR, TUPLE_SPACE),
)
ROUTES_MOST = 1_000_000
RULES_MOST = 100_000
TUNNELS_MOST = 1000
RULES_A_COMMAND = 20_000  # BESS takes messages of up to 4 MiB
TUPLES_A_COMMAND = 60_000  # each takes 50 bytes or less
TUPLES_MOST = 16  # combinations of masks in WildcardMatch
TABLE8_BYTES = 1024  # 256 entries of 4 bytes
TABLE24_MB = 64
ROUTE_BYTES = 256  # bytes that a route takes in the routing tree
IPV4 = (4,)
SUPPORT: Mapping[str, FunctionSupport] = {
    "route": FunctionSupport(ROUTES_MOST, "more were not tried", ip_versions=IPV4),
    "acl": FunctionSupport(RULES_MOST, "more were not tried", ip_versions=IPV4),
    "policer": FunctionSupport(),
    "vlan": FunctionSupport(bases=("forward",)),
    "mirror": FunctionSupport(bases=("forward",)),
    "vxlan": FunctionSupport(TUNNELS_MOST, "more were not tried", bases=("forward",)),
}
_ETHERTYPE, _PROTOCOL, _FRAGMENT, _ADDRESSES, _PORTS = 12, 23, 20, 26, 34
_VNI = 46
_IPV4 = "0800"
_METER, _GREEN = 0, 1
_ACL_ADD, _WILDCARD_ADD = "ACLArg", "WildcardMatchCommandAddArg"
_WILDCARD_SET = "WildcardMatchConfig"
_LIST_COMMANDS = (_ACL_ADD, _WILDCARD_SET)
SPARE_ROUTES = 10_000  # spare routes, 256 in each second-level table


@dataclass
class Plan:
    """Modules, links and commands for the driver, as JSON takes them. `heads` and `tails` are the
    ends of the chain of each port, as module and gate."""

    modules: list[Any] = field(default_factory=list)  # class, name, argument
    links: list[Any] = field(default_factory=list)  # module, gate, module
    commands: list[Any] = field(default_factory=list)  # module, command, type, argument
    heads: dict[int, str] = field(default_factory=dict)
    tails: dict[int, tuple[str, int]] = field(default_factory=dict)
    exits: dict[int, str] = field(default_factory=dict)  # the module before the output of a port
    monitor: int | None = None  # a port that only gets copies
    routed: bool = False
    announced: dict[str, int] = field(default_factory=dict)

    def module(self, kind: str, name: str, argument: Mapping[str, Any] | None = None) -> str:
        """Add a module; return its name."""
        self.modules.append([kind, name, dict(argument or {})])
        return name

    def link(self, source: str, gate: int, target: str) -> None:
        """Join an output gate with a module."""
        self.links.append([source, gate, target])

    def append(self, port: int, head: str, tail: tuple[str, int]) -> None:
        """Add modules to the chain of a port."""
        if port in self.tails:
            self.link(*self.tails[port], head)
        else:
            self.heads[port] = head
        self.tails[port] = tail

    def request(self) -> dict[str, Any]:
        """Return the part of the driver's request."""
        return {
            "modules": self.modules,
            "links": self.links,
            "commands": self.commands,
            "heads": self.heads,
            "tails": self.tails,
            "exits": self.exits,
            "monitor": self.monitor,
            "routed": self.routed,
        }


def refusal(table: FunctionTable, options: Mapping[str, str]) -> Refusal | None:
    """Return why BESS cannot express this table; None if it can."""
    if options["acl_lookup"] == TUPLE_SPACE:
        tuples = len({_mask(rule) for rule in table.rules})
        if tuples > TUPLES_MOST:
            return Refusal(
                f"the rules have {tuples} combinations of masks; WildcardMatch takes {TUPLES_MOST}",
                "use fewer masks, or acl_lookup: linear",
            )
    for number, rule in enumerate(table.rules):
        for ports in rule.ports:
            if ports is not None and (ports[0] != ports[1] or ports[0] == 0):
                return Refusal(
                    f"rule {number} has ports {ports[0]}-{ports[1]}; its modules compare "
                    "with one port from 1 on",
                    "use single ports, or leave bess out",
                )
    return None


def plan_of(table: FunctionTable, options: Mapping[str, str]) -> Plan:
    """Return the modules for a table, without its routes."""
    plan = Plan()
    if table.tunnels:
        _tunnel(plan, table)
    if table.mirror:
        _mirror(plan, table.mirror)
    for port in table.ports:
        if table.policer:
            _police(plan, port.index, table)
        if table.vlan:
            _tag(plan, port.index, table.vlan)
        if table.rules:
            _filter(plan, port.index, table, options["acl_lookup"])
        if table.is_routed:
            _accept(plan, port.index, port.mac)
    if table.is_routed:
        _route(plan, table)
    return plan


def _police(plan: Plan, port: int, table: FunctionTable) -> None:
    """A meter with two equal buckets is one of a single rate: a frame is green or red."""
    assert table.policer is not None
    key = [{"attr_name": "policed", "num_bytes": 1}]
    name = f"policer-{port}"
    attribute = {"name": "policed", "size": 1, "value_int": 1}
    head = plan.module("SetMetadata", f"policed-{port}", {"attrs": [attribute]})
    plan.module("Qos", name, {"fields": key, "entries": 16})
    rate, burst = table.policer.cir_bps // 8, table.policer.cbs_bytes
    meter = {
        **{"gate": _METER, "cir": rate, "pir": rate, "cbs": burst, "pbs": burst, "ebs": 0},
        **{"deduct_len": 0, "fields": [{"value_int": 1}]},
    }
    plan.commands.append([name, "add", "QosCommandAddArg", meter])
    plan.link(head, 0, name)
    plan.append(port, head, (name, _GREEN))
    plan.announced["meters"] = plan.announced.get("meters", 0) + 1


def _tunnel(plan: Plan, table: FunctionTable) -> None:
    """Choose a tunnel by the station's address on the way in, and by outer addresses, UDP port and
    VNI on the way out. Metadata of a frame carry its tunnel from module to module."""
    access, underlay = table.access_port, table.underlay_port
    stations = plan.module(
        "ExactMatch",
        "stations",
        {"fields": [{"offset": 0, "num_bytes": 6}], "entries": max(16, 4 * len(table.tunnels))},
    )
    plan.module("VXLANEncap", "vxlan", {})
    plan.module("IPEncap", "outer-ip")
    plan.module("EtherEncap", "outer-ethernet")
    plan.link("vxlan", 0, "outer-ip")
    plan.link("outer-ip", 0, "outer-ethernet")
    known = plan.module(
        "ExactMatch",
        "tunnels",
        {
            "fields": [
                {"offset": _ETHERTYPE, "num_bytes": 3},
                {"offset": _PROTOCOL, "num_bytes": 1},
                {"offset": _ADDRESSES, "num_bytes": 8},
                {"offset": _PORTS + 2, "num_bytes": 2},
                {"offset": _VNI, "num_bytes": 3},
            ],
            "entries": max(16, 4 * len(table.tunnels)),
        },
    )
    plan.module("VXLANDecap", "inner")
    plan.link(known, 0, "inner")
    for gate, tunnel in enumerate(table.tunnels):
        outer = ipaddress.ip_address(tunnel.local).packed
        remote = ipaddress.ip_address(tunnel.remote).packed
        attributes = [
            {"name": "tun_ip_src", "size": 4, "value_bin": {"bytes": outer.hex()}},
            {"name": "tun_ip_dst", "size": 4, "value_bin": {"bytes": remote.hex()}},
            {"name": "tun_id", "size": 4, "value_bin": {"bytes": f"{tunnel.vni:08x}"}},
            {"name": "ether_src", "size": 6, "value_bin": _bytes_of(tunnel.local_mac)},
            {"name": "ether_dst", "size": 6, "value_bin": _bytes_of(tunnel.remote_mac)},
        ]
        name = plan.module("SetMetadata", f"tunnel-{gate}", {"attrs": attributes})
        plan.link(stations, gate, name)
        plan.link(name, 0, "vxlan")
        station = _binary(mac_bytes(tunnel.station_mac).hex())
        argument = {"gate": gate, "fields": [station]}
        plan.commands.append([stations, "add", "ExactMatchCommandAddArg", argument])
        values = [
            _binary(_IPV4 + "45"),
            _binary("11"),
            _binary((remote + outer).hex()),
            _binary(f"{VXLAN_PORT:04x}"),
            _binary(f"{tunnel.vni:06x}"),
        ]
        argument = {"gate": 0, "fields": values}
        plan.commands.append([known, "add", "ExactMatchCommandAddArg", argument])
    plan.append(access, stations, ("outer-ethernet", 0))
    plan.append(underlay, known, ("inner", 0))
    plan.announced["stations"] = plan.announced["tunnels"] = len(table.tunnels)


def _bytes_of(mac: str) -> dict[str, str]:
    return {"bytes": mac_bytes(mac).hex()}


def _mirror(plan: Plan, mirror: Mirror) -> None:
    """Copy the frames of a port, as they enter, to the monitor port."""
    plan.monitor = mirror.monitor
    gates = [0, 1] if mirror.copies else [0]
    name = plan.module("Replicate", "mirror", {"gates": gates})
    if mirror.copies:
        plan.link(name, 1, f"out-p{mirror.monitor}")
    plan.append(mirror.source, name, (name, 0))
    plan.announced["copies"] = int(mirror.copies)


def _tag(plan: Plan, port: int, vlan: Vlan) -> None:
    """A trunk port takes frames of its VLAN, without their tag from there on, and gives them the
    tag when they leave."""
    if not vlan.is_trunk(port):
        return
    name = plan.module(
        "ExactMatch",
        f"vlan-{port}",
        {
            "fields": [
                {"offset": _ETHERTYPE, "num_bytes": 2},
                {"offset": _ETHERTYPE + 2, "num_bytes": 2},
            ],
            "masks": [{"value_int": mask} for mask in (0xFFFF, 0x0FFF)],
            "entries": 16,
        },
    )
    values = [_binary("8100"), _binary(f"{vlan.vid:04x}")]
    argument = {"gate": 0, "fields": values}
    plan.commands.append([name, "add", "ExactMatchCommandAddArg", argument])
    popped = plan.module("VLANPop", f"pop-{port}")
    plan.link(name, 0, popped)
    plan.append(port, name, (popped, 0))
    plan.exits[port] = plan.module("VLANPush", f"push-{port}", {"tci": vlan.vid})
    plan.link(plan.exits[port], 0, f"out-p{port}")
    plan.announced["VLAN rules"] = plan.announced.get("VLAN rules", 0) + 1


def _filter(plan: Plan, port: int, table: FunctionTable, lookup: str) -> None:
    """Split the frames by protocol, since the modules compare ports of whatever follows the IP
    header; each protocol has a separate list. Other frames get the verdict of the rules for
    all protocols."""
    protocols = sorted({rule.protocol for rule in table.rules if rule.protocol is not None})
    split = plan.module(
        "ExactMatch",
        f"protocols-{port}",
        {
            "fields": [
                {"offset": _ETHERTYPE, "num_bytes": 2},
                {"offset": _PROTOCOL, "num_bytes": 1},
                {"offset": _FRAGMENT, "num_bytes": 2},
            ],
            # ExactMatch writes masks in network order if they are numbers only.
            "masks": [{"value_int": mask} for mask in (0xFFFF, 0xFF, 0x1FFF)],
            "entries": 16,
        },
    )
    passed = plan.module("Bypass", f"passed-{port}")
    for gate, protocol in enumerate([*protocols, None]):
        rules = [rule for rule in table.rules if rule.protocol in (None, protocol)]
        if protocol is not None:
            values = [_binary(_IPV4), _binary(f"{protocol:02x}"), _binary("0000")]
            argument = {"gate": gate, "fields": values}
            plan.commands.append([split, "add", "ExactMatchCommandAddArg", argument])
        else:
            argument = {"gate": gate}
            kind = "ExactMatchCommandSetDefaultGateArg"
            plan.commands.append([split, "set_default_gate", kind, argument])
        if not rules and not table.default_permit:
            continue  # nothing passes: the gate leads nowhere
        if not rules:
            plan.link(split, gate, passed)
            continue
        name = f"acl-{port}-{'other' if protocol is None else protocol}"
        (_linear if lookup == LINEAR else _tuple_space)(plan, name, rules, table)
        plan.link(split, gate, name)
        plan.link(name, 0, passed)
    plan.append(port, split, (passed, 0))


def _linear(plan: Plan, name: str, rules: Iterable[Rule], table: FunctionTable) -> None:
    entries = [_line(rule) for rule in rules]
    if table.default_permit:
        entries.append({"src_ip": "0.0.0.0/0", "dst_ip": "0.0.0.0/0", "drop": False})
    plan.module("ACL", name, {})
    for at in range(0, len(entries), RULES_A_COMMAND):
        part = {"rules": entries[at : at + RULES_A_COMMAND]}
        plan.commands.append([name, "add", _ACL_ADD, part])
    plan.announced["acl entries"] = plan.announced.get("acl entries", 0) + len(entries)


def _line(rule: Rule) -> dict[str, Any]:
    return {
        "src_ip": rule.source,
        "dst_ip": rule.destination,
        "src_port": rule.source_ports[0] if rule.source_ports else 0,
        "dst_port": rule.destination_ports[0] if rule.destination_ports else 0,
        "drop": not rule.permit,
    }


def _tuple_space(plan: Plan, name: str, rules: Sequence[Rule], table: FunctionTable) -> None:
    """One key has one entry: of rules with the same key, the first decides."""
    plan.module(
        "WildcardMatch",
        name,
        {
            "fields": [
                {"offset": _ADDRESSES, "num_bytes": 8},
                {"offset": _PORTS, "num_bytes": 4},
            ],
            "entries": 1 << max(15, len(rules).bit_length() + 1),
        },
    )
    added = set()
    entries = []
    for number, rule in enumerate(rules):
        both = _mask(rule), _value(rule)
        if both in added:
            continue
        added.add(both)
        argument = {
            "gate": 0 if rule.permit else 1,
            "priority": len(rules) - number,
            **_key(rule),
        }
        entries.append(argument)
    # The command that takes a list replaces all entries, so only the first list can use it.
    first = {"default_gate": 1, "rules": entries[:TUPLES_A_COMMAND]}
    plan.commands.append([name, "set_runtime_config", _WILDCARD_SET, first])
    for argument in entries[TUPLES_A_COMMAND:]:
        plan.commands.append([name, "add", _WILDCARD_ADD, argument])
    kind = "WildcardMatchCommandSetDefaultGateArg"
    argument = {"gate": 0 if table.default_permit else 1}
    plan.commands.append([name, "set_default_gate", kind, argument])
    plan.announced["tuple-space entries"] = plan.announced.get("tuple-space entries", 0) + len(
        added
    )


def _key(rule: Rule) -> dict[str, Any]:
    mask, value = _mask(rule), _value(rule)
    return {
        "values": [_binary(value[:16]), _binary(value[16:])],
        "masks": [_binary(mask[:16]), _binary(mask[16:])],
    }


def _mask(rule: Rule) -> str:
    """Return the mask over both addresses and both ports, in hexadecimal."""
    networks = [ipaddress.ip_network(text) for text in (rule.source, rule.destination)]
    masks = "".join(f"{int(network.netmask):08x}" for network in networks)
    return masks + "".join("ffff" if p else "0000" for p in rule.ports)


def _value(rule: Rule) -> str:
    """Return the values under the mask."""
    networks = [ipaddress.ip_network(text) for text in (rule.source, rule.destination)]
    addresses = "".join(f"{int(network.network_address):08x}" for network in networks)
    return addresses + "".join(f"{p[0] if p else 0:04x}" for p in rule.ports)


def _accept(plan: Plan, port: int, mac: str) -> None:
    """Take IPv4 frames without options that are sent to the router's address; drop all others."""
    name = plan.module(
        "ExactMatch",
        f"mine-{port}",
        {
            "fields": [
                {"offset": 0, "num_bytes": 6},
                {"offset": _ETHERTYPE, "num_bytes": 3},
            ],
            "entries": 16,
        },
    )
    values = [_binary(mac_bytes(mac).hex()), _binary(_IPV4 + "45")]
    argument = {"gate": 0, "fields": values}
    plan.commands.append([name, "add", "ExactMatchCommandAddArg", argument])
    plan.append(port, name, (name, 0))


def _route(plan: Plan, table: FunctionTable) -> None:
    """Decrement the TTL, look up the next hop, write its addresses."""
    plan.routed = True
    routes = table.routes
    count = len(routes or ()) + len(table.ports)
    argument = {"max_rules": count + SPARE_ROUTES + 16, "max_tbl8s": tables_of_8(table)}
    plan.module("IPLookup", "routes", argument)
    entrance = "routes"
    if table.decrements_ttl:
        entrance = plan.module("UpdateTTL", "ttl")
        plan.link(entrance, 0, "routes")
    for port in table.ports:
        plan.link(*plan.tails[port.index], entrance)
    macs = {port.index: port.mac for port in table.ports}
    for gate, (egress, mac) in enumerate(gates(table)):
        header = mac_bytes(mac) + mac_bytes(macs[egress])
        fields = [
            {"offset": 0, "size": 8, "value": int.from_bytes(header[:8], "big")},
            {"offset": 8, "size": 4, "value": int.from_bytes(header[8:], "big")},
        ]
        name = plan.module("Update", f"hop-{gate}", {"fields": fields})
        plan.link("routes", gate, name)
        plan.link(name, 0, f"out-p{egress}")
    plan.announced["routes"] = count


class Changes:
    """Changes of the routes and rules of a running BESS. `run` runs commands of modules, and
    `counted` counts the entries of `WildcardMatch` in all lists. Entries of `IPLookup` and `ACL`
    cannot be counted; their number is that of the acknowledged commands."""

    def __init__(
        self,
        table: FunctionTable,
        plan: Plan,
        run: Callable[[Sequence[Sequence[Any]]], None],
        counted: Callable[[], int],
    ) -> None:
        self._table = table
        self._run = run
        self._counted = counted
        self._commands = [one for one in plan.commands if one[0].endswith(f"-{UDP}")]
        kinds = {command[2] for command in self._commands}
        self._is_linear = _ACL_ADD in kinds
        self._lists = list(dict.fromkeys(c[0] for c in self._commands if c[2] in _LIST_COMMANDS))
        self._routes = 0  # spare entries in force
        self._rules: list[Rule] = []

    def all(self) -> list[TableChange]:
        """Return the changes of each table."""
        changes = []
        if self._table.is_routed:
            changes.append(
                TableChange("routes", self._add_routes, self._del_routes, lambda: self._routes)
            )
        if self._lists and self._is_linear:
            changes.append(
                TableChange("rules", self._add_lines, self._del_lines, lambda: len(self._rules))
            )
        elif self._lists:
            changes.append(TableChange(
                "rules", self._add_tuples, self._del_tuples,
                lambda: self._counted() // len(self._lists),
            ))  # fmt: skip
        return changes

    def _add_routes(self, first: int, end: int) -> None:
        self._run([
            ["routes", "add", "IPLookupCommandAddArg",
             {"prefix": spare_route(self._table, number), "prefix_len": 32, "gate": 0}]
            for number in range(first, end)
        ])  # fmt: skip
        self._routes += end - first

    def _del_routes(self, first: int, end: int) -> None:
        self._run([
            ["routes", "delete", "IPLookupCommandDeleteArg",
             {"prefix": spare_route(self._table, number), "prefix_len": 32}]
            for number in range(first, end)
        ])  # fmt: skip
        self._routes -= end - first

    def _spare(self, first: int, end: int) -> list[Rule]:
        return [spare_rule(self._table, number) for number in range(first, end)]

    def _add_lines(self, first: int, end: int) -> None:
        self._write([*self._rules, *self._spare(first, end)])

    def _del_lines(self, first: int, end: int) -> None:
        self._write(self._rules[end - first :])

    def _write(self, rules: list[Rule]) -> None:
        """Write whole lists, the spare rules first: `ACL` can only be cleared and filled."""
        entries = {"rules": [_line(rule) for rule in rules]}
        commands: list[Sequence[Any]] = []
        for name in self._lists:
            commands.append([name, "clear", "EmptyArg", {}])
            commands.append([name, "add", _ACL_ADD, entries])
        self._run(commands + [one for one in self._commands if one[2] == _ACL_ADD])
        self._rules = rules

    def _add_tuples(self, first: int, end: int) -> None:
        order = {"gate": 1, "priority": len(self._table.rules) + 1}
        self._change_tuples("add", _WILDCARD_ADD, order, first, end)

    def _del_tuples(self, first: int, end: int) -> None:
        self._change_tuples("delete", "WildcardMatchCommandDeleteArg", {}, first, end)

    def _change_tuples(
        self, verb: str, kind: str, more: Mapping[str, Any], first: int, end: int
    ) -> None:
        rules = self._spare(first, end)
        self._run(
            [[name, verb, kind, _key(rule) | dict(more)] for rule in rules for name in self._lists]
        )


def gates(table: FunctionTable) -> list[tuple[int, str]]:
    """Return egress port and MAC address of each output gate of the lookup: the next hops, then
    the hosts of the ports."""
    hops = [(hop.port, hop.mac) for hop in table.next_hops]
    return hops + [(port.index, port.host_mac) for port in table.ports]


def tables_of_8(table: FunctionTable) -> int:
    """Return the number of second-level tables: one for each /24 with longer prefixes in it."""
    import numpy as np

    hosts = {ipaddress.ip_address(port.host).packed[:3] for port in table.ports}
    spare = SPARE_ROUTES // 256 + 16
    if table.routes is None or not len(table.routes):
        return len(hosts) + spare
    long = table.routes.networks[table.routes.lengths > 24][:, :3]
    return len(np.unique(long, axis=0)) + len(hosts) + spare


def memory_mb(table: FunctionTable) -> int:
    """Return the memory of the lookup's tables in MiB."""
    if not table.is_routed:
        return 0
    count = len(table.routes or ()) + len(table.ports)
    return TABLE24_MB + (count * ROUTE_BYTES + tables_of_8(table) * TABLE8_BYTES >> 20) + 16


def route_rows(table: FunctionTable) -> bytes:
    """Return the routes for the driver: network address, prefix length and gate, in rows of 7
    bytes."""
    import numpy as np

    hops = len(table.next_hops)
    rows = [
        ipaddress.ip_address(port.host).packed + bytes([32]) + (hops + number).to_bytes(2, "big")
        for number, port in enumerate(table.ports)
    ]
    routes = table.routes
    if routes is None:
        return b"".join(rows)
    gate = routes.hops.astype(">u2").view(np.uint8).reshape(-1, 2)
    lengths = routes.lengths.astype(np.uint8).reshape(-1, 1)
    return b"".join(rows) + np.concatenate([routes.networks, lengths, gate], axis=1).tobytes()


def _binary(text: str) -> dict[str, str]:
    """Return bytes, in the order of the frame, for the driver."""
    return {"hex": text}
