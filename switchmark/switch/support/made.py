"""The base of switches that make their ports themselves, as devices for the nodes.

A macvlan or a virtual function is at once a port of the switch and a device of the node. The
counters of the port are therefore those of the device inside the node: a frame that the device
received has left the switch, and a frame that it sent has entered the switch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from switchmark.errors import UnavailableError
from switchmark.host.host import Session
from switchmark.host.kernel import device_counters
from switchmark.model.ports import ConnectMode, MadePort, PortCounters, SwitchCounters, SwitchPort
from switchmark.switch.support.in_kernel import InKernelSwitch
from switchmark.switch.support.ports import check_request, require
from switchmark.switch.support.private import Resources


class MadeFirst(InKernelSwitch):
    """A switch inside the kernel or a NIC whose ports are made before the nodes. A subclass defines
    how to `make` them."""

    @abstractmethod
    def make(self, ports: Sequence[SwitchPort]) -> list[MadePort]:
        """Make the switch and these ports; `self.session` and `self.resources` exist."""

    def make_ports(self, session: Session, ports: Sequence[SwitchPort]) -> list[MadePort]:
        """Make the ports in the bench's namespace; remove everything after an error."""
        require(self.name, self.availability())
        check_request(self.name, self.capabilities, ports, self.capabilities.connect_modes[0])
        self.session, self._resources = session, Resources(session)
        try:
            return self.make(ports)
        except BaseException as error:
            try:
                self.stop()
            except OSError as problem:  # the ledger keeps the entry
                error.add_note(f"and taking it down failed: {problem}")
            raise


class PortMakingSwitch(MadeFirst):
    """A switch whose ports are network devices that are connected as soon as they exist."""

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Store the places of its ports, because it already forwards."""
        del cores
        if self._resources is None:
            require(self.name, self.availability())
        check_request(self.name, self.capabilities, ports, mode)
        self.session, self.ports, self.mode = session, tuple(ports), mode
        if self._resources is None:
            names = ", ".join(str(port.device or port.index) for port in ports)
            raise UnavailableError(f"{self.name}: ports {names}: it makes its ports itself")
        if away := self._away():
            self.stop()
            raise UnavailableError(f"{self.name}: {away} is gone")
        self._first = self._raw_counters()
        self._before = self.namespace.link_counters()

    def connect(self) -> None:
        """Do nothing, because the ports are already connected."""

    def wait_ports_up(self, timeout_s: float) -> None:
        """Return at once, because the nodes have already set up their ports."""

    def counters(self) -> SwitchCounters:
        """Return the counters of the devices in the nodes, and of the monitor port."""
        now = self._raw_counters()
        ports = {index: after.since(self._first[index]) for index, after in now.items()}
        return SwitchCounters(ports, self.flooded(self.namespace.link_counters()))

    def _raw_counters(self) -> dict[int, PortCounters]:
        """Return the counters since the devices exist. Drops of a device count as its node's."""
        counted = {}
        for port in self.ports:
            if port.far_device is not None:
                received, sent = device_counters.device_frames(port.far_netns, port.far_device)
                counted[port.index] = PortCounters(rx_frames=sent, tx_frames=received)
        return counted

    def _away(self) -> str:
        """Return the ports that are not in their nodes, for a message; empty if all are."""
        missing = []
        for port in self.ports:
            try:
                if port.far_device is not None:
                    device_counters.device_frames(port.far_netns, port.far_device)
            except OSError:
                missing.append(f"port {port.index} ({port.far_device} in {port.far_netns})")
        return ", ".join(missing)

    def fault(self) -> str | None:
        """Return why it no longer forwards, if a port is gone; None otherwise."""
        return f"{away} is gone" if (away := self._away()) else None
