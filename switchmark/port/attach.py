"""Attaches a node's ports, for every environment on this machine.

A node is a network namespace with a veth end for each port, or with a folder for its vhost-user or
memif sockets. The engine runs directly in the namespace, or in a container around it. A node
without a namespace has its devices among the devices of the host.
"""

from __future__ import annotations

from switchmark.errors import UsageError
from switchmark.host.host import Session
from switchmark.model.node import NodePort, NodeSpec
from switchmark.model.ports import MADE_BY_SWITCH, SOCKET_KINDS, PortKind
from switchmark.port.attached import Attached
from switchmark.port.made_by_switch import has_door, with_door, with_end, with_made
from switchmark.port.nic import with_lent, with_nic
from switchmark.port.tap import with_tap
from switchmark.port.veth import wire_of_veth, with_veth
from switchmark.port.vhost_user import socket_folder, wire_of_socket, with_socket


def attach(
    session: Session, node: Attached, inside_prefix: str | None = None, *, taps: bool = False
) -> Attached:
    """Attach a node's ports for a switch. On return, veth devices are up at both ends.

    `inside_prefix` is the path of the socket folder in the node (None: the path on the host).
    `taps` is True if the node can use the other end of a tap, for example a virtual machine."""
    spec = node.spec
    behind_doors = inside_prefix is not None and any(has_door(port) for port in spec.ports)
    if behind_doors or any(port.kind in SOCKET_KINDS and port.nic is None for port in spec.ports):
        folder = socket_folder(session, node)
    ports = []
    for number, port in enumerate(spec.ports):
        if port.nic is not None:
            ports.append(with_nic(session, node, port, port.nic))
        elif port.lent is not None:
            ports.append(with_lent(session, node, port, port.lent))
        elif port.kind is PortKind.VETH:
            ports.append(with_veth(session, node, number))
        elif port.kind is PortKind.TAP and taps:
            ports.append(with_tap(session, node, number))
        elif port.kind in SOCKET_KINDS:
            ports.append(with_socket(port, folder, number, inside_prefix))
        elif has_door(port) and inside_prefix is not None:
            ports.append(with_door(node, number, folder, inside_prefix))
        elif port.kind is PortKind.ATTACHMENT:
            ports.append(with_end(node, number))
        elif port.kind in MADE_BY_SWITCH:
            ports.append(with_made(node, number))
        else:
            raise _refusal(spec, port)
    return node.with_ports(ports)


def attach_wire(
    session: Session, a: Attached, b: Attached, inside_prefix: str | None = None
) -> tuple[Attached, Attached]:
    """Connect two nodes with one port each directly: by a veth pair, or by a vhost-user or memif
    socket at which the first listens and to which the second connects."""
    port, other = a.spec.port, b.spec.port
    if port.kind is not other.kind:
        raise UsageError(
            f"wire {a.spec.name}-{b.spec.name}: its ends are {port.kind} and {other.kind}"
        )
    if port.kind is PortKind.VETH:
        return wire_of_veth(session, a, b)
    if port.kind in SOCKET_KINDS:
        return wire_of_socket(session, a, b, inside_prefix)
    raise _refusal(a.spec, port)


def _refusal(spec: NodeSpec, port: NodePort) -> UsageError:
    return UsageError(f"node {spec.name}: a port of kind {port.kind} cannot be made here")
