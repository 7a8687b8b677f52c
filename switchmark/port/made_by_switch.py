"""A port that the switch has made (macvlan, a virtual function, VALE) is taken into the node.

The device keeps the application's address, by which its switch delivers. Where applications read
frames themselves it gets no IP address, so that the IP stack drops them early.
"""

from __future__ import annotations

from dataclasses import replace

from switchmark.errors import UsageError
from switchmark.model.node import NodePort
from switchmark.model.ports import MadePort
from switchmark.port.attached import DEVICE_INSIDE, Attached
from switchmark.testbed.kernel import netlink
from switchmark.testbed.kernel.netlink import VethEnd


def with_made(node: Attached, number: int) -> NodePort:
    """Attach the device that the switch has made; a netmap port is opened from anywhere."""
    port = node.spec.ports[number]
    made = port.made
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


def put_inside(made: MadePort, end: VethEnd, mtu_bytes: int) -> None:
    """Put the port's device into the namespace of `end` and under its name. Raises OSError.

    A macvlan device is made there at once: moving one takes the kernel some 30 ms."""
    if made.macvlan_on is not None:
        netlink.create_macvlan(made.macvlan_on, end, mtu_bytes)
    elif made.device is not None:
        netlink.take_in(made.device, end, mtu_bytes)
