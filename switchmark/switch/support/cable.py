"""Makes the end of a cable (to another host, or a tester) a port of a switch's program.

There are two ways. A switch gets an interface of the host, which it uses through one of DPDK's
drivers for kernel interfaces, or through a socket. Or DPDK drives a NIC, which has a PCI address.
Switches on DPDK get the options of all ports from `eal_devices`, also for the cable.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.errors import UsageError
from switchmark.host.kernel.pci import pci_address
from switchmark.model.capabilities import SwitchOption
from switchmark.model.ports import CableEnd, PortCounters, SwitchCounters, SwitchPort
from switchmark.switch.support.ports import LONGEST_MTU_BYTES, device_of, lent_of, socket_of
from switchmark.switch.support.private import Namespace, Resources

DPDK_ENDS = (CableEnd.INTERFACE, CableEnd.PCI)  # ends that every switch on DPDK supports
DRIVERS = {"af-packet": "net_af_packet", "af-xdp": "net_af_xdp"}  # for an interface of the host

CABLE_DRIVER = SwitchOption(
    "cable_driver",
    "driver of DPDK for the interface of a cable (`location: remote`, `nics`)",
    "af-packet",
    tuple(DRIVERS),
)


def end_of(name: str) -> CableEnd:
    """Return the kind of a cable end in a testbed file: an interface or a PCI address."""
    return CableEnd.INTERFACE if pci_address(name) is None else CableEnd.PCI


def devargs(name: str, port: SwitchPort, driver: str) -> str:
    """Return a port as DPDK's device arguments; the switch's name is for messages. A vhost-user
    port is the client of its application's socket, and a device has a DPDK driver for
    interfaces."""
    if port.pci is not None:
        return port.pci
    if port.device is None:
        return f"net_vhost{port.index},iface={socket_of(port)},client=1"
    if port.mtu_bytes > LONGEST_MTU_BYTES:
        raise UsageError(
            f"{name}: on a device of the kernel the MTU is at most {LONGEST_MTU_BYTES} bytes, not "
            f"{port.mtu_bytes}",
            remedy="use a packet_size up to 1518",
        )
    return f"{DRIVERS[driver]}{port.index},iface={device_of(port)}"


def eal_devices(name: str, ports: Sequence[SwitchPort], driver: str) -> list[str]:
    """Return EAL's options that open all ports, and no other device of the host."""
    arguments = [] if any(port.pci for port in ports) else ["--no-pci"]
    for port in ports:
        arguments += ["-a" if port.pci else "--vdev", devargs(name, port, driver)]
    return arguments


def ethdev_numbers(ports: Sequence[SwitchPort]) -> dict[int, int]:
    """Return DPDK's number of each port's device. Devices of the PCI bus come first, by address."""
    ordered = sorted(ports, key=lambda port: (port.pci is None, port.pci or ""))
    return {port.index: number for number, port in enumerate(ordered)}


def adopt_ports(resources: Resources, ports: Sequence[SwitchPort]) -> Namespace | None:
    """Make a namespace for the switch, and move its ports that are devices into it. Return None
    without such ports."""
    devices = [port.device for port in ports if port.device is not None]
    if not devices:
        return None
    namespace = resources.namespace()
    namespace.adopt(devices, lent_of(ports))
    return namespace


class AtInterface:
    """The kernel's counters at ports that are devices, such as the ends of cables. A switch that
    uses an interface through a socket counts neither the frames that found the socket full, nor
    those that the interface failed to send."""

    def __init__(self, namespace: Namespace | None, ports: Sequence[SwitchPort]) -> None:
        self._ends = [port for port in ports if port.device is not None]
        self._namespace = namespace if self._ends else None
        self._before = namespace.link_counters() if namespace and self._ends else {}

    def added(self, counted: SwitchCounters) -> SwitchCounters:
        """Return the switch's counters with those of the interface added. Call it right after the
        switch's counters were read."""
        if self._namespace is None:
            return counted
        now = self._namespace.link_counters()
        ports = dict(counted.ports)
        for port in self._ends:
            before = self._before.get(device_of(port), PortCounters(0, 0))
            passed = now.get(device_of(port), before).since(before)
            ports[port.index] = at_interface(ports[port.index], passed.rx_frames, passed.tx_frames)
        return SwitchCounters(ports, counted.witness_rx_frames)


def at_interface(counted: PortCounters, rx_frames: int, tx_frames: int) -> PortCounters:
    """Return a switch's counters of a port, corrected by the frames that the interface received and
    sent. An interface with fewer received frames, or without sent frames, does not count frames
    that bypass the kernel."""
    received = max(counted.rx_frames, rx_frames)
    sent = min(counted.tx_frames, tx_frames) if tx_frames else counted.tx_frames
    return PortCounters(
        rx_frames=received,
        tx_frames=sent,
        rx_dropped=counted.rx_dropped + received - counted.rx_frames,
        tx_dropped=counted.tx_dropped + counted.tx_frames - sent,
    )
