"""Plugging a node's ports: what every environment on this machine has in common.

A node is a network namespace with a veth end in it for each port, or with a folder where its
vhost-user or memif sockets will be. Bare namespaces run the engine right in it; containers
are put around it; a node without a namespace has its devices among the host's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from switchmark.environment.base import NodePort, NodeSpec
from switchmark.errors import UsageError
from switchmark.switch.base import MADE_BY_SWITCH, MadePort, PortKind
from switchmark.testbed import netlink
from switchmark.testbed.host import Session
from switchmark.testbed.netlink import VethEnd
from switchmark.testbed.nics import Nic, is_pci
from switchmark.testbed.things import Directory, LentDevice, Link, NetworkNamespace

DEVICE_INSIDE = "eth"  # and the number of the port
SOCKET_NAME = "port.sock"
LONGEST_NAME = 7  # a device name holds 15 characters: "sm", 6 digits, and this
SOCKET_KINDS = (PortKind.VHOST_USER, PortKind.MEMIF)


@dataclass(frozen=True, slots=True)
class Plugged:
    """A namespace with its ports: the completed spec, and the ledger entries to undo."""

    spec: NodeSpec
    netns: str | None  # None: the host's own
    entries: list[int] = field(default_factory=list)
    lent: list[int] = field(default_factory=list)  # of devices that the host wants back

    def unplug(self, session: Session) -> None:
        """Remove ports and namespace, last first. Idempotent."""
        for entry in (*self.lent, *reversed(self.entries)):
            session.ledger.undo(entry)

    def release_namespace(self, session: Session) -> None:
        """Give up the namespace's name: the kernel removes it and its devices soon, but for those
        that are lent, which go back before."""
        for entry in self.lent:
            session.ledger.undo(entry)
        if self.netns is not None:
            session.ledger.undo(self.entries[0])


def namespace(session: Session, spec: NodeSpec) -> Plugged:
    """A new namespace without ports. Raises UsageError for a name that is too long."""
    check_name(spec)
    netns = f"sm{session.id}-{spec.name}"
    entry = session.ledger.record(NetworkNamespace(netns))
    netlink.create_namespace(netns)
    return Plugged(spec, netns, [entry])


def hosts_own(spec: NodeSpec) -> Plugged:
    """No namespace: the ports will be among the host's own devices."""
    check_name(spec, LONGEST_NAME - 1)
    return Plugged(spec, None)


def plug(
    session: Session, plugged: Plugged, inside_prefix: str | None = None, *, taps: bool = False
) -> Plugged:
    """Give it its ports for a switch; veth devices are up at both ends on return.

    `inside_prefix` is where the node sees the socket folder (None: where the host does); `taps`:
    it can hold the other end of a tap, as a machine does."""
    spec = plugged.spec
    if any(port.kind in SOCKET_KINDS and port.nic is None for port in spec.ports):
        folder = _socket_folder(session, plugged)
    ports = []
    for number, port in enumerate(spec.ports):
        if port.nic is not None:
            ports.append(_with_nic(session, plugged, port, port.nic))
        elif port.lent is not None:
            ports.append(_with_lent(session, plugged, port, port.lent))
        elif port.kind is PortKind.VETH:
            ports.append(_with_veth(session, plugged, number))
        elif port.kind is PortKind.TAP and taps:
            ports.append(_with_tap(session, plugged, number))
        elif port.kind in SOCKET_KINDS:
            ports.append(_with_socket(port, folder, number, inside_prefix))
        elif port.kind in MADE_BY_SWITCH:
            ports.append(_with_made(plugged, number))
        else:
            raise _cannot(spec, port)
    return _completed(plugged, ports)


def plug_wire(
    session: Session, a: Plugged, b: Plugged, inside_prefix: str | None = None
) -> tuple[Plugged, Plugged]:
    """Join two with one port each by one veth pair, or by one vhost-user or memif socket where
    the first listens, and the second is the back end that connects."""
    near, far = a.spec.port, b.spec.port
    if near.kind is not far.kind:
        raise UsageError(
            f"wire {a.spec.name}-{b.spec.name}: its ends are {near.kind} and {far.kind}"
        )
    if near.kind is PortKind.VETH:
        return _wire_of_veth(session, a, b)
    if near.kind not in SOCKET_KINDS:
        raise _cannot(a.spec, near)
    folder = _socket_folder(session, a)
    wired = [_with_socket(port, folder, 0, inside_prefix) for port in (near, far)]
    return _completed(a, wired[:1]), _completed(b, [replace(wired[1], back_end=True)])


def _wire_of_veth(session: Session, a: Plugged, b: Plugged) -> tuple[Plugged, Plugged]:
    ends = [_end(session, plugged, 0) for plugged in (a, b)]
    mtu_bytes = max(a.spec.port.mtu_bytes, b.spec.port.mtu_bytes)
    if a.netns is None:
        a.entries.append(session.ledger.record(Link(ends[0].device)))
    netlink.create_veth(ends[0], ends[1], mtu_bytes)
    wired = []
    for plugged, end in zip((a, b), ends, strict=True):
        port = plugged.spec.port
        _bring_up_inside(plugged, port, end)
        done = replace(port, device_inside=end.device, mtu_bytes=mtu_bytes)
        wired.append(_completed(plugged, [done]))
    netlink.wait_passing(ends[0])
    return wired[0], wired[1]


def check_name(spec: NodeSpec, longest: int = LONGEST_NAME) -> None:
    """Raises UsageError for a name that does not fit into those of devices."""
    longest = min(longest, LONGEST_NAME - (len(spec.ports) > 1))
    if not 0 < len(spec.name) <= longest:
        raise UsageError(
            f"node name {spec.name!r}: must have 1 to {longest} characters, to fit into"
            " the name of a device"
        )


def _end(session: Session, plugged: Plugged, number: int) -> VethEnd:
    """The node's end. Among the host's own devices its name must be one of ours, too."""
    port = plugged.spec.ports[number]
    device = f"{DEVICE_INSIDE}{number}"
    if plugged.netns is None:
        device = f"sm{session.id}{plugged.spec.name}".ljust(14, "_")[:14] + "ij"[number]
    return VethEnd(device, port.device_mac or port.mac, plugged.netns)


def _with_tap(session: Session, plugged: Plugged, number: int) -> NodePort:
    """A tap device on the switch's side; what reads and writes its frames comes later."""
    device = _outside(session, plugged.spec, number)
    plugged.entries.append(session.ledger.record(Link(device)))
    netlink.create_tap(device, plugged.spec.ports[number].mtu_bytes)
    return replace(plugged.spec.ports[number], device_switch_side=device)


def _outside(session: Session, spec: NodeSpec, number: int) -> str:
    """The name of the switch's end of a port."""
    mark = "ab"[number] if len(spec.ports) > 1 else ""
    return f"sm{session.id}{spec.name}{mark}"


def _with_veth(session: Session, plugged: Plugged, number: int) -> NodePort:
    spec = plugged.spec
    port = spec.ports[number]
    device = _outside(session, spec, number)
    inside, outside = _end(session, plugged, number), VethEnd(device)
    plugged.entries.append(session.ledger.record(Link(device)))
    netlink.create_veth(inside, outside, port.mtu_bytes)
    netlink.bring_up(outside)
    _bring_up_inside(plugged, port, inside)
    netlink.wait_passing(outside)
    return replace(port, device_inside=inside.device, device_switch_side=device)


def _with_nic(session: Session, plugged: Plugged, port: NodePort, nic: Nic) -> NodePort:
    """The tester's real port, and the switch's beyond it."""
    beyond = None if is_pci(nic.switch) else nic.switch
    lent = _with_lent(session, plugged, port, nic.tester)
    return replace(lent, device_switch_side=beyond)


def _with_lent(session: Session, plugged: Plugged, port: NodePort, name: str) -> NodePort:
    """A real port of the host's: a device, which is lent to the node, or a PCI function that DPDK
    drives from anywhere."""
    if is_pci(name):
        return replace(port, made=MadePort(pci=name))
    assert plugged.netns is not None, "such nodes are network namespaces"
    plugged.lent.append(session.ledger.record(LentDevice.of(name, plugged.netns)))
    netlink.lend(name, plugged.netns)
    return replace(port, device_inside=name)


def _with_made(plugged: Plugged, number: int) -> NodePort:
    """Take in the device that the switch has made; a netmap port is opened from anywhere.

    The device keeps the application's address, by which its switch delivers. Where applications
    read frames themselves it gets no IP address, so that the IP stack drops them early."""
    port = plugged.spec.ports[number]
    made = port.made
    if made is None:
        raise UsageError(f"node {plugged.spec.name}: its {port.kind} port has not been made")
    if made.device is None:
        return port
    end = VethEnd(f"{DEVICE_INSIDE}{number}", port.mac, plugged.netns)
    netlink.take_in(made.device, end, port.mtu_bytes)
    if port.device_mac is None:
        _bring_up_inside(plugged, port, end)
    else:
        netlink.bring_up(end)
    return replace(port, device_inside=end.device)


def _bring_up_inside(plugged: Plugged, port: NodePort, end: VethEnd) -> None:
    """The host's own routes are none of our business: no address there."""
    if not port.ip or plugged.netns is None:
        netlink.bring_up(end)
        return
    neighbour = (port.peer_ip.partition("/")[0], port.peer_mac)
    netlink.bring_up(end, address=port.ip, neighbour=neighbour)


def _socket_folder(session: Session, plugged: Plugged) -> Path:
    folder = session.run_dir / f"vhost-{plugged.spec.name}"
    plugged.entries.append(session.ledger.record(Directory(str(folder))))
    folder.mkdir(mode=0o755)
    return folder


def _with_socket(port: NodePort, folder: Path, number: int, inside_prefix: str | None) -> NodePort:
    name = SOCKET_NAME if number == 0 else f"port{number}.sock"
    return replace(
        port,
        socket_host=folder / name,
        socket_inside=str(folder / name) if inside_prefix is None else f"{inside_prefix}/{name}",
    )


def _completed(plugged: Plugged, ports: list[NodePort]) -> Plugged:
    return replace(plugged, spec=replace(plugged.spec, ports=tuple(ports)))


def _cannot(spec: NodeSpec, port: NodePort) -> UsageError:
    return UsageError(f"node {spec.name}: a port of kind {port.kind} cannot be made here")
