"""Translates the neutral table of functions to a plan of Snabb's apps (`snabb_functions.lua`).

An access list becomes one filter expression a port, which passes what the list permits.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from switchmark.errors import Refusal
from switchmark.function.support.frames import mac_bytes
from switchmark.function.support.table import PORT_PROTOCOLS, FunctionTable, Rule
from switchmark.model.functions import FunctionSupport

ROUTES_MOST = 100_000
RULES_MOST = 250
SUPPORT: Mapping[str, FunctionSupport] = {
    "route": FunctionSupport(ROUTES_MOST, "Lua loads the table while the switch starts"),
    "acl": FunctionSupport(
        RULES_MOST, "pflua makes one Lua function of a list, and LuaJIT limits its length"
    ),
    "policer": FunctionSupport(),
    "vlan": FunctionSupport(bases=("forward",)),
}
NOT_BUILT: Mapping[str, str] = {
    "vxlan": "Snabb has no app for it",
    "mirror": "the Lua program that drives Snabb has no monitor port",
}


def refusal(table: FunctionTable) -> Refusal | None:
    """Return why Snabb cannot express this table; None if it can."""
    for number, rule in enumerate(table.rules):
        has_ports = rule.source_ports or rule.destination_ports
        if has_ports and rule.protocol not in PORT_PROTOCOLS:
            return Refusal(
                f"rule {number} has ports and protocol {rule.protocol}; its filter "
                "language has ports of TCP and UDP only",
                "change the rule, or leave snabb out",
            )
    return None


def write_plan(table: FunctionTable, folder: Path) -> Path:
    """Write the plan, and the routes beside it; return its path."""
    lines = [f"ip_version = {table.ip_version},", f"decrement = {int(table.decrements_ttl)},"]
    lines.append(f"routers = {{{', '.join(map(_mac, (p.mac for p in table.ports)))}}},")
    if table.is_routed:
        hops = [(hop.mac, hop.port) for hop in table.next_hops]
        hops += [(port.host_mac, port.index) for port in table.ports]
        entries = (f"{{mac = {_mac(mac)}, port = {port}}}" for mac, port in hops)
        lines.append(f"hops = {{{', '.join(entries)}}},")
        routes = folder / "routes"
        routes.write_bytes(_route_rows(table))
        lines.append(f"routes = [[{routes}]],")
    if table.rules:
        lines.append(f"filter = [[{filter_of(table)}]],")
    if table.policer:
        rate, burst = table.policer.cir_bps / 8, table.policer.cbs_bytes
        lines.append(f"policer = {{rate = {rate}, burst = {burst}}},")
    if table.vlan:
        trunks = ", ".join(f"[{p.index}] = true" for p in table.ports if has_tag(table, p.index))
        lines.append(f"vlan = {table.vlan.vid}, trunks = {{{trunks}}},")
    plan = folder / "plan.lua"
    plan.write_text("\n".join(["return {", *lines, "}"]) + "\n")
    return plan


def _mac(text: str) -> str:
    return f'"{mac_bytes(text).hex(":")}"'


def _route_rows(table: FunctionTable) -> bytes:
    """Return the routes in rows: network address, prefix length, number of the next hop."""
    import numpy as np

    hops = len(table.next_hops)
    rows = [
        ipaddress.ip_address(port.host).packed
        + bytes([table.host_bits])
        + (hops + number).to_bytes(2, "big")
        for number, port in enumerate(table.ports)
    ]
    routes = table.routes
    if routes is None:
        return b"".join(rows)
    numbers = routes.hops.astype(">u2").view(np.uint8).reshape(-1, 2)
    lengths = routes.lengths.astype(np.uint8).reshape(-1, 1)
    return b"".join(rows) + np.concatenate([routes.networks, lengths, numbers], axis=1).tobytes()


def filter_of(table: FunctionTable) -> str:
    """Return an expression that is true for the frames that the list permits: each run of rules
    with one verdict is asked before the rest of the list."""
    rest = "" if not table.default_permit else _all(table)
    for permit, rules in reversed(_runs(table.rules)):
        matches = " or ".join(f"({_match(rule, table.ip_version)})" for rule in rules)
        if permit:
            rest = f"({matches})" + (f" or ({rest})" if rest else "")
        else:
            rest = f"not ({matches}) and ({rest})" if rest else ""
    return rest or "len = 0"  # which no frame has


def _all(table: FunctionTable) -> str:
    return "ip" if table.ip_version == 4 else "ip6"


def _runs(rules: Sequence[Rule]) -> list[tuple[bool, list[Rule]]]:
    runs: list[tuple[bool, list[Rule]]] = []
    for rule in rules:
        if not runs or runs[-1][0] != rule.permit:
            runs.append((rule.permit, []))
        runs[-1][1].append(rule)
    return runs


def _match(rule: Rule, ip_version: int) -> str:
    """Return a rule in the language of pcap-filter(7)."""
    family = "ip" if ip_version == 4 else "ip6"
    terms = [family]
    if rule.protocol in PORT_PROTOCOLS:
        terms.append(PORT_PROTOCOLS[rule.protocol])
    elif rule.protocol is not None:
        terms.append(f"{family} proto {rule.protocol}")
    for side, prefix in (("src", rule.source), ("dst", rule.destination)):
        if ipaddress.ip_network(prefix).prefixlen:
            terms.append(f"{side} net {prefix}")
    terms += _ports("src", rule.source_ports)
    terms += _ports("dst", rule.destination_ports)
    return " and ".join(terms)


def _ports(side: str, ports: tuple[int, int] | None) -> Iterator[str]:
    if ports is not None:
        low, high = ports
        yield f"{side} port {low}" if low == high else f"{side} portrange {low}-{high}"


def chain(table: FunctionTable, port: int) -> list[str]:
    """Return the names of the apps between a port and its peer or the router, in order."""
    names = []
    if table.policer:
        names.append(f"policer{port}")
    if has_tag(table, port):
        names.append(f"untag{port}")
    if table.rules:
        names.append(f"acl{port}")
    return names


def has_tag(table: FunctionTable, port: int) -> bool:
    """Return True for a trunk port, whose frames have a tag."""
    return table.vlan is not None and table.vlan.is_trunk(port)
