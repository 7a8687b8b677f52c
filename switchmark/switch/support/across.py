"""A switch on each of two hosts, with a cable between them, as one switch.

Each host has its own instance. The last port of the local instance and the first port of the remote
instance are the two ends of the cable; all others are ports of nodes. A path therefore crosses the
cable once. The counters are those of both instances, with the ends of the cable after all ports of
nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Protocol

from switchmark.errors import UsageError
from switchmark.host.host import Session
from switchmark.host.interface_check import check_facing
from switchmark.host.kernel.pci import pci_address
from switchmark.model.capabilities import Availability
from switchmark.model.ports import (
    CableEnd,
    ConnectMode,
    MadePort,
    PortKind,
    SwitchCounters,
    SwitchPort,
)
from switchmark.switch.support.base import HasPages, MakesPorts, StartedSwitch, Switch
from switchmark.switch.support.cable import end_of

CABLE_MAC = "02:53:4d:ff:ff:02"  # unused, since there are many addresses behind a cable


class FarSwitch(StartedSwitch, Protocol):
    """The switch of the remote host, as far as a trial uses it."""

    small_pages: bool  # see `HasPages`

    def make_ports(self, requested: Sequence[SwitchPort]) -> list[MadePort]:
        """See `MakesPorts`."""
        ...

    def start(self, ports: Sequence[SwitchPort], mode: ConnectMode) -> None:
        """Start it on the cores that its host has chosen."""
        ...

    def check_facing(self, device: str, mtu_bytes: int) -> None:
        """Raise UnavailableError if the interface cannot be its port."""
        ...


@dataclass(frozen=True, slots=True)
class CableEnds:
    """The two interfaces at the cable, and the ports of nodes on the remote host."""

    near: str
    far: str
    far_ports: frozenset[int]


class AcrossHosts:
    """Both switches with the cable between them."""

    def __init__(self, near: Switch, far: FarSwitch, cable: CableEnds) -> None:
        self.name = near.name
        self.capabilities = near.capabilities
        self.near = near
        self.far = far
        self.cable = cable
        self._near_indexes: list[int] = []  # number in the trial of each port of this host
        self._far_indexes: list[int] = []
        self._far_started = False

    @property
    def small_pages(self) -> bool:
        """Return True if the memory of both switches is on small pages; see `HasPages`."""
        return self.far.small_pages

    @small_pages.setter
    def small_pages(self, chosen: bool) -> None:
        self.far.small_pages = chosen
        if isinstance(self.near, HasPages):
            self.near.small_pages = chosen

    def __copy__(self) -> AcrossHosts:
        """Copy it for one run. The copy starts a separate switch here; the switch of the remote
        host is a proxy without state."""
        return AcrossHosts(copy(self.near), self.far, self.cable)

    def availability(self) -> Availability:
        """Return the availability on this host; the remote host is checked after the connection."""
        return self.near.availability()

    def make_ports(self, session: Session, requested: Sequence[SwitchPort]) -> list[MadePort]:
        """Make the ports by the switch of each host, with the numbers that its start will use."""
        if not isinstance(self.near, MakesPorts):
            raise UsageError(f"{self.name}: it makes no ports itself")
        near, far = self._shared_out(requested)
        self._far_started = True  # `stop` must now also stop the remote switch
        made_ports = [*self.near.make_ports(session, near), *self.far.make_ports(far)]
        order = [port.index for port in requested if port.index not in self.cable.far_ports]
        order += [port.index for port in requested if port.index in self.cable.far_ports]
        by_index = dict(zip(order, made_ports, strict=True))
        return [by_index[port.index] for port in requested]

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Start both switches, each with its end of the cable."""
        mtu_bytes = max(port.mtu_bytes for port in ports)
        check_facing(session.host, self.cable.near, mtu_bytes)
        self.far.check_facing(self.cable.far, mtu_bytes)
        near, far = self._shared_out(ports)
        self._far_started = True
        self.far.start(far, mode)
        self.near.start(session, near, mode, cores)

    def _shared_out(self, ports: Sequence[SwitchPort]) -> tuple[list[SwitchPort], list[SwitchPort]]:
        """Return the ports of the local switch with the end of the cable last, and those of the
        remote switch with the end of the cable first."""
        near = [port for port in ports if port.index not in self.cable.far_ports]
        far = [port for port in ports if port.index in self.cable.far_ports]
        mtu_bytes = max(port.mtu_bytes for port in ports)
        near_end, far_end = (
            cable_port(name, mtu_bytes) for name in (self.cable.near, self.cable.far)
        )
        self._near_indexes = [*(port.index for port in near), len(ports)]
        self._far_indexes = [len(ports) + 1, *(port.index for port in far)]
        return _numbered([*near, near_end]), _numbered([far_end, *far])

    def wait_ports_up(self, timeout_s: float) -> None:
        """Wait for both switches, because the cable's ends have a carrier when both are up."""
        self.near.wait_ports_up(timeout_s)
        self.far.wait_ports_up(timeout_s)

    def wait_converged(self) -> None:
        """Wait until both switches have converged."""
        self.near.wait_converged()
        self.far.wait_converged()

    def counters(self) -> SwitchCounters:
        """Return the counters of all ports, and of both monitor ports."""
        near, far = self.near.counters(), self.far.counters()
        ports = {self._near_indexes[index]: one for index, one in near.ports.items()}
        ports |= {self._far_indexes[index]: one for index, one in far.ports.items()}
        monitored = [
            one.witness_rx_frames for one in (near, far) if one.witness_rx_frames is not None
        ]
        return SwitchCounters(ports, sum(monitored) if monitored else None)

    def alive(self) -> str | None:
        """Return how one of them died; None while both run."""
        return self.near.alive() or self.far.alive()

    def process_ids(self) -> Sequence[int]:
        """Return the processes of this host, whose CPU time is measured here."""
        return self.near.process_ids()

    def details(self) -> dict[str, str]:
        """Return the details of this host, and those of the remote host under separate names."""
        far = {f"far:{name}": text for name, text in self.far.details().items()}
        return {**self.near.details(), "cable": f"{self.cable.near} to {self.cable.far}", **far}

    def stop(self) -> None:
        """Stop both switches, also if an error occurs at one of them."""
        try:
            self.near.stop()
        finally:
            if self._far_started:
                self._far_started = False
                self.far.stop()


def cable_port(name: str, mtu_bytes: int) -> SwitchPort:
    """Return the end of a cable, an interface or a PCI address, as a port of a switch."""
    device, pci = (name, None) if end_of(name) is CableEnd.INTERFACE else (None, pci_address(name))
    return SwitchPort(0, PortKind.VETH, CABLE_MAC, device, mtu_bytes=mtu_bytes, cable=True, pci=pci)


def _numbered(ports: Sequence[SwitchPort]) -> list[SwitchPort]:
    return [replace(port, index=index) for index, port in enumerate(ports)]
