"""Network namespaces and devices that the bench makes, lends or attaches."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from typing_extensions import override

from switchmark.host.kernel import mounts
from switchmark.host.kernel.device_settings import is_promiscuous
from switchmark.host.kernel.namespaces import NETNS_DIR, inside
from switchmark.host.undo.entries.entry import NamedEntry, UndoEntry, foreign_name


def _remove_namespace(name: str) -> None:
    path = NETNS_DIR / name
    mounts.unmount(path)
    path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class NetworkNamespace(NamedEntry):
    """A named network namespace of `ip netns`. Its devices end with it, except the host's own."""

    kind: ClassVar[str] = "netns"

    @override
    def holds(self, other: UndoEntry) -> bool:
        return isinstance(other, LentDevice) and other.netns == self.name

    @override
    def undo(self) -> None:
        _remove_namespace(self.name)


@dataclass(frozen=True, slots=True)
class NetworkDevice(NamedEntry):
    """A network device in the root namespace (veth end, bridge, tap)."""

    kind: ClassVar[str] = "link"

    @override
    def problem(self, session_id: str) -> str | None:
        if len(self.name) > 15:
            return f"{self.name}: longer than the 15 characters of a device name"
        return foreign_name(self.name, session_id)

    @override
    def undo(self) -> None:
        from switchmark.host.kernel import netlink  # heavy, and seldom needed

        netlink.delete_link(self.name)


@dataclass(frozen=True, slots=True)
class LentDevice(UndoEntry):
    """A network device of the host that is lent to a namespace of the bench. It is moved back and
    set up, with its former promiscuous mode. Without this the kernel would destroy a virtual device
    with the namespace."""

    kind: ClassVar[str] = "lent-device"
    survives_boot: ClassVar[bool] = False
    name: str
    netns: str
    promiscuous: bool = False

    @classmethod
    def of(cls, name: str, netns: str) -> LentDevice:
        """A device of the host's, as it is before it is lent."""
        return cls(name, netns, is_promiscuous(name))

    @override
    def problem(self, session_id: str) -> str | None:
        return foreign_name(self.netns, session_id)

    @override
    def undo(self) -> None:
        from switchmark.host.kernel import netlink

        netlink.fetch_back(self.name, self.netns, promiscuous=self.promiscuous)


@dataclass(frozen=True, slots=True)
class ValeAttachment(UndoEntry):
    """A device of a named namespace that is attached to a VALE switch there (`vale0:eth0`). The
    kernel keeps the device and its namespace until it is detached."""

    kind: ClassVar[str] = "vale-attachment"
    survives_boot: ClassVar[bool] = False
    netns: str
    port: str

    @override
    def problem(self, session_id: str) -> str | None:
        return foreign_name(self.netns, session_id)

    @override
    def undo(self) -> None:
        from switchmark.host.kernel import netmap

        with suppress(OSError):  # namespace, switch or device gone: it is off
            inside(self.netns, partial(netmap.detach, self.port))


@dataclass(frozen=True, slots=True)
class Entered(NamedEntry):
    """A name of the bench for a network namespace that is not its own. Only the name is removed;
    nothing in the namespace is."""

    kind: ClassVar[str] = "entered"
    survives_boot: ClassVar[bool] = False
    inode: int
    endpoint: str

    @override
    def undo(self) -> None:
        _remove_namespace(self.name)


@dataclass(frozen=True, slots=True)
class BridgePort(NamedEntry):
    """A veth end of the bench that is a port of a Linux bridge of the user. Entries of the bridge's
    table go with the port."""

    kind: ClassVar[str] = "bridge-port"
    survives_boot: ClassVar[bool] = False
    bridge: str

    @override
    def undo(self) -> None:
        from switchmark.host.kernel import netlink

        netlink.delete_link(self.name)


@dataclass(frozen=True, slots=True)
class OvsPort(NamedEntry):
    """A veth end of the bench that is a port of an Open vSwitch bridge of the user."""

    kind: ClassVar[str] = "ovs-port"  # its database keeps it over a reboot
    bridge: str
    database: str  # as the argument of `ovs-vsctl --db`

    @override
    def undo(self) -> None:
        from switchmark.host.kernel import netlink
        from switchmark.host.network import ovs

        ovs.delete_port(self.database, self.bridge, self.name)
        netlink.delete_link(self.name)
