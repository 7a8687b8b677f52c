"""`route`: IP forwarding by the longest matching prefix (RFC 1812, RFC 8200).

The frame is sent to the switch's own MAC address at the port where it enters. It leaves with the
MAC addresses of the egress port and of the next hop, a TTL or hop limit less by 1, and otherwise
unchanged. A frame without a route, or whose TTL would become 0, is dropped.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import replace

from switchmark.errors import Refusal
from switchmark.function.support.files import read_routes, usage_problems
from switchmark.function.support.frames import routed
from switchmark.function.support.functions import Case, Passing
from switchmark.function.support.prefixes import (
    draw_routes,
    inside,
    longest_match,
    masks,
    most_routes,
)
from switchmark.function.support.samples import load_frame
from switchmark.function.support.table import FunctionTable, next_hops
from switchmark.model.trial import Trial

RANDOM_ROUTES = 30  # that the proof tries, beside the first and the last


class Route:
    """Longest-prefix match over a table of routes."""

    name = "route"
    meaning = "IP forwarding by the longest matching prefix; MACs are rewritten, TTL less 1"
    keys = ("routes", "prefix_length", "routes_file")
    scale_key: str | None = "routes"
    unit = "routes"
    filters = False

    def refusals(self, trial: Trial) -> Iterator[Refusal]:
        """Prefix lengths that the IP version does not have, or that have too few prefixes."""
        bits, version = trial.prefix_length.bits, trial.ip_version
        if trial.routes_file:
            if trial.routes != 1 or bits is not None:
                yield Refusal(
                    "the file has the routes and their lengths",
                    "leave routes and prefix_length out",
                    key="routes_file",
                )
            yield from usage_problems(
                lambda: read_routes(trial.routes_file, [[0, 1]], version), "routes_file"
            )
            return
        low, high = (8, 32) if version == 4 else (16, 128)
        if bits is not None and not low <= bits <= high:
            yield Refusal(
                f"{bits} is not a prefix length of IPv{version} from {low} to {high}",
                "change it, or ip_version",
                key="prefix_length",
            )
            return
        receiving = trial.pairs * (2 if trial.bidirectional else 1)
        if trial.routes < receiving:
            yield Refusal(
                f"{trial.routes} is below the number of ports that receive, {receiving}",
                f"use {receiving} or more",
                key="routes",
            )
        most = most_routes(bits, version)
        if trial.routes > most:
            yield Refusal(
                f"{trial.routes} is above {most}, the most routes that are drawn with "
                f"prefix_length {trial.prefix_length}",
                f"use {most} or less, or longer prefixes",
                key="routes",
            )

    def fill(self, table: FunctionTable, trial: Trial) -> FunctionTable:
        """Draw the routes; they lead to the ports that receive, in turn."""
        hops = [
            hop
            for port in table.ports
            for hop in next_hops(port.index, 2 * port.index, table.ip_version)
        ]
        receiving = [p.index for p in table.ports if p.index % 2 or trial.bidirectional]
        by_port = [[hop.index for hop in hops if hop.port == port] for port in receiving]
        if trial.routes_file:
            routes = read_routes(trial.routes_file, by_port, table.ip_version)
            return replace(table, next_hops=tuple(hops), routes=routes)
        routes = draw_routes(
            trial.routes, trial.prefix_length.bits, table.ip_version, by_port, table.seed
        )
        return replace(table, next_hops=tuple(hops), routes=routes)

    def apply(self, table: FunctionTable, passing: Passing) -> Passing | None:
        """Look up the destination: the hosts of the ports first, since their prefixes are the
        longest."""
        frame = passing.frame
        if frame.destination_mac != table.ports[passing.ingress].mac or frame.ttl <= 1:
            return None
        decrement = int(table.decrements_ttl)
        for port in table.ports:
            if frame.destination == port.host:
                changed = routed(frame, port.mac, port.host_mac, decrement)
                return replace(passing, frame=changed, egress=port.index)
        number = _lookup(table, frame.destination)
        if number < 0:
            return None
        assert table.routes is not None
        hop = table.next_hops[int(table.routes.hops[number])]
        changed = routed(frame, table.ports[hop.port].mac, hop.mac, decrement)
        return replace(passing, frame=changed, egress=hop.port)

    def cases(self, table: FunctionTable) -> Iterator[Case]:
        """Yield frames into the first, the last and random routes, into every nested pair up to a
        number, to the hosts, to no route, and with a TTL of 1."""
        import numpy as np

        routes = table.routes
        assert routes is not None
        generator = np.random.default_rng([table.seed, 2])
        count = len(routes)
        drawn = generator.integers(0, count, min(count, RANDOM_ROUTES))
        chosen = np.unique(np.concatenate([[0, count - 1], drawn, _nested(table)]).astype(np.int64))
        for number, row in zip(chosen, inside(routes, chosen, generator), strict=True):
            destination = str(ipaddress.ip_address(row.tobytes()))
            network = ipaddress.ip_address(routes.networks[number].tobytes())
            yield Case(
                f"a frame to {destination}, in {network}/{routes.lengths[number]}",
                _towards(table, destination),
            )
        for port in table.ports:
            yield Case(f"a frame to the tester of port {port.index}", load_frame(
                table, port.index ^ 1, destination=port.host))  # fmt: skip
        destination = _routed_destination(table)
        yield Case("a frame with DSCP 46", _towards(table, destination, dscp=46))
        yield Case("a frame with TTL 2", _towards(table, destination, ttl=2))
        yield Case("a frame with TTL 1, which must be dropped",
                   _towards(table, destination, ttl=1))  # fmt: skip
        if (unrouted := _unrouted(table)) is not None:
            yield Case("a frame without a route, which must be dropped",
                       _towards(table, unrouted))  # fmt: skip


def _towards(table: FunctionTable, destination: str, *, ttl: int = 64, dscp: int = 0) -> Passing:
    """Return a frame of the load to a destination that enters by the peer of the port by which it
    leaves."""
    number = _lookup(table, destination)
    ingress = 0
    if number >= 0:
        assert table.routes is not None
        ingress = table.next_hops[int(table.routes.hops[number])].port ^ 1
    return load_frame(table, ingress, destination=destination, ttl=ttl, dscp=dscp)


def _lookup(table: FunctionTable, destination: str) -> int:
    """Return the number of the longest matching route; -1 if there is none."""
    import numpy as np

    assert table.routes is not None
    packed = ipaddress.ip_address(destination).packed
    return int(longest_match(table.routes, np.frombuffer(packed, np.uint8)[None, :])[0])


def _nested(table: FunctionTable) -> list[int]:
    """Return numbers of routes inside other routes that have another next hop."""
    import numpy as np

    routes = table.routes
    assert routes is not None
    # A route is inside another if its network, seen as an address, matches a shorter prefix too.
    longer = np.flatnonzero(routes.lengths > routes.lengths.min())[:20_000]
    if not len(longer):
        return []
    found: list[int] = []
    shorter = np.flatnonzero(routes.lengths < routes.lengths.max())
    width = routes.networks.shape[1]
    by_prefix = {
        (int(routes.lengths[k]), routes.networks[k].tobytes()): int(k) for k in shorter[:50_000]
    }
    lengths = sorted({int(routes.lengths[k]) for k in shorter})
    for number in longer:
        for bits in lengths:
            if bits >= routes.lengths[number]:
                break
            key = (bits, (routes.networks[number] & masks(width)[bits]).tobytes())
            outer = by_prefix.get(key)
            if outer is not None and routes.hops[outer] != routes.hops[number]:
                found += [int(number), outer]
        if len(found) >= 2 * RANDOM_ROUTES:
            break
    return found


def _routed_destination(table: FunctionTable) -> str:
    assert table.routes is not None
    return str(ipaddress.ip_address(table.routes.networks[0].tobytes()))


def _unrouted(table: FunctionTable) -> str | None:
    """Return an address without a route; None if none was found soon."""
    candidates = (
        [f"203.0.{k}.77" for k in range(256)]
        if table.ip_version == 4
        else [f"3fff:{k:x}::77" for k in range(256)]
    )
    return next((one for one in candidates if _lookup(table, one) < 0), None)


FUNCTION = Route()
