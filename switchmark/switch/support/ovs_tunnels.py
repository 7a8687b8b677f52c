"""VXLAN tunnels of Open vSwitch in user space: a bridge for the underlay port beside the bridge of
the access port, joined by a port of type `vxlan`.

The device of the underlay bridge has the address of the tunnels' local end. Open vSwitch puts a
frame into a tunnel by its own tables of addresses, routes and neighbours; the neighbour is static.
"""

from __future__ import annotations

from collections.abc import Iterator

from switchmark.function.support.table import FunctionTable
from switchmark.function.support.wire import VXLAN_PORT
from switchmark.switch.support.ovs_instance import OvsInstance, option
from switchmark.switch.support.ovs_rules import openflow_port

UNDERLAY_PORT = 1  # number of the underlay port in its bridge


def tunnel_entries(table: FunctionTable) -> Iterator[str]:
    """Yield two entries for each tunnel: into it by the MAC address of its station, and out of it
    by its VNI."""
    access, tunnels = openflow_port(table.access_port), openflow_port(table.underlay_port)
    for tunnel in table.tunnels:
        into = f"set_field:{tunnel.vni}->tun_id,output:{tunnels}"
        yield f"in_port={access},dl_dst={tunnel.station_mac},actions={into}"
        yield f"in_port={tunnels},tun_id={tunnel.vni},actions=output:{access}"


def bridge_of(instance: OvsInstance) -> str:
    """Return the name of the underlay bridge."""
    return f"{instance.bridge}u"


def tunnel_commands(
    instance: OvsInstance, table: FunctionTable, datapath: str, device: str, columns: list[str]
) -> list[list[str]]:
    """Return the commands of `ovs-vsctl` that make the underlay bridge with the underlay port, and
    the port of type `vxlan`."""
    bridge, tunnel = bridge_of(instance), table.tunnels[0]
    port = f"sm{instance.session.id}vx"
    columns_of_tunnel = [
        "type=vxlan", "options:key=flow", option("options:local_ip", tunnel.local),
        option("options:remote_ip", tunnel.remote),
        f"ofport_request={openflow_port(table.underlay_port)}",
    ]  # fmt: skip
    if table.ip_version == 6:  # a UDP checksum of 0 is not legal there by default
        columns_of_tunnel.append("options:csum=true")
    return [
        ["add-br", bridge],
        [
            *("set", "Bridge", bridge, f"datapath_type={datapath}", "fail_mode=secure"),
            "other_config:disable-in-band=true",
            option("other_config:hwaddr", tunnel.local_mac),
        ],
        ["add-port", bridge, device],
        ["set", "Interface", device, f"ofport_request={UNDERLAY_PORT}", *columns],
        ["add-port", instance.bridge, port],
        ["set", "Interface", port, *columns_of_tunnel],
    ]


def prepare_underlay(instance: OvsInstance, table: FunctionTable) -> None:
    """Give the underlay bridge its address, its rules and its neighbour."""
    bridge, tunnel = bridge_of(instance), table.tunnels[0]
    bits = 24 if table.ip_version == 4 else 64
    suffix = "" if table.ip_version == 4 else " nodad"
    if table.ip_version == 6:
        where = ["ip", "netns", "exec", instance.namespace.name]
        setting = f"net.ipv6.conf.{bridge}.disable_ipv6=0"
        instance.session.host.run([*where, "sysctl", "-qw", setting])
    instance.namespace.batch(
        "ip", [f"addr add {tunnel.local}/{bits} dev {bridge}{suffix}", f"link set dev {bridge} up"]
    )
    # The device belongs to the kernel, which would add frames of other protocols.
    tunnelled = f"udp{'6' if table.ip_version == 6 else ''},tp_dst={VXLAN_PORT}"
    instance.flows(
        [
            f"in_port={UNDERLAY_PORT},{tunnelled},actions=LOCAL",
            f"in_port=LOCAL,{tunnelled},actions=output:{UNDERLAY_PORT}",
        ],
        bridge=bridge,
    )
    instance.appctl("tnl/neigh/set", bridge, tunnel.remote, tunnel.remote_mac)
