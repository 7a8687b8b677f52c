"""`ovs-netdev`: Open vSwitch's userspace datapath without DPDK, its ports reached by AF_PACKET.

The switch daemon's main thread does all forwarding and sleeps when there is nothing to do,
so it does not poll, and one core is all it can use.
"""

from __future__ import annotations

from dataclasses import replace

from switchmark.model.ports import PortCounters
from switchmark.switch.support.ovs_caches import CACHE_OPTIONS, WithCaches
from switchmark.switch.support.ovs_switch import COMMON, OvsSwitch


class OvsNetdev(WithCaches, OvsSwitch):
    """Open vSwitch, userspace datapath, no DPDK."""

    name = "ovs-netdev"
    capabilities = replace(
        COMMON,
        description="Open vSwitch, userspace datapath over AF_PACKET, no DPDK",
        options=CACHE_OPTIONS,
    )

    def settings(self) -> dict[str, str]:
        """The settings of the caches."""
        return self.cache_settings()

    def details(self) -> dict[str, str]:
        """See `OvsSwitch`; and the options."""
        return super().details() | self.option_details()

    def _device_counters(self) -> dict[str, PortCounters]:
        """The counters, with the frames that found no room in the daemon's sockets: devices count
        them as received, and the daemon never sees them."""
        lost = self.instance.namespace.packet_socket_drops()
        return {
            name: replace(port, rx_dropped=port.rx_dropped + lost.get(name, 0))
            for name, port in super()._device_counters().items()
        }
