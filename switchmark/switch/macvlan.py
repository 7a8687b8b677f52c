"""`macvlan`: the kernel's macvlan devices in bridge mode, all on one parent.

The parent is one end of a veth pair of our own; what leaves by the uplink comes out of the
other end, the witness. A macvlan delivers by the addresses of its devices, so it never learns:
it is a virtual Ethernet bridge (`veb`), as the embedded switch of a NIC is.
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
        uncabled="its ports exist only as devices on its own parent, to which no cable leads",
        taxonomy=Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "several addresses on one device"),
        description="macvlan devices in bridge mode on one parent, in the kernel",
    )

    def availability(self) -> Availability:
        """Available where the kernel has macvlan."""
        return (
            place.missing(Facility.NETWORK_NAMESPACE)
            or kernel_lacks({"macvlan": "macvlan_init_module"}, "CONFIG_MACVLAN")
            or not_installed("ip", "iproute2")
            or available(f"Linux {kernel_release()}")
        )

    def make(self, wanted: Sequence[SwitchPort]) -> list[MadePort]:
        """Make a parent with nothing behind it but the witness, and on it a device for each
        node."""
        session = self.session
        self.namespace = self.resources.namespace()
        self._parent, self.witness = f"sm{session.id}up", f"sm{session.id}w0"
        mtu_bytes = max(port.mtu_bytes for port in wanted)
        ends = (self._parent, self.witness)
        mtus = [f"link set dev {device} mtu {mtu_bytes}" for device in ends]
        self.namespace.batch("ip", [*veth_lines([ends]), *mtus])
        return [MadePort(macvlan_on=MacvlanParent(self._parent, self.namespace.name))] * len(wanted)

    def changes(self) -> Sequence[Change]:
        """Adding devices for nobody in the switch's own namespace, and removing them; a macvlan has
        no table of its own."""
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
        """Why it no longer forwards: a port or the parent has gone. None while all are there."""
        if not self.namespace.query("ip", "link", "show", "dev", self._parent):
            return f"parent {self._parent} is gone from namespace {self.namespace.name}"
        return super().fault()

    def details(self) -> dict[str, str]:
        """What stands in a record."""
        return {
            "version": f"Linux {kernel_release()}",
            "datapath": "kernel, senders' softirq: macvlan in bridge mode",
            "connect_mode": self.mode.value,
            "uplink": "a veth pair; its other end is the witness",
            "unknown_destination": "to the uplink",
            "broadcast": "to every port and the uplink",
        }
