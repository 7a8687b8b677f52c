"""A port that the switch has made (macvlan, a virtual function, VALE) is taken into the node.

The device keeps the application's address, by which its switch delivers. Where applications read
frames themselves it gets no IP address, so that the IP stack drops them early. A port of VALE is no
device: it is opened by its name, in the switch's namespace, or handed out to a container.
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

NETNS_WORD = ",netns="  # between the name of a netmap port and the namespace to open it in


def with_made(node: Attached, number: int) -> NodePort:
    """Attach the device that the switch has made; a netmap port is opened from anywhere."""
    port = node.spec.ports[number]
    made = port.made_port
    if made is None:
        raise UsageError(f"node {node.spec.name}: its {port.kind} port has not been made")
    if made.device is None and made.macvlan_on is None:
        return port
    end = VethEnd(f"{DEVICE_INSIDE}{number}", port.mac, node.netns)
    put_inside(made, end, port.mtu_bytes)
    if port.device_mac is None:
        node.bring_up(port, end)
    else:
        netlink.bring_up(end)
    return replace(port, device_inside=end.device)


def with_end(node: Attached, number: int) -> NodePort:
    """Return the port that is an end of a container network; the network has set it up."""
    port = node.spec.ports[number]
    if port.made_port is None or port.made_port.end is None:
        raise UsageError(f"node {node.spec.name}: its {port.kind} port has not been made")
    return replace(port, device_inside=port.made_port.end.device)


def has_door(port: NodePort) -> bool:
    """Whether a container gets this port, one of VALE's, through a door."""
    return port.made_port is not None and port.made_port.netmap is not None


def with_door(node: Attached, number: int, folder: Path, inside_prefix: str) -> NodePort:
    """Make the door of a port of VALE, in the folder that the node sees elsewhere. The application
    needs no network device for it, no /dev/netmap, and no right."""
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


def put_inside(made: MadePort, end: VethEnd, mtu_bytes: int) -> None:
    """Put the port's device into the namespace of `end` and under its name. Raises OSError.

    A macvlan device is made there at once: moving one takes the kernel some 30 ms."""
    if made.macvlan_on is not None:
        netlink.create_macvlan(made.macvlan_on, end, mtu_bytes)
    elif made.device is not None:
        netlink.move_renamed(made.device, end, mtu_bytes)
