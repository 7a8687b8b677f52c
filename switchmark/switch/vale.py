"""`vale`: the learning switch of netmap, in the kernel.

Applications that use netmap open its ports themselves; in containers they receive open ports.
Kernel devices (veth, tap) are attached in netmap's generic mode. A VALE switch belongs to a network
namespace, which the name of a port must contain; this switch has its own namespace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from switchmark.errors import UnavailableError
from switchmark.host import place
from switchmark.host.host import Session
from switchmark.host.kernel import device_settings, namespaces, netmap
from switchmark.host.place import Facility
from switchmark.host.programs import not_installed
from switchmark.host.undo.entries import ValeAttachment
from switchmark.model.capabilities import Availability, Capabilities, available
from switchmark.model.changes import Change
from switchmark.model.ports import ConnectMode, MadePort, PortKind, SwitchPort
from switchmark.model.taxonomy import RTC, SELF, STRUCTURED, Taxonomy
from switchmark.switch.support.changes import PORTS
from switchmark.switch.support.in_kernel import veth_lines
from switchmark.switch.support.made import MadeFirst
from switchmark.switch.support.ports import device_of
from switchmark.switch.support.tools import kernel_release

ATTACHED = (PortKind.VETH, PortKind.TAP)
SWITCH = "vale0"  # its name in the namespace
RECORDED = ("ring_size", "buf_size", "bridge_batch", "generic_ringsize", "generic_mit", "admode")


class Vale(MadeFirst):
    """One VALE switch in a private network namespace."""

    name = "vale"
    _ways: Mapping[str, str] = MappingProxyType({})  # by device: how netmap reaches it
    capabilities = Capabilities(
        port_kinds=(PortKind.VALE, *ATTACHED),
        connect_modes=(ConnectMode.LEARNING,),
        polling=False,
        in_kernel=True,
        reconfigures=True,
        stand_ins={
            PortKind.VETH: "veth, attached in netmap's generic mode, replaces VALE's own "
            "ports: the figures are not those of VALE between its own ports",
            PortKind.TAP: "taps, attached in netmap's generic mode, replace VALE's own ports "
            "in virtual machines (ptnet): the figures are not those of VALE between its own ports",
        },
        taxonomy=Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "virtual L2 Ethernet"),
        description="VALE, the learning switch of netmap, in the kernel",
    )

    def availability(self) -> Availability:
        """Available if netmap's module is loaded."""
        return (
            place.missing(Facility.NETWORK_NAMESPACE)
            or not_installed("ip", "iproute2")
            or netmap.not_loaded()
            or available(f"netmap API {netmap.API}, Linux {kernel_release()}")
        )

    def make(self, ports: Sequence[SwitchPort]) -> list[MadePort]:
        """Name the ports; each is made when its application opens it."""
        self.namespace = self.resources.namespace()
        where = namespaces.NETNS_DIR / self.namespace.name
        names = [f"{SWITCH}:p{port.index}" for port in ports if not port.cable]
        return [MadePort(netmap=f"{name},netns={where}") for name in names]

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Attach the devices, also the end of a cable. Ports that applications open need only the
        monitor port."""
        vale_ports = [port.index for port in ports if port.kind is PortKind.VALE]
        if vale_ports and self._resources is None:
            raise UnavailableError(f"{self.name}: port {vale_ports[0]}: it names its ports itself")
        super().start(session, ports, mode, cores)

    def ports_with_devices(self) -> Sequence[SwitchPort]:
        """Return the ports that are attached devices, without those that applications open."""
        return [port for port in self.ports if port.kind in ATTACHED]

    def connect(self) -> None:
        """Attach the devices and the monitor port."""
        inner = self.make_witness()
        attached = [device_of(port) for port in self.ports_with_devices()]
        self._ways = {device: self._way_of(device) for device in attached}
        for device in (inner, *attached):
            self._attach(device)

    def _way_of(self, device: str) -> str:
        """Return how netmap reaches a device: natively, or by emulation (generic)."""
        driver = namespaces.inside(self.namespace.name, partial(device_settings.driver_of, device))
        if driver is not None and netmap.is_native(driver):
            return f"native ({driver})"
        return f"generic ({driver or 'driver not known'})"

    def _attach(self, device: str) -> None:
        """Attach a device, in generic mode if its driver does not support netmap. It is detached
        before its namespace changes back."""
        namespace, port = self.namespace.name, f"{SWITCH}:{device}"
        self.namespace.batch("ip", [f"link set dev {device} promisc on"])
        namespaces.inside(namespace, partial(device_settings.disable_offloads, device))
        self.resources.note(ValeAttachment(namespace, port))
        try:
            namespaces.inside(namespace, partial(netmap.attach, port))
        except OSError as error:
            raise UnavailableError(
                f"{self.name}: {device} cannot be attached: {error.strerror}"
            ) from None

    def changes(self) -> Sequence[Change]:
        """Return changes that attach and detach unused devices; VALE's table has only learnt
        entries."""
        ends = self.spare_veths()
        names = [near for near, _ in ends]
        inside = partial(namespaces.inside, self.namespace.name)

        def join() -> None:
            promiscuous = [f"link set dev {name} promisc on" for name in names]
            self.namespace.batch("ip", [*veth_lines(ends), *promiscuous])
            for name in names:
                inside(partial(netmap.attach, f"{SWITCH}:{name}"))

        def part() -> None:
            for name in names:
                inside(partial(netmap.detach, f"{SWITCH}:{name}"))
            self.namespace.batch("ip", [f"link del {name}" for name in names])

        return [Change(f"{PORTS} ports added", join), Change(f"{PORTS} ports removed", part)]

    def wait_ports_up(self, timeout_s: float) -> None:
        """Wait until devices have a carrier; an open port of an application is always up."""
        if self.ports_with_devices():
            super().wait_ports_up(timeout_s)

    def fault(self) -> str | None:
        """Return why it no longer forwards, if a device is gone; None otherwise."""
        links = self.namespace.query("ip", "link", "show")
        up_devices = {link["ifname"] for link in links if "UP" in link["flags"]}
        expected = [device_of(port) for port in self.ports_with_devices()]
        lost = [device for device in (str(self.witness), *expected) if device not in up_devices]
        return f"{', '.join(lost)} went down, or left {self.namespace.name}" if lost else None

    def details(self) -> dict[str, str]:
        """See `Switch`; also the module's parameters."""
        return {
            "version": str(self.availability().version),
            "datapath": "kernel, senders' system calls: VALE",
            "connect_mode": self.mode.value,
            **{f"attached {device}": way for device, way in self._ways.items()},
            **netmap.parameters(*RECORDED),
        }
