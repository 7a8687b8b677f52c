"""The routing table of the neutral table as that of the kernel, loaded by `ip -batch`.

Neighbours are static. A frame without a route meets a blackhole in a second table, so that the
kernel answers no frame by ICMP.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from switchmark.errors import TrialFailed, UnavailableError
from switchmark.function.support.table import FunctionTable, NextHop
from switchmark.host.kernel import namespaces
from switchmark.host.kernel.routes import count_routes
from switchmark.model.changes import Change
from switchmark.switch.support.changes import RULES
from switchmark.switch.support.private import Namespace

LINES_A_BATCH = 100_000
LOAD_TIMEOUT_S = 300.0
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
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


def route_lines(table: FunctionTable, devices: Mapping[int, str]) -> Iterator[str]:
    """Yield lines of `ip` for the hosts, then for the routes."""
    for port in table.ports:
        yield f"route add {port.host}/{table.host_bits} dev {devices[port.index]}"
    routes = table.routes
    if routes is None:
        return
    family = FAMILIES[table.ip_version]
    ends = [_way(hop, devices[hop.port]) for hop in table.next_hops]
    rows = routes.networks.tobytes()
    width = table.address_bytes
    for number, (bits, hop) in enumerate(
        zip(routes.lengths.tolist(), routes.hops.tolist(), strict=True)
    ):
        network = socket.inet_ntop(family, rows[number * width : (number + 1) * width])
        yield f"route add {network}/{bits}{ends[hop]}"


def _way(hop: NextHop, device: str) -> str:
    return f" via {hop.address} dev {device}"


def load_routes(namespace: Namespace, table: FunctionTable, devices: Mapping[int, str]) -> None:
    """Load the routes; the addresses are there."""
    version = f"-{table.ip_version}"
    silent = [f"route add blackhole default table default{' metric 1' * (version == '-6')}"]
    batch: list[str] = silent
    for line in route_lines(table, devices):
        batch.append(line)
        if len(batch) == LINES_A_BATCH:
            _run(namespace, version, batch)
            batch = []
    _run(namespace, version, batch)


def _run(namespace: Namespace, version: str, lines: Sequence[str]) -> None:
    namespace.session.host.run(
        ["ip", version, "-n", namespace.name, "-batch", "-"],
        input_text="\n".join(lines) + "\n",
        timeout_s=LOAD_TIMEOUT_S,
    )


def route_changes(
    namespace: Namespace, table: FunctionTable, devices: Mapping[int, str]
) -> list[Change]:
    """Return changes under load: routes to single addresses that the load does not use."""
    start = "203.0.0.0" if table.ip_version == 4 else "3fff::"
    first = ipaddress.ip_address(start)
    hop = table.next_hops[0]
    version = f"-{table.ip_version}"
    targets = [f"{first + number}/{table.host_bits}" for number in range(RULES)]
    add = [f"route add {target}{_way(hop, devices[hop.port])}" for target in targets]
    remove = [f"route del {target}" for target in targets]
    return [
        Change(f"{RULES} routes added", lambda: _run(namespace, version, add)),
        Change(f"{RULES} routes removed", lambda: _run(namespace, version, remove)),
    ]


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
