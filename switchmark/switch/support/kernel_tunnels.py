"""The tunnels of the neutral table as VXLAN devices of a Linux bridge.

Each tunnel is a device, and a port of the bridge, with a static entry for the station behind it.
The underlay port is not a member of the bridge. Its address is the local end of the tunnels."""

from __future__ import annotations

from collections.abc import Iterator

from switchmark.function.support.table import FunctionTable, Tunnel
from switchmark.function.support.wire import VXLAN_PORT
from switchmark.host.kernel import namespaces
from switchmark.host.kernel.device_settings import disable_offloads
from switchmark.model.functions import OUTER_BYTES
from switchmark.switch.support.kernel_routes import settings_of, write_settings
from switchmark.switch.support.private import Namespace

DEVICES, ENTRIES = "vxlan devices", "static bridge entries"
CLOSED = "learning off flood off mcast_flood off bcast_flood off"
LOAD_TIMEOUT_S = 300.0


def device_name(number: int) -> str:
    """Return the name of the device of a tunnel."""
    return f"vx{number}"


def underlay_lines(table: FunctionTable, underlay: str, mtu_bytes: int) -> Iterator[str]:
    """Yield lines of `ip` that give the underlay port its address, and a neighbour for the remote
    end."""
    first = table.tunnels[0]
    prefix = table.ports[table.underlay_port].address.partition("/")[2]
    no_detection = " nodad" if table.ip_version == 6 else ""
    yield f"link set dev {underlay} address {first.local_mac}"
    yield f"link set dev {underlay} mtu {mtu_bytes + OUTER_BYTES[table.ip_version]}"
    yield f"address add {first.local}/{prefix} dev {underlay}{no_detection}"
    remote = {(tunnel.remote, tunnel.remote_mac) for tunnel in table.tunnels}
    for address, mac in sorted(remote):
        yield f"neighbor replace {address} lladdr {mac} dev {underlay} nud permanent"


def tunnel_lines(
    number: int, tunnel: Tunnel, bridge: str, underlay: str, mtu_bytes: int
) -> Iterator[str]:
    """Yield lines of `ip` that make the device of a tunnel, as a port of the bridge."""
    name = device_name(number)
    # An outer checksum of 0 is the recommendation of RFC 7348; IPv6 demands a right one.
    checksum = " noudpcsum" if ":" not in tunnel.local else ""
    yield (
        f"link add {name} mtu {mtu_bytes} type vxlan id {tunnel.vni} local {tunnel.local} "
        f"remote {tunnel.remote} dstport {VXLAN_PORT} dev {underlay} nolearning{checksum}"
    )
    yield f"link set dev {name} master {bridge}"
    yield f"link set dev {name} type bridge_slave {CLOSED}"
    yield f"link set dev {name} up"


def entry_lines(table: FunctionTable, access: str) -> Iterator[str]:
    """Yield lines of `bridge` with a static entry for each station, and for the tester at the
    access port."""
    yield f"fdb replace {table.ports[table.access_port].host_mac} dev {access} master static"
    for number, tunnel in enumerate(table.tunnels):
        yield f"fdb replace {tunnel.station_mac} dev {device_name(number)} master static"


def load(
    namespace: Namespace,
    table: FunctionTable,
    bridge: str,
    devices: tuple[str, str],
    mtu_bytes: int,
) -> None:
    """Make everything; `devices` are the access port and the underlay port."""
    access, underlay = devices
    write_settings(namespace, settings_of([underlay], table.ip_version, forwards=False))
    # Checksums of outer headers must be in the frame, since the tester compares it.
    namespaces.inside(namespace.name, lambda: disable_offloads(underlay))
    lines = [*underlay_lines(table, underlay, mtu_bytes), f"link set dev {bridge} mtu {mtu_bytes}",
             f"link set dev {access} master {bridge}",
             f"link set dev {access} type bridge_slave {CLOSED}"]  # fmt: skip
    for number, tunnel in enumerate(table.tunnels):
        lines += tunnel_lines(number, tunnel, bridge, underlay, mtu_bytes)
    namespace.batch("ip", [*lines, f"link set dev {bridge} up"])
    namespace.batch("bridge", list(entry_lines(table, access)))


def announced(table: FunctionTable) -> dict[str, int]:
    """Return the number of native entries by table."""
    return {DEVICES: len(table.tunnels), ENTRIES: len(table.tunnels) + 1}


def read_back(namespace: Namespace, bridge: str, table: FunctionTable) -> dict[str, int]:
    """Return what the kernel has: devices with a VNI of the table, and static entries of it."""
    links = namespace.query("ip", "-d", "link", "show", "type", "vxlan")
    vnis = [link["linkinfo"]["info_data"]["id"] for link in links]
    addresses = {tunnel.station_mac for tunnel in table.tunnels}
    addresses.add(table.ports[table.access_port].host_mac)
    entries = namespace.query("bridge", "fdb", "show", "br", bridge)
    static = {e["mac"] for e in entries if e.get("state") == "static" and e["mac"] in addresses}
    known = {tunnel.vni for tunnel in table.tunnels}
    return {DEVICES: sum(vni in known for vni in vnis), ENTRIES: len(static)}
