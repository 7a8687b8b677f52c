"""The base of switches that make their ports themselves, as devices for the nodes.

A macvlan or a virtual function is port of the switch and device of the node at once, so the
device's own counters, read inside the node, are the port's: what it received has left the switch
there, what it sent has entered.
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
    """A switch inside the kernel or a NIC whose ports are made first. A subclass says how to `make`
    them."""

    @abstractmethod
    def make(self, wanted: Sequence[SwitchPort]) -> list[MadePort]:
        """Make the switch and these ports; `self.session` and `self.resources` are there."""

    def make_ports(self, session: Session, wanted: Sequence[SwitchPort]) -> list[MadePort]:
        """Make the ports, in the bench's namespace; nothing stays when one of them fails."""
        require(self.name, self.availability())
        check_request(self.name, self.capabilities, wanted, self.capabilities.connect_modes[0])
        self.session, self._resources = session, Resources(session)
        try:
            return self.make(wanted)
        except BaseException:
            self.stop()
            raise


class PortMakingSwitch(MadeFirst):
    """One whose ports are network devices, and connected as soon as they are made."""

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Note where its ports are now: it forwards already."""
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
        """Do nothing: the ports are connected as soon as they are made."""

    def wait_ports_up(self, timeout_s: float) -> None:
        """Return at once: a port is up when its node has set it up, which has happened."""

    def counters(self) -> SwitchCounters:
        """The counters of the devices in the nodes, and of the witness."""
        now = self._raw_counters()
        ports = {index: after.since(self._first[index]) for index, after in now.items()}
        return SwitchCounters(ports, self.flooded(self.namespace.link_counters()))

    def _raw_counters(self) -> dict[int, PortCounters]:
        """The counters since the devices were made. Drops of a device are counted as its node's."""
        counted = {}
        for port in self.ports:
            if port.far_device is not None:
                received, sent = device_counters.device_frames(port.far_netns, port.far_device)
                counted[port.index] = PortCounters(rx_frames=sent, tx_frames=received)
        return counted

    def _away(self) -> str:
        """The ports that are not where they belong, for a message; empty when all are."""
        missing = []
        for port in self.ports:
            try:
                if port.far_device is not None:
                    device_counters.device_frames(port.far_netns, port.far_device)
            except OSError:
                missing.append(f"port {port.index} ({port.far_device} in {port.far_netns})")
        return ", ".join(missing)

    def fault(self) -> str | None:
        """Why it no longer forwards: a port has gone. None while all are there."""
        return f"{away} is gone" if (away := self._away()) else None
