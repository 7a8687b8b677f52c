"""Translates the neutral table of functions to commands of VPP, and counts the entries in VPP.

A port of a router gets its addresses and static neighbours; a route is one command. An access list
becomes one list of the acl plugin, applied at the input of every port. A policer is one object a
port, of type 1r2c, which counts whole frames without FCS also behind a router's port.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from switchmark.errors import Refusal
from switchmark.function.support.table import FunctionTable, Rule
from switchmark.model.capabilities import SwitchOption
from switchmark.model.functions import FunctionSupport

ROUTES_MOST = 1_000_000
RULES_MOST = 100_000
TUNNEL_DOMAIN = 2
TUNNELS_MOST = 1000
LEAST_BURST_BYTES = 9216  # VPP raises smaller bursts to this value
ACL_LOOKUP = SwitchOption(
    "acl_lookup",
    "lookup of the acl plugin: `hash` tables, one for each combination of masks, or `linear`",
    "hash",
    ("hash", "linear"),
)
SUPPORT: Mapping[str, FunctionSupport] = {
    "route": FunctionSupport(ROUTES_MOST, "more were not tried"),
    "acl": FunctionSupport(RULES_MOST, "more were not tried"),
    "policer": FunctionSupport(),
    "vlan": FunctionSupport(bases=("forward",)),
    "mirror": FunctionSupport(bases=("forward",)),
    "vxlan": FunctionSupport(TUNNELS_MOST, "more were not tried", bases=("forward",)),
}
PLUGINS = {"vxlan": "vxlan_plugin.so", "acl": "acl_plugin.so", "policer": "policer_plugin.so"}
_SUMMARY_ROW = re.compile(r"^\s+\d+\s+(\d+)\s*$", re.MULTILINE)
_RULE_ROW = re.compile(r"^\s+\d+: ipv[46] ", re.MULTILINE)


def plugins(table: FunctionTable | None) -> list[str]:
    """Return the plugins that the functions of a table need."""
    return [PLUGINS[name] for name in (table.functions if table else ()) if name in PLUGINS]


def refusal(table: FunctionTable, options: Mapping[str, str]) -> Refusal | None:
    """Return why VPP cannot express this table; None if it can."""
    if table.policer and table.policer.cbs_bytes < LEAST_BURST_BYTES:
        return Refusal(
            f"cbs is {table.policer.cbs_bytes}; VPP raises it to {LEAST_BURST_BYTES}",
            f"use {LEAST_BURST_BYTES} or more",
        )
    if table.policer and table.policer.cir_bps % 1000:
        return Refusal(
            f"cir is {table.policer.cir_bps}; VPP takes whole kbit/s", "round it to 1000"
        )
    if table.vlan and options["cross_connect"] == "l2patch":
        return Refusal(
            "vpp: l2patch passes whole interfaces, without their sub-interfaces",
            "use cross_connect: xconnect",
        )
    return None


def joined_names(table: FunctionTable | None, names: Mapping[int, str]) -> dict[int, str]:
    """Return the names of the interfaces that are joined: a trunk port takes part by the
    sub-interface of its VLAN, and a monitor port takes no part."""
    if table is not None and table.mirror is not None:
        return {k: name for k, name in names.items() if k != table.mirror.monitor}
    if table is None or table.vlan is None:
        return dict(names)
    vlan = table.vlan
    return {k: f"{name}.{vlan.vid}" if vlan.is_trunk(k) else name for k, name in names.items()}


def sub_interfaces(table: FunctionTable | None, names: Mapping[int, str]) -> Iterator[str]:
    """Yield the commands that make the sub-interfaces of a VLAN; they come before the ports are
    joined. A tag is popped at the input, and pushed at the output."""
    if table is None or table.vlan is None:
        return
    for k, name in names.items():
        if table.vlan.is_trunk(k):
            yield f"create sub-interfaces {name} {table.vlan.vid}"


def tunnel_commands(table: FunctionTable | None, names: Mapping[int, str]) -> list[str] | None:
    """Return the commands that join an access port with tunnels, in a bridge domain that neither
    learns nor floods: each station leads into its tunnel. None if there are no tunnels."""
    if table is None or not table.tunnels:
        return None
    access, underlay = names[table.access_port], names[table.underlay_port]
    first, port = table.tunnels[0], table.ports[table.underlay_port]
    lines = [
        f"create bridge-domain {TUNNEL_DOMAIN} learn 0 forward 1 uu-flood 0 flood 0 arp-term 0",
        f"set interface l2 bridge {access} {TUNNEL_DOMAIN}",
        f"l2fib add {table.ports[table.access_port].host_mac} {TUNNEL_DOMAIN} {access} static",
        f"set interface ip address {underlay} {port.address}",
        f"set ip neighbor {underlay} {first.remote} {first.remote_mac} static",
    ]
    for number, tunnel in enumerate(table.tunnels):
        name = f"vxlan_tunnel{number}"
        lines += [
            f"create vxlan tunnel src {tunnel.local} dst {tunnel.remote} vni {tunnel.vni} "
            f"instance {number}",
            # One split horizon group: no frame goes from tunnel to tunnel.
            f"set interface l2 bridge {name} {TUNNEL_DOMAIN} 1",
            f"l2fib add {tunnel.station_mac} {TUNNEL_DOMAIN} {name} static",
        ]
    return lines


def tag_rewrites(table: FunctionTable, names: Mapping[int, str]) -> Iterator[str]:
    """Yield the commands that come after the ports are joined."""
    if table.vlan is not None:
        for k, name in joined_names(table, names).items():
            if table.vlan.is_trunk(k):
                yield f"set interface l2 tag-rewrite {name} pop 1"


def heap_mb(table: FunctionTable | None) -> int:
    """Return the size of VPP's main heap in MiB: it has room for the table."""
    return 512 if table is None else 3072


def statistics_mb(table: FunctionTable | None) -> int:
    """Return the size of the statistics segment in MiB: each route has two counters in it."""
    return 16 if table is None or not table.is_routed else 1024


def setup_commands(
    table: FunctionTable, names: Mapping[int, str], options: Mapping[str, str]
) -> list[str]:
    """Return the commands that come before the routes: addresses, neighbours, lists, policers."""
    lines = list(tag_rewrites(table, names))
    every, names = names, joined_names(table, names)
    if table.is_routed:
        lines += _router(table, names)
    if table.rules:
        lines.append(f"set acl-plugin use-hash-acl-matching {int(options['acl_lookup'] == 'hash')}")
        lines.append(list_command(table))
        lines += [f"set acl-plugin interface {names[p.index]} input acl 0" for p in table.ports]
    if table.mirror and table.mirror.copies:
        source, monitor = every[table.mirror.source], every[table.mirror.monitor]
        lines.append(f"set interface span {source} destination {monitor} rx")
    if table.policer:
        for port in table.ports:
            lines.append(
                f"policer add name p{port.index} type 1r2c rate kbps round closest "
                f"cir {table.policer.cir_bps // 1000} cb {table.policer.cbs_bytes} "
                "conform-action transmit exceed-action drop"
            )
            lines.append(f"policer input name p{port.index} {names[port.index]}")
    return lines


def _router(table: FunctionTable, names: Mapping[int, str]) -> Iterator[str]:
    neighbours = [(port.index, port.host, port.host_mac) for port in table.ports]
    neighbours += [(hop.port, hop.address, hop.mac) for hop in table.next_hops]
    for port in table.ports:
        yield f"set interface ip address {names[port.index]} {port.address}"
        if table.ip_version == 6:
            yield f"ip6 nd {names[port.index]} ra-suppress"
    for port_index, address, mac in neighbours:
        yield f"set ip neighbor {names[port_index]} {address} {mac} static"
    for port in table.ports:
        yield f"ip route add {port.host}/{table.host_bits} via {port.host} {names[port.index]}"


def list_command(table: FunctionTable, replaced: int | None = None) -> str:
    """Return the command that makes the access control list, or replaces the one of this
    number."""
    index = "" if replaced is None else f"index {replaced} "
    return f"set acl-plugin acl {index}" + ", ".join(_entries(table))


def _entries(table: FunctionTable) -> Iterator[str]:
    """Yield the entries of the list. The plugin denies what matches none."""
    for rule in table.rules:
        yield _entry(rule)
    if table.default_permit:
        network = "0.0.0.0/0" if table.ip_version == 4 else "::/0"
        yield f"permit src {network} dst {network}"


def _entry(rule: Rule) -> str:
    terms = ["permit" if rule.permit else "deny", "src", rule.source, "dst", rule.destination]
    if rule.protocol is not None:
        terms += ["proto", str(rule.protocol)]
    for word, ports in (("sport", rule.source_ports), ("dport", rule.destination_ports)):
        if ports is not None:
            terms += [word, f"{ports[0]}-{ports[1]}"]
    return " ".join(terms)


def route_commands(table: FunctionTable, names: Mapping[int, str]) -> Iterator[str]:
    """Yield a command for each route; the hosts of the ports have theirs already."""
    hops = [f" via {hop.address} {names[hop.port]}" for hop in table.next_hops]
    for network, bits, hop in table.routes or ():
        yield f"ip route add {network}/{bits}{hops[hop]}"


def announced(table: FunctionTable) -> dict[str, int]:
    """Return the numbers of native entries, by table."""
    numbers = {}
    if table.is_routed:
        numbers["routes"] = len(table.routes or ())
    if table.rules:
        numbers["acl entries"] = len(table.rules) + int(table.default_permit)
        numbers["acl inputs"] = len(table.ports)
    if table.policer:
        numbers["policers"] = len(table.ports)
    if table.mirror:
        numbers["mirrors"] = int(table.mirror.copies)
    if table.tunnels:
        numbers["tunnels"] = len(table.tunnels)
    if table.vlan:
        numbers["sub-interfaces"] = sum(table.vlan.is_trunk(p.index) for p in table.ports)
    return numbers


def routes_in(summary: str) -> int:
    """Return the number of entries in `show ip fib summary`."""
    return sum(int(count) for count in _SUMMARY_ROW.findall(summary))


def rules_in(text: str) -> int:
    """Return the number of entries in `show acl-plugin acl`."""
    return len(_RULE_ROW.findall(text))


def inputs_in(text: str) -> int:
    """Return the number of interfaces with a list in `show acl-plugin interface`."""
    return len(re.findall(r"^\s+input acl\(s\): \d", text, re.MULTILINE))


def policers_in(text: str) -> int:
    """Return the number of policers in `show policer`."""
    return len(re.findall(r'^Name "', text, re.MULTILINE))


def sub_interfaces_in(text: str) -> int:
    """Return the number of interfaces of VLANs in `show interface`. Ends of pipes look alike."""
    return len(re.findall(r"^(?!pipe)\S+\.\d+\s+\d+\s+up\s", text, re.MULTILINE))


def tunnels_in(text: str) -> int:
    """Return the number of tunnels in `show vxlan tunnel`."""
    return len(re.findall(r"^\[\d+\] ", text, re.MULTILINE))


def mirrors_in(text: str) -> int:
    """Return the number of mirrored interfaces in `show interface span`, below its heading."""
    return sum(1 for line in text.splitlines()[1:] if line.split())
