"""Attaches a vhost-user or memif port: a socket in a folder that node and switch share.

This file creates the folder and the path. Switch and engine decide which side listens.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from switchmark.host.host import Session
from switchmark.host.undo.entries import Directory
from switchmark.model.node import NodePort
from switchmark.port.attached import Attached

SOCKET_NAME = "port.sock"


def socket_folder(session: Session, node: Attached) -> Path:
    """Create the folder of a node's sockets."""
    folder = session.run_dir / f"vhost-{node.spec.name}"
    node.entries.append(session.ledger.record(Directory(str(folder))))
    folder.mkdir(mode=0o700)
    return folder


def with_socket(port: NodePort, folder: Path, number: int, inside_prefix: str | None) -> NodePort:
    """Attach a port by the paths of its socket on the host and in the node."""
    name = SOCKET_NAME if number == 0 else f"port{number}.sock"
    return replace(
        port,
        socket_host=folder / name,
        socket_inside=str(folder / name) if inside_prefix is None else f"{inside_prefix}/{name}",
    )


def wire_of_socket(
    session: Session, a: Attached, b: Attached, inside_prefix: str | None
) -> tuple[Attached, Attached]:
    """Connect two nodes by one socket: the first listens, and the second connects as back end."""
    folder = socket_folder(session, a)
    first, second = (with_socket(node.spec.port, folder, 0, inside_prefix) for node in (a, b))
    return a.with_ports([first]), b.with_ports([replace(second, back_end=True)])
