"""Attaches a port of the host: a device that the node borrows, or a PCI function for DPDK."""

from __future__ import annotations

from dataclasses import replace

from switchmark.host.host import Session
from switchmark.host.kernel import netlink
from switchmark.host.undo.entries import LentDevice
from switchmark.model.nics import Nic, is_pci
from switchmark.model.node import NodePort
from switchmark.model.ports import MadePort
from switchmark.port.attached import Attached


def with_nic(session: Session, node: Attached, port: NodePort, nic: Nic) -> NodePort:
    """Attach the tester's real port, with the switch's port at the other end."""
    beyond = None if is_pci(nic.switch) else nic.switch
    return replace(with_lent(session, node, port, nic.tester), device_switch_side=beyond)


def with_lent(session: Session, node: Attached, port: NodePort, name: str) -> NodePort:
    """Attach a device that the node borrows, or a PCI function, which DPDK can use from any
    namespace."""
    if is_pci(name):
        return replace(port, made_port=MadePort(pci=name))
    assert node.netns is not None, "such nodes are network namespaces"
    node.lent.append(session.ledger.record(LentDevice.of(name, node.netns)))
    netlink.lend(name, node.netns)
    return replace(port, device_inside=name)
