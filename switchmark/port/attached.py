"""The network part of a node: its namespace, its ports so far, and the ledger entries of both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.host.host import Session
from switchmark.host.kernel import namespaces, netlink
from switchmark.host.kernel.netlink import VethEnd
from switchmark.host.kernel.procfs import ProcessIdentity
from switchmark.host.undo.entries import NetworkNamespace
from switchmark.model.node import NodePort, NodeSpec
from switchmark.port.door import Door

DEVICE_INSIDE = "eth"  # prefix of the number of the port
LONGEST_NAME = 7  # a device name has at most 15 characters: "sm", 6 digits, and the node's name


@dataclass(frozen=True, slots=True)
class Attached:
    """A namespace with its ports: the completed spec, and the ledger entries to undo."""

    spec: NodeSpec
    netns: str | None  # None: the namespace of the host
    entries: list[int] = field(default_factory=list)
    lent: list[int] = field(default_factory=list)  # ledger entries of devices of the host
    doors: list[Door] = field(default_factory=list)  # servers of its netmap ports
    holder: ProcessIdentity | None = None  # process of a container that only keeps the namespace

    def detach(self, session: Session) -> None:
        """Remove ports and namespace in reverse order. Idempotent."""
        self._close_doors()
        for entry in (*self.lent, *reversed(self.entries)):
            session.ledger.undo(entry)

    @contextmanager
    def or_nothing(self, session: Session) -> Iterator[None]:
        """Remove the ports and the namespace if the rest of the node cannot be created, so that a
        later node can use their names."""
        try:
            yield
        except BaseException:
            with suppress(OSError, SwitchmarkError):  # the ledger keeps it; raise the first error
                self.detach(session)
            raise

    def release_namespace(self, session: Session) -> None:
        """Remove the name of the namespace, after devices of the host have been returned. The
        kernel then removes the namespace and its other devices."""
        self._close_doors()
        for entry in self.lent:
            session.ledger.undo(entry)
        if self.netns is not None and self.entries:
            session.ledger.undo(self.entries[0])

    def _close_doors(self) -> None:
        while self.doors:
            self.doors.pop().close()

    def with_ports(self, ports: list[NodePort]) -> Attached:
        """Return this node with its completed ports."""
        return replace(self, spec=replace(self.spec, ports=tuple(ports)))

    def end(self, session: Session, number: int) -> VethEnd:
        """Return the name of the node's end of a port. Among the devices of the host, it contains
        the name of the session."""
        port = self.spec.ports[number]
        device = f"{DEVICE_INSIDE}{number}"
        if self.netns is None:
            device = f"sm{session.id}{self.spec.name}".ljust(14, "_")[:14] + "ij"[number]
        return VethEnd(device, port.device_mac or port.mac, self.netns)

    def outside(self, session: Session, number: int) -> str:
        """Return the name of the switch's end of a port."""
        mark = "ab"[number] if len(self.spec.ports) > 1 else ""
        return f"sm{session.id}{self.spec.name}{mark}"

    def bring_up(self, port: NodePort, end: VethEnd) -> None:
        """Set the node's end up with its address. Among the devices of the host, it gets no
        address, which would change the routes of the host."""
        if not port.ip or self.netns is None:
            netlink.bring_up(end)
            return
        neighbour = (port.peer_ip.partition("/")[0], port.peer_mac)
        netlink.bring_up(end, address=port.ip, neighbour=neighbour)


def namespace(session: Session, spec: NodeSpec) -> Attached:
    """Return a new namespace without ports, or the existing namespace of an end of a container
    network. Raise UsageError for a name that is too long."""
    check_name(spec)
    if spec.ports and spec.port.made_port is not None and spec.port.made_port.end is not None:
        return Attached(spec, spec.port.made_port.end.netns)
    netns = f"sm{session.id}-{spec.name}"
    with session.ledger.making(NetworkNamespace(netns)) as entries:
        namespaces.create_namespace(netns)
    return Attached(spec, netns, entries)


def in_host_namespace(spec: NodeSpec) -> Attached:
    """Return a node without a namespace, whose ports are among the devices of the host."""
    check_name(spec, LONGEST_NAME - 1)
    return Attached(spec, None)


def check_name(spec: NodeSpec, longest: int = LONGEST_NAME) -> None:
    """Raise UsageError for a name that does not fit into the names of devices."""
    longest = min(longest, LONGEST_NAME - (len(spec.ports) > 1))
    if not 0 < len(spec.name) <= longest:
        raise UsageError(
            f"node name {spec.name!r}: must have 1 to {longest} characters to fit into the name of "
            "a device"
        )
