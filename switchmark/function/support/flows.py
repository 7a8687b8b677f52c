"""The flows of the load: tuples that the function passes, with the expected next hop of each, and
tuples that it must drop. Both come from the neutral table."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from switchmark.errors import UsageError
from switchmark.function.support.prefixes import inside, longest_match
from switchmark.function.support.table import UDP, FunctionTable, Rule

if TYPE_CHECKING:
    import numpy as np

# Sources of the load (RFC 2544, RFC 5180), and destinations if the base is `forward`.
SOURCES = {4: "198.18.0.0/15", 6: "2001:2::/48"}
DESTINATIONS = {4: "172.16.0.0/12", 6: "2001:2:0:f000::/52"}
SOURCE_PORT, LOAD_PORT = 17000, 17001
PERMITTED_PORT = 30000  # first destination port of permits that are spread over a list
DENIED_PORT = 20000  # first destination port of generated denials
NO_HOP = 0xFFFF
UNKNOWN_FLOWS = 20  # in a tunnel that the switch does not have
SAMPLE = 100  # flows that are compared with a user's list


@dataclass(frozen=True, slots=True)
class FlowRows:
    """The tuples of flows, one row each, and the number of the expected next hop (`NO_HOP`: the
    function does not change addresses)."""

    sources: np.ndarray
    destinations: np.ndarray
    source_ports: np.ndarray
    destination_ports: np.ndarray
    hops: np.ndarray
    tunnels: np.ndarray

    def __len__(self) -> int:
        return len(self.hops)

    def reversed(self) -> FlowRows:
        """Return the flows that go the other way."""
        return replace(
            self,
            sources=self.destinations,
            destinations=self.sources,
            source_ports=self.destination_ports,
            destination_ports=self.source_ports,
        )

    def to_bytes(self) -> bytes:
        """Return the rows as the engine's `table` command has them: source, destination, source
        port, destination port, next hop, tunnel, in network byte order."""
        import numpy as np

        numbers = (self.source_ports, self.destination_ports, self.hops, self.tunnels)
        columns = [np.ascontiguousarray(n.astype(">u2")).view(np.uint8).reshape(-1, 2)
                   for n in numbers]  # fmt: skip
        return np.concatenate([self.sources, self.destinations, *columns], axis=1).tobytes()


def load_flows(table: FunctionTable, count: int, egress: Collection[int], seed: int) -> FlowRows:
    """Return `count` flows that the function passes to one of the ports `egress`."""
    import numpy as np

    generator = np.random.default_rng([seed, 1])
    numbers = np.arange(count)
    sources = _counted(SOURCES[table.ip_version], numbers + 2)
    source_ports = np.full(count, SOURCE_PORT)
    if table.is_routed:
        destinations, hops = _routed_destinations(table, count, egress, generator)
    else:
        destinations = _counted(DESTINATIONS[table.ip_version], generator.permutation(count) + 1)
        hops = np.full(count, NO_HOP)
    ports = np.full(count, LOAD_PORT)
    spread = [
        rule.destination_ports[0]
        for rule in table.rules
        if rule.permit and rule.destination_ports is not None
    ]
    if spread:
        ports = np.array(spread)[generator.permutation(count) % len(spread)]
    if "rules_file" in table.extra:
        _check_permitted(table, sources, destinations)
    tunnels = numbers % len(table.tunnels) if table.tunnels else np.zeros(count, int)
    return FlowRows(sources, destinations, source_ports, ports, hops, tunnels)


def _check_permitted(table: FunctionTable, sources: np.ndarray, destinations: np.ndarray) -> None:
    """Raise UsageError if a user's list denies flows of the load; a sample is checked."""
    for source, destination in zip(sources[:SAMPLE], destinations[:SAMPLE], strict=True):
        texts = str(_address(source)), str(_address(destination))
        if not verdict(table, *texts, SOURCE_PORT, LOAD_PORT):
            raise UsageError(
                f"rules_file: its rules deny a flow of the load, from {texts[0]} to {texts[1]}",
                remedy=f"let it permit UDP from {SOURCES[table.ip_version]} to port {LOAD_PORT}",
            )


def _address(row: np.ndarray) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(row.tobytes())


def _routed_destinations(
    table: FunctionTable, count: int, egress: Collection[int], generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    import numpy as np

    routes = table.routes
    assert routes is not None
    leaves_by = np.array([hop.port for hop in table.next_hops])
    to_egress = np.isin(leaves_by[routes.hops], list(egress))
    usable = generator.permutation(np.flatnonzero(to_egress))
    chosen = usable[np.arange(count) % len(usable)]
    destinations = inside(routes, chosen, generator)
    hops = routes.hops[longest_match(routes, destinations)].astype(np.int64)
    # A longer prefix behind another port can lie in a route: such flows take over a right one.
    right = np.flatnonzero(np.isin(leaves_by[hops], list(egress)))
    wrong = np.flatnonzero(~np.isin(leaves_by[hops], list(egress)))
    assert len(right), "some route leads to each port"
    substitutes = right[np.arange(len(wrong)) % len(right)]
    destinations[wrong], hops[wrong] = destinations[substitutes], hops[substitutes]
    return destinations, hops


def denied_flows(table: FunctionTable, count: int) -> FlowRows | None:
    """Return up to `count` flows that the function must drop; None if it drops no flow."""
    import numpy as np

    denials = [rule for rule in table.rules if not rule.permit]
    if not denials:
        return _without_tunnel(table, count) if table.tunnels else None
    chosen = [denials[round(k * (len(denials) - 1) / max(1, count - 1))] for k in range(count)]
    chosen = list(dict.fromkeys(chosen))
    number = len(chosen)
    return FlowRows(
        np.array([_first(rule.source) for rule in chosen], np.uint8),
        np.array([_first(rule.destination) for rule in chosen], np.uint8),
        np.array([_port(rule.source_ports, SOURCE_PORT) for rule in chosen]),
        np.array([_port(rule.destination_ports, LOAD_PORT) for rule in chosen]),
        np.full(number, NO_HOP),
        np.zeros(number, int),
    )


def _without_tunnel(table: FunctionTable, count: int) -> FlowRows:
    """Return flows in the unknown tunnel of the table, which has the number behind the last."""
    import numpy as np

    numbers = np.arange(min(count, UNKNOWN_FLOWS))
    return FlowRows(
        _counted(SOURCES[table.ip_version], numbers + 2),
        _counted(DESTINATIONS[table.ip_version], numbers + 1),
        np.full(len(numbers), SOURCE_PORT),
        np.full(len(numbers), LOAD_PORT),
        np.full(len(numbers), NO_HOP),
        np.full(len(numbers), len(table.tunnels)),
    )


def verdict(
    table: FunctionTable, source: str, destination: str, source_port: int, destination_port: int
) -> bool:
    """Return True if the access control list permits a UDP frame: the first matching rule
    decides."""
    for rule in table.rules:
        if matches(rule, source, destination, source_port, destination_port):
            return rule.permit
    return table.default_permit


def matches(
    rule: Rule, source: str, destination: str, source_port: int, destination_port: int
) -> bool:
    """Return True if a rule matches a UDP frame."""
    # Ports first: they tell most rules apart, and prefixes take far longer.
    return (
        rule.protocol in (None, UDP)
        and _within(source_port, rule.source_ports)
        and _within(destination_port, rule.destination_ports)
        and ipaddress.ip_address(source) in ipaddress.ip_network(rule.source)
        and ipaddress.ip_address(destination) in ipaddress.ip_network(rule.destination)
    )


def _within(port: int, ports: tuple[int, int] | None) -> bool:
    return ports is None or ports[0] <= port <= ports[1]


def _port(ports: tuple[int, int] | None, usual: int) -> int:
    return usual if ports is None else ports[0]


def _first(prefix: str) -> list[int]:
    return list(ipaddress.ip_network(prefix).network_address.packed)


def _counted(prefix: str, numbers: np.ndarray) -> np.ndarray:
    """Return the addresses of these numbers in a prefix, which begin again at its end."""
    import numpy as np

    network = ipaddress.ip_network(prefix)
    base = network.network_address.packed
    bits = min(32, network.max_prefixlen - network.prefixlen)
    low = int.from_bytes(base[-4:]) + numbers % (2**bits - 2)
    rows = np.tile(np.frombuffer(base, np.uint8), (len(numbers), 1))
    rows[:, -4:] = low.astype(">u4").reshape(-1, 1).view(np.uint8).reshape(-1, 4)
    return rows
