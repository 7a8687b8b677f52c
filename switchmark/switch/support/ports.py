"""Checks of the ports, the connect mode and the cores of a switch.

The messages name the switch, the value and the remedy, and are the same for every switch.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence

from switchmark.errors import UnavailableError, UsageError
from switchmark.host.process_output import NOTHING
from switchmark.model.capabilities import Availability, Capabilities
from switchmark.model.ports import CableEnd, ConnectMode, SwitchPort
from switchmark.model.topology import mtu_bytes

# The address of a monitor port. If the table also has an entry for it, a switch that uses a wrong
# entry can be detected.
WITNESS_MAC = "02:53:4d:ff:ff:01"
LONGEST_MTU_BYTES = 1500  # if a frame is in one buffer of 2 KiB


def check_request(
    name: str, capabilities: Capabilities, ports: Sequence[SwitchPort], mode: ConnectMode
) -> None:
    """Raise `UsageError` if the switch `name` does not support these ports, mode and cores."""
    if not capabilities.can_connect(mode):
        supported = ", ".join(capabilities.connect_modes)
        raise UsageError(
            f"{name}: connect mode {mode} is not something it can do", remedy=f"it can: {supported}"
        )
    for port in ports:
        if port.cable:
            end = CableEnd.PCI if port.pci else CableEnd.INTERFACE
            if end not in capabilities.cable_ends:
                supported = ", ".join(capabilities.cable_ends) or capabilities.uncabled
                raise UsageError(
                    f"{name}: port {port.index} is a cable by {end}",
                    remedy=f"it takes: {supported}",
                )
        elif port.kind not in (*capabilities.port_kinds, *capabilities.application_ports):
            supported = ", ".join(capabilities.port_kinds)
            raise UsageError(
                f"{name}: port {port.index} is {port.kind}", remedy=f"it takes: {supported}"
            )
    cabled = any(port.cable for port in ports)  # many ports may be behind the cable
    odd = len(ports) % 2 and not cabled
    if not ports or odd or [port.index for port in ports] != list(range(len(ports))):
        indexes = ", ".join(str(port.index) for port in ports) or "none"
        raise UsageError(f"{name}: ports come in pairs, numbered from 0 (got: {indexes})")
    check_mtu(name, capabilities, ports)
    if capabilities.max_ports is not None and len(ports) > capabilities.max_ports:
        raise UsageError(f"{name}: {len(ports)} ports, it takes at most {capabilities.max_ports}")


def check_mtu(name: str, capabilities: Capabilities, ports: Sequence[SwitchPort]) -> None:
    """Raise `UsageError` for an MTU with longer frames than the switch supports."""
    longest = capabilities.longest_frame_bytes
    for port in ports:
        if longest is not None and port.mtu_bytes > mtu_bytes(longest):
            raise UsageError(
                f"{name}: port {port.index}: MTU {port.mtu_bytes} is above {mtu_bytes(longest)}: "
                f"the switch takes frames of up to {longest} bytes"
            )


def require(name: str, availability: Availability) -> None:
    """Raise `UnavailableError` with the availability's reason and remedy unless it is available."""
    if availability.refusal is not None:
        raise UnavailableError(availability.refusal.about(f"{name}: "))


def device_of(port: SwitchPort) -> str:
    """Return the device of a veth or tap port."""
    if port.device is None:
        raise UsageError(f"port {port.index}: a {port.kind} port needs the name of its device")
    return port.device


def lent_of(ports: Sequence[SwitchPort]) -> list[str]:
    """Return the devices among the ports that belong to the host, the ends of cables."""
    return [device_of(port) for port in ports if port.cable and port.pci is None]


def socket_of(port: SwitchPort) -> str:
    """Return the socket path of a vhost-user or memif port."""
    if port.socket is None:
        raise UsageError(f"port {port.index}: a {port.kind} port needs the path of its socket")
    return port.socket


def how_it_ended(exit_code: int | None, output: str) -> str:
    """Return an exit code as text (a negative code is a signal), with the end of the output."""
    if exit_code is None:
        how = "still runs"
    elif exit_code == -signal.SIGKILL:
        how = "was ended by SIGKILL, from another process or from the kernel for lack of memory"
    elif exit_code < 0:
        how = f"was ended by {signal.Signals(-exit_code).name}"
    else:
        how = f"ended with code {exit_code}"
    return how if output == NOTHING and exit_code == -signal.SIGKILL else f"{how}: {output}"


def peer_index(index: int) -> int:
    """Return the other end of the same pair: 0 <-> 1, 2 <-> 3, ..."""
    return index ^ 1
