"""Attaches a tap port: a device on the switch's side. A virtual machine reads and writes its frames
later."""

from __future__ import annotations

from dataclasses import replace

from switchmark.host.host import Session
from switchmark.host.kernel import netlink
from switchmark.host.undo.entries import NetworkDevice
from switchmark.model.node import NodePort
from switchmark.port.attached import Attached


def with_tap(session: Session, node: Attached, number: int) -> NodePort:
    """Attach a tap device, which has no end in the node yet."""
    device = node.outside(session, number)
    node.entries.append(session.ledger.record(NetworkDevice(device)))
    netlink.create_tap(device, node.spec.ports[number].mtu_bytes)
    return replace(node.spec.ports[number], device_switch_side=device)
