"""Network functions in Open vSwitch: the neutral table as OpenFlow tables, for every datapath.

Each function is one OpenFlow table, in the order in which a frame passes them. A frame that a table
permits goes on to the next one; the last one is the base. OpenFlow has no longest-prefix match: the
priority of a route is its prefix length. The first match of an access control list is expressed by
priorities as well, of which OpenFlow has 65,536.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from switchmark.errors import Refusal, UsageError
from switchmark.function.support.table import UDP, FunctionTable, Rule
from switchmark.model.changes import TableChange
from switchmark.model.functions import FunctionEntries, FunctionSupport, TableMemory
from switchmark.switch.support.changes import spare_route, spare_rule
from switchmark.switch.support.ovs_instance import OvsInstance
from switchmark.switch.support.ovs_rules import openflow_port
from switchmark.switch.support.ovs_tunnels import tunnel_entries
from switchmark.switch.support.table_memory import MemoryBefore

TCP = 6
HIGHEST_PRIORITY = 65_535
POLICER, ROUTER, ACL, ROUTES = "policed ports", "router ports", "acl", "routes"
VLAN, TUNNELS, FORWARD = "vlan ports", "tunnel entries", "forwarding rules"
METERS, PORT_VLANS, MIRRORS = "meters", "ports with a VLAN", "mirrors"  # not OpenFlow tables
METER_CIR_BPS, METER_CBS_BYTES = 1000, 125  # units of a meter: kbit/s, kbit
MS_A_SECOND = 1000
_PROTOCOLS = {(4, UDP): "udp", (6, UDP): "udp6", (4, TCP): "tcp", (6, TCP): "tcp6"}
_TRIED = "3.1.0"

SUPPORT: Mapping[str, FunctionSupport] = {
    "route": FunctionSupport(
        1_000_000, "more were not tried; a route takes about 1.4 KB of the daemon's memory",
        version=_TRIED,
    ),
    "acl": FunctionSupport(100_000, "more were not tried", version=_TRIED),
    "policer": FunctionSupport(
        version=_TRIED, units={"cir": METER_CIR_BPS, "cbs": METER_CBS_BYTES}
    ),
    "mirror": FunctionSupport(bases=("forward",), version=_TRIED),
    "vxlan": FunctionSupport(
        10_000, "more were not tried; 10,000 load in about a second", bases=("forward",),
        version=_TRIED,
    ),
    "vlan": FunctionSupport(bases=("forward",), version=_TRIED),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stage:
    """An OpenFlow table: its name for the record, its number, and the action that passes a frame
    on to the next table; empty for the base."""

    name: str
    number: int
    onward: str


@dataclass
class Translation:
    """The OpenFlow tables of a neutral table; `base_rules` are those of the connect mode, and are
    used if the base is `forward`."""

    table: FunctionTable
    base_rules: Sequence[str]
    is_learning: bool = False  # the base is NORMAL, which has VLANs of its ports
    written: Counter[str] = field(default_factory=Counter)  # native entries by table

    @property
    def stages(self) -> list[Stage]:
        """The tables in the order in which a frame passes them."""
        names = [POLICER] if self.table.policer else []
        names += [ACL] if self.table.has_acl else []
        names += [VLAN] if self.table.vlan and not self.is_learning else []
        if self.table.is_routed:
            names += [ROUTER, ROUTES]
        else:
            names += [TUNNELS if self.table.tunnels else FORWARD]
        last = len(names) - 1
        return [
            Stage(name, number, "" if number == last else f"goto_table:{number + 1}")
            for number, name in enumerate(names)
        ]

    def prefix_fields(self) -> dict[int, str]:
        """Return by table the fields in which Open vSwitch keeps a trie of prefixes, so that its
        megaflows are as wide as the table permits."""
        source, destination = (
            ("nw_src", "nw_dst") if self.table.ip_version == 4 else ("ipv6_src", "ipv6_dst")
        )
        fields = {ACL: f"{source},{destination}", ROUTES: destination}
        return {stage.number: fields[stage.name] for stage in self.stages if stage.name in fields}

    def port_columns(self, port: int) -> list[str]:
        """Return columns of a port in the database, which only NORMAL obeys."""
        vlan = self.table.vlan
        if vlan is None or not self.is_learning:
            return []
        self.written[PORT_VLANS] += 1
        return [f"{'trunks' if vlan.is_trunk(port) else 'tag'}={vlan.vid}"]

    def mirror_commands(self, bridge: str, names: Mapping[int, str]) -> list[list[str]]:
        """Return the commands of `ovs-vsctl` that make the mirror; `names`: ports by index."""
        mirror = self.table.mirror
        if mirror is None or not mirror.copies:
            return []
        self.written[MIRRORS] += 1
        return [
            ["--id=@source", "get", "Port", names[mirror.source]],
            ["--id=@monitor", "get", "Port", names[mirror.monitor]],
            [
                *("--id=@mirror", "create", "Mirror", f"name={bridge}"),
                *("select_src_port=@source", "output_port=@monitor"),
            ],
            ["set", "Bridge", bridge, "mirrors=@mirror"],
        ]

    def lines(self) -> Iterator[str]:
        """Yield the entries as `ovs-ofctl add-flows` reads them, and count them."""
        makers: dict[str, Callable[[str], Iterator[str]]] = {
            POLICER: lambda onward: policed_entries(self.table, onward),
            VLAN: lambda onward: vlan_entries(self.table, onward),
            ACL: lambda onward: acl_entries(self.table, onward),
            ROUTER: lambda onward: router_entries(self.table, onward),
            ROUTES: lambda _: route_entries(self.table),
            TUNNELS: lambda _: tunnel_entries(self.table),
            FORWARD: lambda _: iter(self.base_rules),
        }
        for stage in self.stages:
            self.written[stage.name] = 0
            for entry in makers[stage.name](stage.onward):
                self.written[stage.name] += 1
                yield f"table={stage.number},{entry}"

    def details(self) -> dict[str, str]:
        """Return the tables as text, for the record."""
        tables = [f"{stage.number} {stage.name}: {self.written[stage.name]}"
                  for stage in self.stages]  # fmt: skip
        prefixes = [f"{number}: {fields}" for number, fields in self.prefix_fields().items()]
        base = {} if self.table.is_routed else {"rules": "; ".join(self.base_rules)}
        return {"openflow_tables": "; ".join(tables), "prefixes": "; ".join(prefixes), **base}


def ip_match(ip_version: int) -> str:
    """Return the match for all frames of an IP version."""
    return "ip" if ip_version == 4 else "ipv6"


def policed_entries(table: FunctionTable, onward: str) -> Iterator[str]:
    """Yield an entry for each port, by which its frames pass its meter."""
    for port in table.ports:
        number = openflow_port(port.index)
        yield f"in_port={number},actions=meter:{number},{onward}"


def meters(table: FunctionTable) -> list[str]:
    """Return a meter for each port if frames are policed. A meter counts bytes of the L2 frame
    without FCS, as the neutral table does."""
    policer = table.policer
    if policer is None:
        return []
    rate, burst = policer.cir_bps // METER_CIR_BPS, policer.cbs_bytes // METER_CBS_BYTES
    return [
        f"meter={openflow_port(port.index)},kbps,burst,stats,"
        f"bands=type=drop,rate={rate},burst_size={burst}"
        for port in table.ports
    ]


def vlan_entries(table: FunctionTable, onward: str) -> Iterator[str]:
    """Yield an entry for each port, by which frames without a tag get one, or frames of the VLAN
    lose theirs; other frames match no entry."""
    assert table.vlan is not None
    for port in table.ports:
        number = openflow_port(port.index)
        if table.vlan.is_trunk(port.index):
            yield f"in_port={number},dl_vlan={table.vlan.vid},actions=pop_vlan,{onward}"
        else:
            tag = 0x1000 | table.vlan.vid  # OpenFlow's bit for a tag that is present
            push = f"push_vlan:0x8100,set_field:{tag}->vlan_vid"
            yield f"in_port={number},vlan_tci=0,actions={push},{onward}"


def router_entries(table: FunctionTable, onward: str) -> Iterator[str]:
    """Yield the entries that let frames in to be routed: those to the router's own address at the
    port where they enter, with a TTL above 1. The ingress port is then forgotten, or Open vSwitch
    would not send a frame back by it."""
    ip = ip_match(table.ip_version)
    for ttl in (0, 1):
        yield f"priority=2,{ip},nw_ttl={ttl},actions=drop"
    for port in table.ports:
        match = f"in_port={openflow_port(port.index)},dl_dst={port.mac}"
        yield f"priority=1,{match},{ip},actions=load:0->NXM_OF_IN_PORT[],{onward}"


def route_entries(table: FunctionTable) -> Iterator[str]:
    """Yield an entry for each route; its priority is the prefix length."""
    match = ip_match(table.ip_version)
    destination = "nw_dst" if table.ip_version == 4 else "ipv6_dst"
    ttl = "dec_ttl," if table.decrements_ttl else ""
    own_macs = {port.index: port.mac for port in table.ports}
    for network, bits, mac, port in table.prefixes():
        yield (
            f"priority={bits},{match},{destination}={network}/{bits},actions={ttl}"
            f"set_field:{own_macs[port]}->eth_src,set_field:{mac}->eth_dst,"
            f"output:{openflow_port(port)}"
        )


def acl_entries(table: FunctionTable, onward: str) -> Iterator[str]:
    """Yield the entries of an access control list, without those that an equal entry before them
    makes superfluous. Raises UsageError for a list that needs more priorities than there are."""
    levels = priority_levels(table.rules)
    if (impossible := _too_many(levels)) is not None:
        raise UsageError(impossible)
    written: set[str] = set()
    for rule, level in zip(table.rules, levels, strict=True):
        actions = onward if rule.permit else "drop"
        for match in rule_matches(rule, table.ip_version):
            entry = f"priority={HIGHEST_PRIORITY - level},{match}"
            if entry not in written:
                written.add(entry)
                yield f"{entry},actions={actions}"
    yield f"priority=0,actions={onward if table.default_permit else 'drop'}"


def refusal(table: FunctionTable) -> Refusal | None:
    """Return why Open vSwitch cannot express a table; None if it can."""
    policer = table.policer
    if policer is not None and (policer.cbs_bytes * 8 * MS_A_SECOND < policer.cir_bps):
        least = -(-policer.cir_bps // (8 * MS_A_SECOND))
        return Refusal(
            f"cbs is {policer.cbs_bytes} bytes, less than a millisecond of cir; a meter of Open "
            "vSwitch counts whole milliseconds and never refills such a burst",
            f"use {least} or more, or a lower cir",
        )
    return _too_many(priority_levels(table.rules))


def _too_many(levels: Sequence[int]) -> Refusal | None:
    highest = max(levels, default=0)
    if highest < HIGHEST_PRIORITY:
        return None
    return Refusal(
        f"rules: the list has {highest + 1} changes between permit and deny that must stay in "
        f"order, and Open vSwitch has {HIGHEST_PRIORITY} priorities for them",
        "use fewer rules, or fewer that overlap",
    )


def priority_levels(rules: Sequence[Rule]) -> list[int]:
    """Return for each rule how many levels its priority lies below the highest one: a rule is below
    every earlier rule of the other verdict that may overlap it. Rules of one verdict share a level,
    as do rules whose destination ports differ, since no frame matches both."""
    import numpy as np

    # By verdict: the lowest level so far of the rules that match a destination port.
    lowest = {permit: np.full(65_536, -1, np.int32) for permit in (True, False)}
    levels = []
    for rule in rules:
        first, last = rule.destination_ports or (0, 65_535)
        level = 1 + int(lowest[not rule.permit][first : last + 1].max())
        same_verdict = lowest[rule.permit][first : last + 1]
        np.maximum(same_verdict, level, out=same_verdict)
        levels.append(level)
    return levels


def rule_matches(rule: Rule, ip_version: int) -> Iterator[str]:
    """Yield the matches that together match exactly the frames of a rule: one for each pair of
    aligned blocks of its port ranges."""
    source, destination = ("nw_src", "nw_dst") if ip_version == 4 else ("ipv6_src", "ipv6_dst")
    addresses = "".join(
        f",{name}={prefix}"
        for name, prefix in ((source, rule.source), (destination, rule.destination))
        if not prefix.endswith("/0")
    )
    has_ports = rule.source_ports is not None or rule.destination_ports is not None
    if rule.protocol is None:
        protocols = [_PROTOCOLS[ip_version, p] for p in (UDP, TCP)] if has_ports else [""]
    else:
        protocols = [_PROTOCOLS.get((ip_version, rule.protocol), f"nw_proto={rule.protocol}")]
    for protocol in protocols:
        named = (
            protocol
            if protocol in _PROTOCOLS.values()
            else ip_match(ip_version) + (f",{protocol}" if protocol else "")
        )
        for from_port in _port_matches("tp_src", rule.source_ports):
            for to_port in _port_matches("tp_dst", rule.destination_ports):
                yield named + addresses + from_port + to_port


def _port_matches(name: str, ports: tuple[int, int] | None) -> Iterator[str]:
    if ports is None:
        yield ""
        return
    for value, mask in port_blocks(*ports):
        yield f",{name}={value}" if mask == 0xFFFF else f",{name}=0x{value:x}/0x{mask:x}"


def port_blocks(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield a range of ports as aligned blocks, each a value and a mask."""
    while first <= last:
        size = first & -first or 65_536
        while first + size - 1 > last:
            size >>= 1
        yield first, 0xFFFF & ~(size - 1)
        first += size


class LoadedFunctions:
    """The functions that an instance has loaded."""

    def __init__(self, instance: OvsInstance, translation: Translation) -> None:
        self._instance = instance
        self._translation = translation
        self._load_time_s = 0.0
        self._memory: TableMemory | None = None

    def load(self) -> None:
        """Write all entries; meters come first, since rules refer to them."""
        memory = MemoryBefore(self._instance.process_ids)
        begun = time.monotonic()
        for meter in meters(self._translation.table):
            self._instance.add_meter(meter)
            self._translation.written[METERS] += 1
        self._load_time_s = time.monotonic() - begun
        self._load_time_s += self._instance.load_flows(self._translation.lines())
        self._memory = memory.after()

    def policed_frames(self) -> dict[int, int]:
        """Return the frames that the meter of each port has dropped, by the index of the port."""
        if METERS not in self._translation.written:
            return {}
        dropped = self._instance.meter_drops()
        return {
            port.index: dropped.get(openflow_port(port.index), 0)
            for port in self._translation.table.ports
        }

    def table_changes(self) -> list[TableChange]:
        """Return the changes of the tables of routes and rules, by spare entries."""
        table, names = self._translation.table, {ROUTES: "routes"}
        if table.rules:
            names[ACL] = "rules"
        return [
            self._table_change(names[stage.name], stage)
            for stage in sorted(self._translation.stages, key=lambda one: -one.number)
            if stage.name in names
        ]

    def _table_change(self, entries: str, stage: Stage) -> TableChange:
        table = self._translation.table

        def match(number: int) -> str:
            if stage.name == ROUTES:
                field = "nw_dst" if table.ip_version == 4 else "ipv6_dst"
                address = spare_route(table, number)
                return f"priority={table.host_bits},{ip_match(table.ip_version)},{field}={address}"
            (found,) = rule_matches(spare_rule(table, number), table.ip_version)
            return f"priority={HIGHEST_PRIORITY},{found}"

        def add(first: int, end: int) -> None:
            self._instance.flows(
                [f"table={stage.number},{match(k)},actions=drop" for k in range(first, end)]
            )

        def remove(first: int, end: int) -> None:
            self._instance.flows(
                [f"delete_strict table={stage.number},{match(k)}" for k in range(first, end)]
            )

        return TableChange(entries, add, remove, lambda: self._instance.count_flows(stage.number))

    def entries(self) -> FunctionEntries:
        """Return the announced entries, and those that the switch daemon counts."""
        read_back = {
            stage.name: self._instance.count_flows(stage.number)
            for stage in self._translation.stages
        }
        if METERS in self._translation.written:
            read_back[METERS] = self._instance.count_meters()
        if PORT_VLANS in self._translation.written:
            read_back[PORT_VLANS] = self._instance.count_port_vlans()
        if MIRRORS in self._translation.written:
            read_back[MIRRORS] = self._instance.count_mirrors()
        return FunctionEntries(
            dict(self._translation.written), read_back, self._load_time_s, self._memory
        )
