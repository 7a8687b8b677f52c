"""The base of all switches inside the kernel, whose ports are devices in a namespace.

Such a switch forwards in the softirq of the sender's core, so it has neither a process nor a
separate core. The private namespace keeps the host's firewall off the measured path. Otherwise,
with `bridge-nf-call-iptables=1` (any machine with Docker), every bridged frame would pass the
firewall's rules, which may drop it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from switchmark.errors import TrialFailed
from switchmark.function.support.table import FunctionTable
from switchmark.host.host import Session
from switchmark.model.capabilities import Availability, Capabilities
from switchmark.model.ports import ConnectMode, PortCounters, SwitchCounters, SwitchPort
from switchmark.switch.support.changes import PORTS
from switchmark.switch.support.ports import check_request, device_of, lent_of, require
from switchmark.switch.support.private import Namespace, Resources, WithResources

POLL_S = 0.005
NONE_YET = PortCounters(0, 0)


def veth_lines(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return lines of `ip` that make these veth pairs and set both ends up."""
    lines = [f"link add {near} type veth peer name {far}" for near, far in pairs]
    return lines + [f"link set dev {device} up" for pair in pairs for device in pair]


class InKernelSwitch(WithResources, ABC):
    """A switch that is kernel configuration. A subclass defines how to `connect` the ports."""

    name: str
    capabilities: Capabilities
    namespace: Namespace
    session: Session
    ports: Sequence[SwitchPort] = ()
    mode: ConnectMode
    witness: str | None = None  # the monitor port's device, which receives flooded frames

    @abstractmethod
    def availability(self) -> Availability:
        """Return its availability on this machine, without a change of the machine."""

    @abstractmethod
    def connect(self) -> None:
        """Make the switch in `self.namespace`, in which the ports already are, and are up."""

    @abstractmethod
    def fault(self) -> str | None:
        """Return why the switch no longer forwards, or None."""

    @abstractmethod
    def details(self) -> dict[str, str]:
        """Return the version and every setting for the record."""

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Adopt the ports and connect them; `cores` have no meaning for a switch in the kernel."""
        del cores
        require(self.name, self.availability())
        check_request(self.name, self.capabilities, self._paired(ports), mode)
        self.session, self.ports, self.mode = session, tuple(ports), mode
        devices = self.ports_with_devices()
        try:
            if self._resources is None:  # ports that were made first are already in its namespace
                self._resources = Resources(session)
                self.namespace = self._resources.namespace()
            self.namespace.adopt(list(map(device_of, devices)), lent_of(devices))
            self.connect()
            self._before = self.namespace.link_counters()
        except BaseException:
            self.stop()
            raise

    def _paired(self, ports: Sequence[SwitchPort]) -> Sequence[SwitchPort]:
        """Return the ports of pairs: all except the monitor port of a mirror, which is the last."""
        table: FunctionTable | None = getattr(self, "function_table", None)
        return ports[:-1] if table is not None and table.mirror else ports

    @property
    def paired_ports(self) -> Sequence[SwitchPort]:
        """The ports that the switch connects, without a monitor port of a mirror."""
        return self._paired(self.ports)

    def make_witness(self) -> str:
        """Make the monitor port, one end of a veth pair; return the other end, a switch port."""
        inner, self.witness = f"sm{self.session.id}w0", f"sm{self.session.id}w1"
        self.namespace.batch("ip", veth_lines([(inner, self.witness)]))
        return inner

    def spare_veths(self) -> list[tuple[str, str]]:
        """Return the names of unused veth pairs, which are added and removed."""
        return [(f"sm{self.session.id}n{k}", f"sm{self.session.id}m{k}") for k in range(PORTS)]

    def wait_ports_up(self, timeout_s: float) -> None:
        """Wait until every port has its carrier."""
        deadline = time.monotonic() + timeout_s
        while waiting := self._without_carrier():
            if time.monotonic() > deadline:
                raise TrialFailed(
                    f"{self.name}: {', '.join(waiting)} without carrier after {timeout_s:g} s",
                    remedy="is the other end of the veth up?",
                )
            time.sleep(POLL_S)

    def _without_carrier(self) -> list[str]:
        """Return the port devices without a carrier, by one query for all."""
        links = self.namespace.query("ip", "link", "show")
        up = {link["ifname"] for link in links if "LOWER_UP" in link["flags"]}
        return [device for device in map(device_of, self.ports_with_devices()) if device not in up]

    def ports_with_devices(self) -> Sequence[SwitchPort]:
        """Return the ports that are devices in its namespace: all, if a subclass has no others."""
        return self.ports

    def wait_converged(self) -> None:
        """Return at once, because the kernel uses learnt addresses at once."""

    def counters(self) -> SwitchCounters:
        """Return the counters of the port devices since the start, without ports whose veth is
        gone."""
        now = self.namespace.link_counters()
        ports = {}
        for port in self.ports_with_devices():
            device = device_of(port)
            before = self._before.get(device, NONE_YET)
            counted = now.get(device, before).since(before)
            if port.cable:
                lost = counted.tx_dropped + self.namespace.queue_drops(device)
                counted = replace(counted, tx_dropped=lost)
            ports[port.index] = counted
        return SwitchCounters(ports, self.flooded(now))

    def flooded(self, links: Mapping[str, PortCounters]) -> int | None:
        """Return the frames at the monitor port since the start, by the counters of the namespace;
        None without a monitor port."""
        if self.witness is None:
            return None
        before = self._before.get(self.witness, NONE_YET)
        return links.get(self.witness, NONE_YET).since(before).rx_frames

    def alive(self) -> str | None:
        """Return None while the switch exists with all its ports."""
        if self._resources is None:
            return "not started"
        return self.fault()

    def process_ids(self) -> Sequence[int]:
        """Return an empty list, because it runs in the kernel in its callers' time."""
        return ()
