"""Attaches ports that the switch creates (macvlan, a virtual function, VALE).

The device has the address of the application, to which the switch sends frames. If applications
read raw frames, it gets no IP address, so that the IP stack drops them early. A VALE port is not a
device: it is opened by its name in the switch's namespace, or passed to a container.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from switchmark.errors import UsageError
from switchmark.host.kernel import netlink
from switchmark.host.kernel.netlink import VethEnd
from switchmark.model.node import NodePort
from switchmark.model.ports import MadePort
from switchmark.port.attached import DEVICE_INSIDE, Attached
from switchmark.port.door import Door

NETNS_WORD = ",netns="  # separates the name of a netmap port and its namespace


def with_made(node: Attached, number: int) -> NodePort:
    """Attach the device that the switch has created. A netmap port needs no device."""
    port = node.spec.ports[number]
    made_port = port.made_port
    if made_port is None:
        raise UsageError(f"node {node.spec.name}: its {port.kind} port has not been made")
    if made_port.device is None and made_port.macvlan_on is None:
        return port
    end = VethEnd(f"{DEVICE_INSIDE}{number}", port.mac, node.netns)
    put_inside(made_port, end, port.mtu_bytes)
    if port.device_mac is None:
        node.bring_up(port, end)
    else:
        netlink.bring_up(end)
    return replace(port, device_inside=end.device)


def with_end(node: Attached, number: int) -> NodePort:
    """Return the port that is an end of a container network, which the network has set up."""
    port = node.spec.ports[number]
    if port.made_port is None or port.made_port.end is None:
        raise UsageError(f"node {node.spec.name}: its {port.kind} port has not been made")
    return replace(port, device_inside=port.made_port.end.device)


def has_door(port: NodePort) -> bool:
    """Return True if a container gets this VALE port through a door."""
    return port.made_port is not None and port.made_port.netmap is not None


def with_door(node: Attached, number: int, folder: Path, inside_prefix: str) -> NodePort:
    """Create the door of a VALE port, in the folder that the node sees at `inside_prefix`. The
    application needs neither a network device, /dev/netmap nor privileges."""
    port = node.spec.ports[number]
    assert port.made_port is not None and port.made_port.netmap is not None
    name, _, netns = port.made_port.netmap.partition(NETNS_WORD)
    door = f"netmap{number}.door"
    node.doors.append(Door(folder / door, name, Path(netns).name))
    inside = f"{inside_prefix}/{door}"
    return replace(
        port,
        made_port=MadePort(netmap=f"{name},door={inside}"),
        socket_host=folder / door,
        socket_inside=inside,
    )


def put_inside(port: MadePort, end: VethEnd, mtu_bytes: int) -> None:
    """Put the port's device into the namespace of `end` with its name. Raise OSError if this fails.

    A macvlan device is created there, since moving a device takes the kernel some 30 ms."""
    if port.macvlan_on is not None:
        netlink.create_macvlan(port.macvlan_on, end, mtu_bytes)
    elif port.device is not None:
        netlink.move_renamed(port.device, end, mtu_bytes)
