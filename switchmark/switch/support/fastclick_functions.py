"""Translates the neutral table of functions to Click's language.

Frames of a port pass elements before the base: `p` (policer), `a` (access list) and, for a router,
`m` (its own address) and a check of the IP header. Behind the lookup each next hop has its own
elements. Elements that a table needs and the program lacks are named when Click starts.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from switchmark.errors import Refusal
from switchmark.function.support.table import FunctionTable, Rule
from switchmark.model.capabilities import SwitchOption
from switchmark.model.functions import FunctionSupport

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
        DIRECT_ROUTES_MOST, "DirectIPLookup has room for 262,144 (RT_SIZE_MAX)"
    ),
    "acl": FunctionSupport(
        RULES_MOST, "IPFilter compiles its list while Click starts", ip_versions=(4,)
    ),
    "policer": FunctionSupport(),
}
NOT_BUILT: Mapping[str, str] = {
    "vlan": "it is not translated yet",
    "mirror": "it is not translated yet",
    "vxlan": "FastClick has no element for it",
}
_PROTOCOLS = {6: "tcp", 17: "udp"}


def refusal(table: FunctionTable) -> Refusal | None:
    """Return why FastClick cannot express this table; None if it can."""
    count = len(table.routes or ())
    if table.is_routed and table.ip_version == 6 and count > IPV6_ROUTES_MOST:
        return Refusal(
            f"fastclick: {count} IPv6 routes; LookupIP6Route compares one by one",
            f"use {IPV6_ROUTES_MOST} or less",
        )
    return None


def configuration(
    table: FunctionTable, options: Mapping[str, str]
) -> tuple[list[str], dict[int, str]]:
    """Return the elements between those of the ports, and the element from which the frames of
    each port go on; none for a router, which joins all ports."""
    lines, tails = [], {}
    for port in table.ports:
        k = port.index
        chain, tails[k] = _chain(table, k)
        lines += chain
        if table.is_routed:
            lines.append(f"m{k} :: HostEtherFilter({port.mac}, DROP_OWN false, DROP_OTHER true);")
            lines.append(f"{tails[k]} -> m{k} -> {_checked(table)} -> rt;")
    if not table.is_routed:
        return lines, tails
    return [*_router(table, options["route_lookup"]), *lines], {}


def _chain(table: FunctionTable, k: int) -> tuple[list[str], str]:
    """Return the elements behind a port before the base, and the last of them."""
    lines, tail = [], f"f{k}"
    if table.policer:
        rate, burst = table.policer.cir_bps // 8, table.policer.cbs_bytes
        lines.append(f"p{k} :: BandwidthRatedSplitter({rate}Bps, BURST_BYTES {burst});")
        lines.append(f"{tail} -> p{k}; p{k}[1] -> Discard;")
        tail = f"p{k}"
    if table.rules:
        other = f"u{k}" if table.default_permit else "Discard"
        rules = ",\n".join([*map(_rule, table.rules), f"{_verdict(table.default_permit)} all"])
        lines.append(f"e{k} :: Classifier(12/0800, -); u{k} :: Null;")
        lines.append(f"a{k} :: IPFilter({rules});")
        lines.append(f"{tail} -> e{k} -> MarkIPHeader(14) -> a{k} -> u{k}; e{k}[1] -> {other};")
        tail = f"u{k}"
    return lines, tail


def _verdict(permit: bool) -> str:
    return "allow" if permit else "deny"


def _rule(rule: Rule) -> str:
    """Return a rule in the language of IPFilter."""
    terms = []
    if rule.protocol in _PROTOCOLS:
        terms.append(_PROTOCOLS[rule.protocol])
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


def announced(table: FunctionTable) -> dict[str, int]:
    """Return the numbers of native entries, by table."""
    numbers = {}
    if table.is_routed:
        numbers["routes"] = len(table.routes or ()) + len(table.ports)
    if table.rules:
        numbers["filters"] = len(table.ports)
    if table.policer:
        numbers["policers"] = len(table.ports)
    return numbers


def handlers(table: FunctionTable) -> Iterator[str]:
    """Yield the handlers by which the entries are read back."""
    if table.is_routed:
        yield "rt.table"
    for port in table.ports:
        if table.rules:
            yield f"a{port.index}.program"
        if table.policer:
            yield f"p{port.index}.rate"


def read_back(answers: Mapping[str, str]) -> dict[str, int]:
    """Return the numbers of entries in the answers of `handlers`: routes of the lookup, compiled
    filters, policers with a rate."""
    return {
        "routes": routes_in(answers.get("rt.table", "")),
        "filters": sum(1 for name, text in answers.items() if name.endswith("program") and text),
        "policers": sum(1 for name, text in answers.items() if name.endswith("rate") and text),
    }


def routes_in(text: str) -> int:
    """Return the number of routes in the answer of a lookup's handler `table`."""
    return sum(1 for line in text.splitlines() if "/" in line)
