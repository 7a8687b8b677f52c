"""Translates the neutral table of functions to Click's language.

Frames of a port pass elements before the base: `mi` (mirror), `p` (policer), `v` (VLAN), `a`
(access list) and, for a router, `m` (its own address) and a check of the IP header. Behind the
lookup each next hop has its own elements. `g` pushes a tag before a port. Elements that a table
needs and the program lacks are named when Click starts.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from switchmark.errors import Refusal
from switchmark.function.support.table import PORT_PROTOCOLS, FunctionTable, Rule
from switchmark.model.capabilities import SwitchOption
from switchmark.model.functions import FORWARD, FunctionSupport

RADIX, DIRECT = "radix", "direct"
ROUTE_LOOKUP = SwitchOption(
    "route_lookup",
    "element of the routing table for IPv4: `RadixIPLookup`, or `DirectIPLookup` (DIR-24-8)",
    DIRECT,
    (RADIX, DIRECT),
)
DIRECT_ROUTES_MOST = 256 * 1024 - 64
IPV6_ROUTES_MOST = 1000
RULES_MOST = 1000
ELEMENTS = {RADIX: "RadixIPLookup", DIRECT: "DirectIPLookup"}
SUPPORT: Mapping[str, FunctionSupport] = {
    "route": FunctionSupport(
        DIRECT_ROUTES_MOST,
        "DirectIPLookup has room for 262,144 (RT_SIZE_MAX)",
        scale_by_option={
            "ip_version:6": (IPV6_ROUTES_MOST, "LookupIP6Route compares routes one by one")
        },
    ),
    "acl": FunctionSupport(
        RULES_MOST, "IPFilter compiles its list while Click starts", ip_versions=(4,)
    ),
    "policer": FunctionSupport(),
    "vlan": FunctionSupport(bases=(FORWARD,)),
    "mirror": FunctionSupport(bases=(FORWARD,)),
}
NOT_BUILT: Mapping[str, str] = {
    "vxlan": "FastClick has no element for it",
}


@dataclass
class Elements:
    """The elements between those of the ports."""

    lines: list[str] = field(default_factory=list)
    tails: dict[int, str] = field(default_factory=dict)  # where the frames of a port go on
    heads: dict[int, str] = field(default_factory=dict)  # where the frames for a port go
    monitor: int | None = None  # a port that only gets copies


def refusal(table: FunctionTable) -> Refusal | None:
    """Return why FastClick cannot express this table; None if it can."""
    count = len(table.routes or ())
    if table.is_routed and table.ip_version == 6 and count > IPV6_ROUTES_MOST:
        return Refusal(
            f"{count} IPv6 routes; LookupIP6Route compares one by one",
            f"use {IPV6_ROUTES_MOST} or less",
        )
    return None


def configuration(table: FunctionTable, options: Mapping[str, str]) -> Elements:
    """Translate a table. Routers have no tails: they join all ports."""
    elements = Elements()
    if table.is_routed:
        elements.lines += _router(table, options["route_lookup"])
    for port in table.ports:
        k = port.index
        tail = _add_chain(elements, table, k)
        if table.is_routed:
            mine = f"m{k} :: HostEtherFilter({port.mac}, DROP_OWN false, DROP_OTHER true);"
            elements.lines += [mine, f"{tail} -> m{k} -> {_checked(table)} -> rt;"]
        else:
            elements.tails[k] = tail
    if table.mirror:
        elements.monitor = table.mirror.monitor
        elements.lines.append(f"f{elements.monitor} -> Discard;")
        if not table.mirror.copies:
            elements.lines.append(f"Idle -> t{elements.monitor};")
    return elements


def _add_chain(to: Elements, table: FunctionTable, k: int) -> str:
    """Add the elements behind a port before the base; return the last of them."""
    tail = f"f{k}"
    if table.mirror and table.mirror.copies and k == table.mirror.source:
        to.lines.append(f"mi :: Tee(2); {tail} -> mi; mi[1] -> t{table.mirror.monitor};")
        tail = "mi"
    if table.policer:
        rate, burst = table.policer.cir_bps // 8, table.policer.cbs_bytes
        to.lines.append(f"p{k} :: BandwidthRatedSplitter({rate}Bps, BURST_BYTES {burst});")
        to.lines.append(f"{tail} -> p{k}; p{k}[1] -> Discard;")
        tail = f"p{k}"
    if table.vlan and table.vlan.is_trunk(k):
        vid = table.vlan.vid
        to.lines.append(f"{tail} -> Classifier(12/8100 14/{vid:04x}%0fff) -> v{k} :: VLANDecap;")
        to.lines.append(f"g{k} :: VLANEncap(VLAN_ID {vid}, VLAN_PCP 0, NATIVE_VLAN -1) -> t{k};")
        tail, to.heads[k] = f"v{k}", f"g{k}"
    if table.rules:
        other = f"u{k}" if table.default_permit else "Discard"
        rules = ",\n".join([*map(_rule, table.rules), f"{_verdict(table.default_permit)} all"])
        to.lines.append(f"e{k} :: Classifier(12/0800, -); u{k} :: Null;")
        to.lines.append(f"a{k} :: IPFilter({rules});")
        to.lines.append(f"{tail} -> e{k} -> MarkIPHeader(14) -> a{k} -> u{k}; e{k}[1] -> {other};")
        tail = f"u{k}"
    return tail


def _verdict(permit: bool) -> str:
    return "allow" if permit else "deny"


def _rule(rule: Rule) -> str:
    """Return a rule in the language of IPFilter."""
    terms = []
    if rule.protocol in PORT_PROTOCOLS:
        terms.append(PORT_PROTOCOLS[rule.protocol])
    elif rule.protocol is not None:
        terms.append(f"ip proto {rule.protocol}")
    for side, prefix in (("src", rule.source), ("dst", rule.destination)):
        if ipaddress.ip_network(prefix).prefixlen:
            terms.append(f"{side} net {prefix}")
    for side, ports in (("src", rule.source_ports), ("dst", rule.destination_ports)):
        if ports is not None:
            low, high = ports
            if low == high:
                terms.append(f"{side} port {low}")
            else:
                terms.append(f"{side} port >= {low} && {side} port <= {high}")
    return f"{_verdict(rule.permit)} {' && '.join(terms) or 'all'}"


def _checked(table: FunctionTable) -> str:
    """Return the elements that pass IP packets to the lookup, without their Ethernet header."""
    if table.ip_version == 4:
        return "Classifier(12/0800) -> Strip(14) -> CheckIPHeader(VERBOSE false)"
    return "Classifier(12/86dd) -> Strip(14) -> CheckIP6Header() -> GetIP6Address(24)"


def _router(table: FunctionTable, lookup: str) -> Iterator[str]:
    element = ELEMENTS[lookup] if table.ip_version == 4 else "LookupIP6Route"
    yield f"rt :: {element}("
    yield ",\n".join(_routes(table)) + ");"
    macs = {port.index: port.mac for port in table.ports}
    hops = [(hop.port, hop.mac) for hop in table.next_hops]
    hops += [(port.index, port.host_mac) for port in table.ports]
    decrement = "DecIPTTL" if table.ip_version == 4 else "DecIP6HLIM"
    for number, (port, mac) in enumerate(hops):
        ttl = f"{decrement} -> " if table.decrements_ttl else ""
        yield (f"rt[{number}] -> {ttl}Unstrip(14) -> EtherRewrite({macs[port]}, {mac}) -> t{port};")


def _routes(table: FunctionTable) -> Iterator[str]:
    """Yield the routes: prefix and output. IPv6 routes have a gateway, which is not used."""
    gateway = "" if table.ip_version == 4 else " ::"
    first = len(table.next_hops)
    for number, port in enumerate(table.ports):
        yield f"{port.host}/{table.host_bits}{gateway} {first + number}"
    for network, bits, hop in table.routes or ():
        yield f"{network}/{bits}{gateway} {hop}"


def handlers(table: FunctionTable) -> Iterator[str]:
    """Yield the handlers by which the entries are read back."""
    if table.is_routed:
        yield "rt.table"
    for port in table.ports:
        if table.rules:
            yield f"a{port.index}.program"
        if table.policer:
            yield f"p{port.index}.rate"
        if table.vlan and table.vlan.is_trunk(port.index):
            yield f"g{port.index}.vlan_id"
    if table.mirror and table.mirror.copies:
        yield "mi.ports"


def read_back(answers: Mapping[str, str]) -> dict[str, int]:
    """Return the numbers of entries in the answers of `handlers`: routes of the lookup, compiled
    filters, policers with a rate, tags with a VLAN ID, and copies beside the frame itself."""

    def with_text(ending: str) -> int:
        return sum(1 for name, text in answers.items() if name.endswith(ending) and text)

    outputs = re.search(r"^(\d+) outputs?", answers.get("mi.ports", ""), re.MULTILINE)
    return {
        "routes": routes_in(answers.get("rt.table", "")),
        "filters": with_text(".program"),
        "policers": with_text(".rate"),
        "tags": with_text(".vlan_id"),
        "copies": int(outputs[1]) - 1 if outputs else 0,
    }


def routes_in(text: str) -> int:
    """Return the number of routes in the answer of a lookup's handler `table`."""
    return sum(1 for line in text.splitlines() if "/" in line)
