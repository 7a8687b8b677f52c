"""`tc-redirect`: the kernel's shortest path between two devices, without a bridge.

A traffic-control filter at the ingress of each port redirects every frame to the other port of its
pair. The difference between this switch and the Linux bridge is the cost of bridging.
"""

from __future__ import annotations

from switchmark.host import place
from switchmark.host.place import Facility
from switchmark.host.programs import not_installed
from switchmark.model.capabilities import Availability, Capabilities, available
from switchmark.model.ports import ConnectMode, PortKind
from switchmark.model.taxonomy import MATCH_ACTION, MODULAR, RTC, Taxonomy
from switchmark.switch.support.ports import device_of, peer_index
from switchmark.switch.support.tc_filters import EVERY_FRAME, MIRRORS, FilterSwitch
from switchmark.switch.support.tools import kernel_lacks, kernel_release


class TcRedirect(FilterSwitch):
    """Each port's frames leave through the other port of its pair."""

    name = "tc-redirect"
    capabilities = Capabilities(
        port_kinds=(PortKind.VETH, PortKind.TAP),
        connect_modes=(ConnectMode.CROSS_CONNECT,),
        polling=False,
        in_kernel=True,
        keeps_offloads=True,
        hides_tags=True,
        reconfigures=True,
        taxonomy=Taxonomy(MODULAR, MATCH_ACTION, RTC, "high", "C", "traffic control"),
        description="tc filters that redirect each port to its peer, in the kernel",
        functions=MIRRORS,
    )

    def availability(self) -> Availability:
        """Return the version if the kernel has the filter and the action, otherwise the reason."""
        parts = {"cls_u32": "u32_init", "act_mirred": "tcf_mirred_init"}
        return (
            place.missing(Facility.NETWORK_NAMESPACE)
            or not_installed("tc", "iproute2")
            or kernel_lacks(parts, "CONFIG_NET_CLS_U32 and CONFIG_NET_ACT_MIRRED")
            or available(f"Linux {kernel_release()}")
        )

    def connect(self) -> None:
        """Make a hook at the ingress of each port, and a filter that takes every frame."""
        lines = []
        for port in self.paired_ports:
            device, peer = device_of(port), device_of(self.ports[peer_index(port.index)])
            actions = f"{self.copy_action(port)}redirect dev {peer}"
            lines.append(f"qdisc add dev {device} clsact")
            lines.append(f"filter add dev {device} ingress {EVERY_FRAME} {actions}")
        self.namespace.batch("tc", lines)

    def fault(self) -> str | None:
        """Return why it no longer forwards, if a port has lost its filter; None otherwise."""
        hooked = {
            hook["dev"]
            for hook in self.namespace.query("tc", "qdisc", "show")
            if hook["kind"] == "clsact"
        }
        lost = [device for device in map(device_of, self.paired_ports) if device not in hooked]
        return f"{', '.join(lost)} lost its redirect" if lost else None

    def details(self) -> dict[str, str]:
        """Return the details for the record."""
        return {
            "version": f"Linux {kernel_release()}",
            "datapath": "kernel, tc ingress: u32 match all, mirred egress redirect",
            "connect_mode": self.mode.value,
        }
