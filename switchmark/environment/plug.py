"""Plugging a node's port: what every environment on this machine has in common.

A node is a network namespace with a veth end in it, or with a folder where its vhost-user
socket will be. Bare namespaces run the engine right in it; containers are put around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from switchmark.environment.base import NodePort, NodeSpec
from switchmark.errors import UsageError
from switchmark.switch.base import MADE_BY_SWITCH, PortKind
from switchmark.testbed import netlink
from switchmark.testbed.host import Session
from switchmark.testbed.netlink import VethEnd
from switchmark.testbed.things import Directory, Link, NetworkNamespace

DEVICE_INSIDE = "eth0"
SOCKET_NAME = "port.sock"
LONGEST_NAME = 7  # a device name holds 15 characters: "sm", 6 digits, and this


@dataclass(frozen=True, slots=True)
class Plugged:
    """A namespace with its port: the completed spec, and the ledger entries to undo."""

    spec: NodeSpec
    netns: str
    entries: list[int] = field(default_factory=list)

    def unplug(self, session: Session) -> None:
        """Remove port and namespace, last first. Idempotent."""
        for entry in reversed(self.entries):
            session.ledger.undo(entry)

    def release_namespace(self, session: Session) -> None:
        """Give up the namespace's name: the kernel removes it and its devices soon."""
        session.ledger.undo(self.entries[0])


def plug(session: Session, spec: NodeSpec, inside_prefix: str | None = None) -> Plugged:
    """A namespace with one port for a switch; for veth both ends are up on return.

    `inside_prefix` is where the node sees the socket folder (None: where the host does)."""
    plugged = _namespace(session, spec)
    if spec.port.kind is PortKind.VETH:
        return _with_veth(session, plugged)
    if spec.port.kind in MADE_BY_SWITCH:
        return _with_made(plugged)
    _require_socket(spec)
    folder = _socket_folder(session, plugged, spec.name)
    return _with_socket(plugged, folder, inside_prefix)


def plug_wire(
    session: Session, a: NodeSpec, b: NodeSpec, inside_prefix: str | None = None
) -> tuple[Plugged, Plugged]:
    """Two namespaces joined by one veth pair, or by one vhost-user or memif socket where the
    first listens, and the second is the back end that connects."""
    if a.port.kind is not b.port.kind:
        raise UsageError(f"wire {a.name}-{b.name}: its ends are {a.port.kind} and {b.port.kind}")
    plugged_a, plugged_b = _namespace(session, a), _namespace(session, b)
    if a.port.kind is PortKind.VETH:
        ends = [_end(plugged) for plugged in (plugged_a, plugged_b)]
        mtu_bytes = max(a.port.mtu_bytes, b.port.mtu_bytes)
        netlink.create_veth(ends[0], ends[1], mtu_bytes)
        for plugged, end in zip((plugged_a, plugged_b), ends, strict=True):
            _bring_up_inside(plugged.spec, end)
        netlink.wait_passing(ends[0])
        port = {"device_inside": DEVICE_INSIDE, "mtu_bytes": mtu_bytes}
        return _completed(plugged_a, **port), _completed(plugged_b, **port)
    _require_socket(a)
    folder = _socket_folder(session, plugged_a, a.name)
    wired_a = _with_socket(plugged_a, folder, inside_prefix)
    wired_b = _with_socket(plugged_b, folder, inside_prefix)
    return wired_a, _completed(wired_b, back_end=True)


def _namespace(session: Session, spec: NodeSpec) -> Plugged:
    if not 0 < len(spec.name) <= LONGEST_NAME:
        raise UsageError(
            f"node name {spec.name!r}: must have 1 to {LONGEST_NAME} characters, to fit into"
            " the name of a device"
        )
    netns = f"sm{session.id}-{spec.name}"
    entry = session.ledger.record(NetworkNamespace(netns))
    netlink.create_namespace(netns)
    return Plugged(spec, netns, [entry])


def _end(plugged: Plugged) -> VethEnd:
    return VethEnd(
        DEVICE_INSIDE, plugged.spec.port.device_mac or plugged.spec.port.mac, plugged.netns
    )


def _with_veth(session: Session, plugged: Plugged) -> Plugged:
    device = f"sm{session.id}{plugged.spec.name}"
    inside, outside = _end(plugged), VethEnd(device)
    plugged.entries.append(session.ledger.record(Link(device)))
    netlink.create_veth(inside, outside, plugged.spec.port.mtu_bytes)
    netlink.bring_up(outside)
    _bring_up_inside(plugged.spec, inside)
    netlink.wait_passing(outside)
    return _completed(plugged, device_inside=DEVICE_INSIDE, device_switch_side=device)


def _with_made(plugged: Plugged) -> Plugged:
    """Take in the device that the switch has made; a netmap port is opened from anywhere.

    The device keeps the application's address, by which its switch delivers. Where applications
    read frames themselves it gets no IP address, so that the IP stack drops them early."""
    spec = plugged.spec
    made = spec.port.made
    if made is None:
        raise UsageError(f"node {spec.name}: its {spec.port.kind} port has not been made")
    if made.device is None:
        return plugged
    end = VethEnd(DEVICE_INSIDE, spec.port.mac, plugged.netns)
    netlink.take_in(made.device, end, spec.port.mtu_bytes)
    if spec.port.device_mac is None:
        _bring_up_inside(spec, end)
    else:
        netlink.bring_up(end)
    return _completed(plugged, device_inside=DEVICE_INSIDE)


def _bring_up_inside(spec: NodeSpec, end: VethEnd) -> None:
    neighbour = (spec.peer_ip.partition("/")[0], spec.peer_mac)
    netlink.bring_up(end, address=spec.port.ip, neighbour=neighbour)


def _socket_folder(session: Session, plugged: Plugged, name: str) -> Path:
    folder = session.run_dir / f"vhost-{name}"
    plugged.entries.append(session.ledger.record(Directory(str(folder))))
    folder.mkdir(mode=0o755)
    return folder


def _with_socket(plugged: Plugged, folder: Path, inside_prefix: str | None) -> Plugged:
    socket = folder / SOCKET_NAME
    return _completed(
        plugged,
        socket_host=socket,
        socket_inside=str(socket) if inside_prefix is None else f"{inside_prefix}/{SOCKET_NAME}",
    )


def _completed(plugged: Plugged, **port: object) -> Plugged:
    completed: NodePort = replace(plugged.spec.port, **port)  # type: ignore[arg-type]
    return replace(plugged, spec=replace(plugged.spec, port=completed))


def _require_socket(spec: NodeSpec) -> None:
    if spec.port.kind not in (PortKind.VHOST_USER, PortKind.MEMIF):
        raise UsageError(f"node {spec.name}: a port of kind {spec.port.kind} cannot be made here")
