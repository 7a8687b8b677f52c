"""`macvlan`: the kernel's macvlan devices in bridge mode, all on one parent.

The parent is one end of a veth pair, and the other end is the monitor port: it receives frames that
leave through the uplink. A macvlan delivers by the addresses of its devices and never learns, so it
is a virtual Ethernet bridge (`veb`) like the embedded switch of a NIC.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.host import place
from switchmark.host.place import Facility
from switchmark.host.programs import not_installed
from switchmark.model.capabilities import Availability, Capabilities, available
from switchmark.model.changes import Change
from switchmark.model.ports import ConnectMode, MacvlanParent, MadePort, PortKind, SwitchPort
from switchmark.model.taxonomy import RTC, SELF, STRUCTURED, Taxonomy
from switchmark.switch.support.changes import PORTS, rule_mac
from switchmark.switch.support.in_kernel import veth_lines
from switchmark.switch.support.made import PortMakingSwitch
from switchmark.switch.support.tools import kernel_lacks, kernel_release


class Macvlan(PortMakingSwitch):
    """A macvlan device for each node, on a parent in a private network namespace."""

    name = "macvlan"
    capabilities = Capabilities(
        port_kinds=(PortKind.MACVLAN,),
        connect_modes=(ConnectMode.VEB,),
        polling=False,
        in_kernel=True,
        keeps_offloads=True,
        hides_tags=True,
        reconfigures=True,
        cable_ends=(),
        uncabled="its ports exist only as devices on its own parent, which has no cable",
        taxonomy=Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "several addresses on one device"),
        description="macvlan devices in bridge mode on one parent, in the kernel",
    )

    def availability(self) -> Availability:
        """Available if the kernel has macvlan."""
        return (
            place.missing(Facility.NETWORK_NAMESPACE)
            or kernel_lacks({"macvlan": "macvlan_init_module"}, "CONFIG_MACVLAN")
            or not_installed("ip", "iproute2")
            or available(f"Linux {kernel_release()}")
        )

    def make(self, ports: Sequence[SwitchPort]) -> list[MadePort]:
        """Make a parent that leads only to the monitor port, and on it a device for each node."""
        session = self.session
        self.namespace = self.resources.namespace()
        self._parent, self.witness = f"sm{session.id}up", f"sm{session.id}w0"
        mtu_bytes = max(port.mtu_bytes for port in ports)
        ends = (self._parent, self.witness)
        mtus = [f"link set dev {device} mtu {mtu_bytes}" for device in ends]
        self.namespace.batch("ip", [*veth_lines([ends]), *mtus])
        return [MadePort(macvlan_on=MacvlanParent(self._parent, self.namespace.name))] * len(ports)

    def changes(self) -> Sequence[Change]:
        """Return changes that add and remove unused devices in the switch's namespace; a macvlan
        has no table that could change."""
        names = [f"sm{self.session.id}n{k}" for k in range(PORTS)]
        kind = "type macvlan mode bridge"
        join = [
            f"link add link {self._parent} name {name} address {rule_mac(k)} {kind}"
            for k, name in enumerate(names)
        ]
        join += [f"link set dev {name} up" for name in names]
        part = [f"link del {name}" for name in names]
        return [
            Change(f"{PORTS} ports added", lambda: self.namespace.batch("ip", join)),
            Change(f"{PORTS} ports removed", lambda: self.namespace.batch("ip", part)),
        ]

    def fault(self) -> str | None:
        """Return why it no longer forwards, if a port or the parent is gone; None otherwise."""
        if not self.namespace.query("ip", "link", "show", "dev", self._parent):
            return f"parent {self._parent} is gone from namespace {self.namespace.name}"
        return super().fault()

    def details(self) -> dict[str, str]:
        """Return the details for the record."""
        return {
            "version": f"Linux {kernel_release()}",
            "datapath": "kernel, senders' softirq: macvlan in bridge mode",
            "connect_mode": self.mode.value,
            "uplink": "a veth pair; its other end is the monitor port",
            "unknown_destination": "to the uplink",
            "broadcast": "to every port and the uplink",
        }
