"""A switch on each of two hosts, with a cable between them, seen as one switch.

Each host has an instance of its own. The last port of this host's and the first port of the
other host's are the two ends of the cable; all others are ports of nodes. So a path crosses the
cable once, wherever it is cut in two. Counters are those of both, the ends of the cable behind
all ports of nodes.
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

CABLE_MAC = "02:53:4d:ff:ff:02"  # nobody has it: many addresses lie behind a cable


class FarSwitch(StartedSwitch, Protocol):
    """The other host's switch, as far as a trial uses it."""

    small_pages: bool  # see `HasPages`

    def make_ports(self, wanted: Sequence[SwitchPort]) -> list[MadePort]:
        """See `MakesPorts`."""
        ...

    def start(self, ports: Sequence[SwitchPort], mode: ConnectMode) -> None:
        """Start it on the cores that its host gives it."""
        ...

    def check_facing(self, device: str, mtu_bytes: int) -> None:
        """Raise UnavailableError where the interface cannot be lent to it."""
        ...


@dataclass(frozen=True, slots=True)
class CableEnds:
    """The interfaces that face each other, and which ports of nodes lie beyond the cable."""

    near: str
    far: str
    far_ports: frozenset[int]


class AcrossHosts:
    """Both switches, and what lies between them."""

    def __init__(self, near: Switch, far: FarSwitch, cable: CableEnds) -> None:
        self.name = near.name
        self.capabilities = near.capabilities
        self.near = near
        self.far = far
        self.cable = cable
        self._near_indexes: list[int] = []  # of each port of this host's, its number in the whole
        self._far_indexes: list[int] = []
        self._far_started = False

    @property
    def small_pages(self) -> bool:
        """Return True if the memory of both switches lies on small pages; see `HasPages`."""
        return self.far.small_pages

    @small_pages.setter
    def small_pages(self, chosen: bool) -> None:
        self.far.small_pages = chosen
        if isinstance(self.near, HasPages):
            self.near.small_pages = chosen

    def __copy__(self) -> AcrossHosts:
        """For one run: the copy starts a switch of its own here. The other host's is a stand-in,
        which learns nothing by running."""
        return AcrossHosts(copy(self.near), self.far, self.cable)

    def availability(self) -> Availability:
        """Whether this host can run it; the other one is asked when the connection to it is
        opened."""
        return self.near.availability()

    def make_ports(self, session: Session, wanted: Sequence[SwitchPort]) -> list[MadePort]:
        """Have each switch make the ports of its own host, numbered as it will be started with
        them."""
        if not isinstance(self.near, MakesPorts):
            raise UsageError(f"{self.name}: it makes no ports itself")
        near, far = self._shared_out(wanted)
        self._far_started = True  # from now on there is something to stop
        made = [*self.near.make_ports(session, near), *self.far.make_ports(far)]
        order = [port.index for port in wanted if port.index not in self.cable.far_ports]
        order += [port.index for port in wanted if port.index in self.cable.far_ports]
        found = dict(zip(order, made, strict=True))
        return [found[port.index] for port in wanted]

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Lend each switch its end of the cable, and start both."""
        mtu_bytes = max(port.mtu_bytes for port in ports)
        check_facing(session.host, self.cable.near, mtu_bytes)
        self.far.check_facing(self.cable.far, mtu_bytes)
        near, far = self._shared_out(ports)
        self._far_started = True
        self.far.start(far, mode)
        self.near.start(session, near, mode, cores)

    def _shared_out(self, ports: Sequence[SwitchPort]) -> tuple[list[SwitchPort], list[SwitchPort]]:
        """The ports of this host's switch and of the other's, the cable's end the last and the
        first."""
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
        """Wait for both switches: the cable's ends have a carrier once both are up."""
        self.near.wait_ports_up(timeout_s)
        self.far.wait_ports_up(timeout_s)

    def wait_converged(self) -> None:
        """Wait until both switches have converged."""
        self.near.wait_converged()
        self.far.wait_converged()

    def counters(self) -> SwitchCounters:
        """The counters of all ports, and of both witnesses."""
        near, far = self.near.counters(), self.far.counters()
        ports = {self._near_indexes[index]: one for index, one in near.ports.items()}
        ports |= {self._far_indexes[index]: one for index, one in far.ports.items()}
        seen = [one.witness_rx_frames for one in (near, far) if one.witness_rx_frames is not None]
        return SwitchCounters(ports, sum(seen) if seen else None)

    def alive(self) -> str | None:
        """How one of them died; None while both run."""
        return self.near.alive() or self.far.alive()

    def process_ids(self) -> Sequence[int]:
        """The processes of this host, whose CPU time is measured here."""
        return self.near.process_ids()

    def details(self) -> dict[str, str]:
        """This host's details, and the other's under names of their own."""
        far = {f"far:{name}": text for name, text in self.far.details().items()}
        return {**self.near.details(), "cable": f"{self.cable.near} to {self.cable.far}", **far}

    def stop(self) -> None:
        """Stop both switches, whatever happens to one of them."""
        try:
            self.near.stop()
        finally:
            if self._far_started:
                self._far_started = False
                self.far.stop()


def cable_port(name: str, mtu_bytes: int) -> SwitchPort:
    """The end of a cable, an interface or a PCI address, as a port of a switch."""
    device, pci = (name, None) if end_of(name) is CableEnd.INTERFACE else (None, pci_address(name))
    return SwitchPort(0, PortKind.VETH, CABLE_MAC, device, mtu_bytes=mtu_bytes, cable=True, pci=pci)


def _numbered(ports: Sequence[SwitchPort]) -> list[SwitchPort]:
    return [replace(port, index=index) for index, port in enumerate(ports)]
