"""Makes the end of a cable (to another host, or a tester) a port of a switch's program.

There are two ways, whatever the switch: an interface of the host's is lent to it, and reached by
one of DPDK's drivers for kernel interfaces or by a socket; a NIC that DPDK drives is named by its
PCI address. Switches on DPDK take all their ports from `eal_devices`, the cable as any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.errors import UsageError
from switchmark.host.kernel.pci import pci_address
from switchmark.model.capabilities import SwitchOption
from switchmark.model.ports import CableEnd, PortCounters, SwitchCounters, SwitchPort
from switchmark.switch.support.ports import LONGEST_MTU_BYTES, device_of, lent_of, socket_of
from switchmark.switch.support.private import Namespace, Resources

DPDK_ENDS = (CableEnd.INTERFACE, CableEnd.PCI)  # what every switch on DPDK takes
DRIVERS = {"af-packet": "net_af_packet", "af-xdp": "net_af_xdp"}  # of a host's own interface

CABLE_DRIVER = SwitchOption(
    "cable_driver",
    "driver of DPDK for the interface of a cable (`location: remote`, `nics`)",
    "af-packet",
    tuple(DRIVERS),
)


def end_of(name: str) -> CableEnd:
    """The kind of cable end that a testbed file names: an interface or a PCI address."""
    return CableEnd.INTERFACE if pci_address(name) is None else CableEnd.PCI


def devargs(name: str, port: SwitchPort, driver: str) -> str:
    """A port as DPDK's device arguments (the switch's name is for messages). A vhost-user port is
    the client of its application's socket, a device has one of DPDK's drivers for interfaces."""
    if port.pci is not None:
        return port.pci
    if port.device is None:
        return f"net_vhost{port.index},iface={socket_of(port)},client=1"
    if port.mtu_bytes > LONGEST_MTU_BYTES:
        raise UsageError(
            f"{name}: over a device of the kernel its frames have up to {LONGEST_MTU_BYTES} bytes "
            f"behind the header, not {port.mtu_bytes}",
            remedy="use a packet_size up to 1518",
        )
    return f"{DRIVERS[driver]}{port.index},iface={device_of(port)}"


def eal_devices(name: str, ports: Sequence[SwitchPort], driver: str) -> list[str]:
    """EAL's options that open all ports, and no other device of the host's."""
    words = [] if any(port.pci for port in ports) else ["--no-pci"]
    for port in ports:
        words += ["-a" if port.pci else "--vdev", devargs(name, port, driver)]
    return words


def ethdev_numbers(ports: Sequence[SwitchPort]) -> dict[int, int]:
    """DPDK's number of each port's device: those of the PCI bus come first, by their addresses."""
    ordered = sorted(ports, key=lambda port: (port.pci is None, port.pci or ""))
    return {port.index: number for number, port in enumerate(ordered)}


def take_in(resources: Resources, ports: Sequence[SwitchPort]) -> Namespace | None:
    """A namespace for the switch with those of its ports that are devices in it; None where
    there are none."""
    devices = [port.device for port in ports if port.device is not None]
    if not devices:
        return None
    namespace = resources.namespace()
    namespace.adopt(devices, lent_of(ports))
    return namespace


class AtInterface:
    """The kernel's counters at ports that are devices, such as the ends of cables. A switch that
    reaches an interface by a socket sees neither the frames that found no room in it, nor those
    that the interface did not send after all."""

    def __init__(self, namespace: Namespace | None, ports: Sequence[SwitchPort]) -> None:
        self._ends = [port for port in ports if port.device is not None]
        self._namespace = namespace if self._ends else None
        self._before = namespace.link_counters() if namespace and self._ends else {}

    def added(self, counted: SwitchCounters) -> SwitchCounters:
        """The switch's own counters with those of the interface added; call it right after they
        were read."""
        if self._namespace is None:
            return counted
        now = self._namespace.link_counters()
        ports = dict(counted.ports)
        for port in self._ends:
            before = self._before.get(device_of(port), PortCounters(0, 0))
            passed = now.get(device_of(port), before).since(before)
            ports[port.index] = at_interface(ports[port.index], passed.rx_frames, passed.tx_frames)
        return SwitchCounters(ports, counted.witness_rx_frames)


def at_interface(own: PortCounters, rx_frames: int, tx_frames: int) -> PortCounters:
    """A switch's counters of a port, where so many frames came to the interface and left it. (An
    interface that counts fewer received, or none sent, does not count what bypasses the kernel.)"""
    received = max(own.rx_frames, rx_frames)
    sent = min(own.tx_frames, tx_frames) if tx_frames else own.tx_frames
    return PortCounters(
        rx_frames=received,
        tx_frames=sent,
        rx_dropped=own.rx_dropped + received - own.rx_frames,
        tx_dropped=own.tx_dropped + own.tx_frames - sent,
    )
