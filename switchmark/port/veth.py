"""Attaches a veth port: one end is in the node, and the other on the switch's side, or in another
node without a switch between them.

Both ends are up on return.
"""

from __future__ import annotations

from dataclasses import replace

from switchmark.host.host import Session
from switchmark.host.kernel import netlink
from switchmark.host.kernel.netlink import VethEnd
from switchmark.host.undo.entries import NetworkDevice
from switchmark.model.node import NodePort
from switchmark.port.attached import Attached


def with_veth(session: Session, node: Attached, number: int) -> NodePort:
    """Attach a veth pair between the node and the switch."""
    port = node.spec.ports[number]
    device = node.outside(session, number)
    # The device is created in the switch's namespace, since moving it takes the kernel some 30 ms.
    # If the node has no namespace, no removal of a namespace removes the device, so it must be
    # deleted.
    home = port.switch_netns if node.netns is not None else None
    inside, outside = node.end(session, number), VethEnd(device, netns=home)
    if home is None:
        node.entries.append(session.ledger.record(NetworkDevice(device)))
    netlink.create_veth(inside, outside, port.mtu_bytes)
    netlink.bring_up(outside)
    node.bring_up(port, inside)
    netlink.wait_passing(outside)
    return replace(port, device_inside=inside.device, device_switch_side=device)


def wire_of_veth(session: Session, a: Attached, b: Attached) -> tuple[Attached, Attached]:
    """Connect two nodes by one veth pair."""
    ends = [node.end(session, 0) for node in (a, b)]
    mtu_bytes = max(a.spec.port.mtu_bytes, b.spec.port.mtu_bytes)
    if a.netns is None:
        a.entries.append(session.ledger.record(NetworkDevice(ends[0].device)))
    netlink.create_veth(ends[0], ends[1], mtu_bytes)
    wired = []
    for node, end in zip((a, b), ends, strict=True):
        port = node.spec.port
        node.bring_up(port, end)
        wired.append(
            node.with_ports([replace(port, device_inside=end.device, mtu_bytes=mtu_bytes)])
        )
    netlink.wait_passing(ends[0])
    return wired[0], wired[1]
