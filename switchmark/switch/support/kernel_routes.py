"""The routing table of the neutral table as that of the kernel, loaded by netlink.

Neighbours are static. A frame without a route meets a blackhole in a second table, so that the
kernel answers no frame by ICMP.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from switchmark.errors import TrialFailed, UnavailableError
from switchmark.function.support.table import FunctionTable
from switchmark.host.kernel import namespaces
from switchmark.host.kernel.routes import count_routes, route_messages, send_routes
from switchmark.model.changes import TableChange
from switchmark.switch.support.changes import spare_route
from switchmark.switch.support.private import Namespace

if TYPE_CHECKING:
    import numpy as np

MAIN = "routes of the main table"
# By directory of a device or of all: reverse-path filter and redirects off.
IPV4_SETTINGS = {"rp_filter": "0", "send_redirects": "0", "accept_redirects": "0"}
IPV6_SETTINGS = {
    "accept_ra": "0", "accept_dad": "0", "router_solicitations": "0", "addr_gen_mode": "1",
    "autoconf": "0",
}  # fmt: skip


def settings_of(
    devices: Sequence[str], ip_version: int, *, forwards: bool = True
) -> Iterator[tuple[str, str]]:
    """Yield the kernel settings of a router, or of a host that forwards nothing, as paths below
    /proc/sys/net and values."""
    if ip_version == 4:
        for device in ("all", "default", *devices):
            for key, value in IPV4_SETTINGS.items():
                yield f"ipv4/conf/{device}/{key}", value
        yield "ipv4/ip_forward", str(int(forwards))
        return
    for device in devices:
        for key, value in IPV6_SETTINGS.items():
            yield f"ipv6/conf/{device}/{key}", value
    yield "ipv6/conf/all/disable_ipv6", "0"
    for device in devices:
        yield f"ipv6/conf/{device}/disable_ipv6", "0"
    yield "ipv6/conf/all/forwarding", str(int(forwards))


def write_settings(namespace: Namespace, settings: Iterator[tuple[str, str]]) -> None:
    """Write kernel settings inside a namespace. Raises `UnavailableError`."""

    def write() -> None:
        for path, value in settings:
            with suppress(FileNotFoundError):  # kernel versions differ in their settings
                Path("/proc/sys/net", path).write_text(value + "\n")

    try:
        namespaces.inside(namespace.name, write)
    except OSError as error:
        raise UnavailableError(
            f"kernel settings of a router cannot be written: {error}",
            remedy="run where /proc/sys is writable, on the host for example",
        ) from None


def address_lines(table: FunctionTable, devices: Mapping[int, str]) -> Iterator[str]:
    """Yield lines of `ip` that give the ports their addresses, and make all neighbours."""
    no_detection = " nodad" if table.ip_version == 6 else ""
    for port in table.ports:
        device = devices[port.index]
        yield f"link set dev {device} address {port.mac}"
        yield f"address add {port.address} dev {device}{no_detection}"
        yield f"neighbor replace {port.host} lladdr {port.host_mac} dev {device} nud permanent"
    for hop in table.next_hops:
        device = devices[hop.port]
        yield f"neighbor replace {hop.address} lladdr {hop.mac} dev {device} nud permanent"


def host_lines(table: FunctionTable, devices: Mapping[int, str]) -> Iterator[str]:
    """Yield lines of `ip` for the hosts of the ports, and for the end of all frames without a
    route."""
    metric = " metric 1" if table.ip_version == 6 else ""
    yield f"route add blackhole default table default{metric}"
    for port in table.ports:
        yield f"route add {port.host}/{table.host_bits} dev {devices[port.index]}"


@dataclass(frozen=True, slots=True)
class RouteLoad:
    """The routes of a neutral table for the kernel: lines of `ip` for the hosts of the ports,
    and messages for all others."""

    namespace: Namespace
    version: str  # option of `ip`
    lines: Sequence[str]
    messages: Sequence[bytes]

    @classmethod
    def of(
        cls, namespace: Namespace, table: FunctionTable, devices: Mapping[int, str]
    ) -> RouteLoad:
        """Translate the neutral table; the devices are there."""
        routes = table.routes
        messages = [] if routes is None else messages_of(
            namespace, table, devices, routes.networks, routes.lengths, routes.hops
        )  # fmt: skip
        lines = list(host_lines(table, devices))
        return cls(namespace, f"-{table.ip_version}", lines, messages)

    def load(self) -> None:
        """Load the routes; the addresses are there. Raises `TrialFailed`."""
        self.namespace.batch("ip", self.lines, options=[self.version])
        send(self.namespace, self.messages)


def messages_of(
    namespace: Namespace,
    table: FunctionTable,
    devices: Mapping[int, str],
    networks: np.ndarray,
    lengths: np.ndarray,
    hops: np.ndarray,
    *,
    remove: bool = False,
) -> list[bytes]:
    """Return the messages that add, or remove, routes by next hops of the table."""
    import numpy as np

    def numbers() -> list[int]:
        return [socket.if_nametoindex(devices[hop.port]) for hop in table.next_hops]

    packed = b"".join(ipaddress.ip_address(hop.address).packed for hop in table.next_hops)
    gateways = np.frombuffer(packed, np.uint8).reshape(-1, table.address_bytes)
    device_numbers = np.array(namespaces.inside(namespace.name, numbers), np.uint32)
    return route_messages(networks, lengths, gateways[hops], device_numbers[hops], remove=remove)


def send(namespace: Namespace, messages: Sequence[bytes]) -> None:
    """Send messages of routes to the kernel. Raises `TrialFailed`."""
    try:
        send_routes(namespace.name, messages)
    except OSError as error:
        raise TrialFailed(f"the kernel does not take the routes: {error}") from None


def route_changes(
    namespace: Namespace, table: FunctionTable, devices: Mapping[int, str]
) -> TableChange:
    """Return the changes under load, by spare routes."""
    import numpy as np

    def change(first: int, end: int, *, remove: bool) -> None:
        texts = [spare_route(table, number) for number in range(first, end)]
        packed = b"".join(ipaddress.ip_address(text).packed for text in texts)
        networks = np.frombuffer(packed, np.uint8).reshape(len(texts), -1)
        lengths, hops = np.full(len(texts), table.host_bits), np.zeros(len(texts), int)
        send(namespace, messages_of(
            namespace, table, devices, networks, lengths, hops, remove=remove
        ))  # fmt: skip

    return TableChange(
        "routes",
        partial(change, remove=False),
        partial(change, remove=True),
        lambda: routes_read_back(namespace, table.ip_version),
    )


def announced_routes(table: FunctionTable) -> int:
    """Return the number of routes of the main table: hosts, routes, and a network at each port,
    which comes with the port's address."""
    return 2 * len(table.ports) + len(table.routes or ())


def routes_read_back(namespace: Namespace, ip_version: int) -> int:
    """Return the number of routes that the kernel has. Raises `TrialFailed`."""
    try:
        return count_routes(namespace.name, ip_version)
    except OSError as error:
        raise TrialFailed(f"the kernel's routes cannot be counted: {error}") from None
