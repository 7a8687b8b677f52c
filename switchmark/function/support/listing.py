"""A neutral table as text, as it is stored with a run."""

from __future__ import annotations

from collections.abc import Iterator

from switchmark.function.support.table import FunctionTable, Rule


def lines_of(table: FunctionTable) -> Iterator[str]:
    """Yield the lines of a table: a word for the kind of the entry, then its values. Rules stand in
    the order of their evaluation."""
    yield f"functions {'+'.join(table.functions)}"
    yield f"ip_version {table.ip_version}"
    for port in table.ports:
        yield f"port {port.index} {port.mac} {port.address}"
        yield f"host {port.host}/{table.host_bits} port {port.index} {port.host_mac}"
    for hop in table.next_hops:
        yield f"next-hop {hop.index} port {hop.port} {hop.mac} {hop.address}"
    for network, bits, number in table.routes or ():
        yield f"route {network}/{bits} next-hop {number}"
    for rule in table.rules:
        yield f"rule {_rule(rule)}"
    if table.has_acl:
        yield f"default {'permit' if table.default_permit else 'deny'}"
    for tunnel in table.tunnels:
        ends = f"{tunnel.local} {tunnel.remote} {tunnel.remote_mac}"
        yield f"tunnel {tunnel.vni} {ends} station {tunnel.station_mac}"
    for name in ("vlan", "policer", "mirror"):
        if (value := getattr(table, name)) is not None:
            yield f"{name} {value}"
    for name, value in table.extra.items():
        yield f"{name} {value}"


def _rule(rule: Rule) -> str:
    ports = ["any" if ports is None else f"{ports[0]}-{ports[1]}" for ports in rule.ports]
    protocol = "any" if rule.protocol is None else str(rule.protocol)
    verdict = "permit" if rule.permit else "deny"
    return ", ".join([verdict, rule.source, rule.destination, protocol, *ports])
