"""Two private hosts with a VXLAN overlay: a link between them, and a VXLAN device in each.

One end of each pair is in the first host and the other end is in the second host. Packets between
them leave a host only inside VXLAN, so the counters of the VXLAN devices prove the crossing. Each
VXLAN device has one remote end, and learns nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from switchmark.function.support.wire import VXLAN_PORT
from switchmark.model.capabilities import SwitchOption
from switchmark.model.choices import ETHERNET_OVERHEAD_BYTES
from switchmark.model.functions import OUTER_BYTES
from switchmark.switch.support.in_kernel import veth_lines
from switchmark.switch.support.private import Namespace

OFF = "off"
LINK_MTU_BYTES = {"vxlan": 1500, "vxlan-1550": 1550}  # by value of the option
UNDERLAYS, OVERLAYS = ("underlay-a", "underlay-b"), ("vxlan-a", "vxlan-b")
ADDRESSES = ("198.51.100.1", "198.51.100.2")
VXLAN_MACS = ("02:53:4d:76:78:01", "02:53:4d:76:78:02")
VNI = 1


def inner_mtu_bytes(value: str) -> int:
    """Return the MTU of the containers at this value of the option."""
    return LINK_MTU_BYTES[value] - OUTER_BYTES[4]


OPTION = SwitchOption(
    "overlay",
    "`vxlan`: the ends of each pair are in two hosts, with VXLAN over a link of MTU 1500; "
    "`vxlan-1550`: the same over a link of MTU 1550, so that containers keep an MTU of 1500",
    OFF,
    (OFF, *LINK_MTU_BYTES),
    longest_frame={
        value: inner_mtu_bytes(value) + ETHERNET_OVERHEAD_BYTES for value in LINK_MTU_BYTES
    },
)


@dataclass(frozen=True, slots=True)
class Overlay:
    """The overlay between two hosts."""

    hosts: Sequence[Namespace]
    value: str  # a key of LINK_MTU_BYTES

    @property
    def mtu_bytes(self) -> int:
        """The MTU of the containers."""
        return inner_mtu_bytes(self.value)

    @property
    def devices(self) -> list[tuple[str, str]]:
        """The namespaces and names of all devices, in the order of packets from the first host."""
        (first, second), (near, far) = (host.name for host in self.hosts), OVERLAYS
        return [
            (first, near), (first, UNDERLAYS[0]), (second, UNDERLAYS[1]), (second, far),
        ]  # fmt: skip

    def make_link(self) -> None:
        """Make the link between the hosts. Its devices end with the namespace of either host."""
        first, second = self.hosts
        mtu = LINK_MTU_BYTES[self.value]
        (near, far), (near_ip, far_ip) = UNDERLAYS, ADDRESSES
        first.batch(
            "ip",
            [
                *veth_lines([(near, far)]),
                f"link set dev {near} mtu {mtu}",
                f"address add {near_ip}/24 dev {near}",
                f"link set dev {far} netns {second.name}",
            ],
        )
        second.batch(
            "ip",
            [
                f"link set dev {far} mtu {mtu} up",
                f"address add {far_ip}/24 dev {far}",
            ],
        )

    def join_bridges(self, bridges: Sequence[str]) -> None:
        """Make the VXLAN devices ports of these bridges, one in each host, which become one
        network of Ethernet."""
        for side, bridge in enumerate(bridges):
            lines = [*self._device_lines(side), f"link set dev {OVERLAYS[side]} master {bridge}"]
            self.hosts[side].batch("ip", [*lines, f"link set dev {OVERLAYS[side]} up"])

    def route_subnets(self, subnets: Sequence[IPv4Network]) -> None:
        """Route the subnet of each host over the VXLAN devices, as Flannel does: the first address
        of a subnet is that of its VXLAN device, which is a static neighbour of the other one."""
        for side, host in enumerate(self.hosts):
            device, other = OVERLAYS[side], 1 - side
            local, remote = subnets[side], subnets[other]
            host.batch(
                "ip",
                [
                    *self._device_lines(side),
                    f"address add {local.network_address}/32 dev {device}",
                    f"link set dev {device} up",
                    f"neighbor replace {remote.network_address} lladdr {VXLAN_MACS[other]} "
                    f"dev {device} nud permanent",
                    f"route add {remote} via {remote.network_address} dev {device} onlink",
                ],
            )

    def _device_lines(self, side: int) -> list[str]:
        other = 1 - side
        return [
            f"link add {OVERLAYS[side]} address {VXLAN_MACS[side]} mtu {self.mtu_bytes} type vxlan "
            f"id {VNI} local {ADDRESSES[side]} remote {ADDRESSES[other]} dstport {VXLAN_PORT} "
            f"dev {UNDERLAYS[side]} nolearning"
        ]

    def details(self) -> dict[str, str]:
        """The settings of the overlay, for the record."""
        return {
            "overlay": f"VXLAN {VNI} over UDP port {VXLAN_PORT} between two network namespaces",
            "overlay_mtu": f"{self.mtu_bytes} inside, {LINK_MTU_BYTES[self.value]} outside",
        }
