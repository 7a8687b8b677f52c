"""`direct`: no switch at all, the wire itself.

The environment joins each pair by one wire (`create_wire`). What a pair reaches here is
the ceiling of the engine on this machine and port kind, from which headroom is read. Between
hosts the wire is the cable: each end of it is lent to an application.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.host.host import Session
from switchmark.model.capabilities import Availability, Capabilities, available
from switchmark.model.ports import ConnectMode, PortKind, SwitchCounters, SwitchPort
from switchmark.switch.support.ports import check_request
from switchmark.switch.support.tools import kernel_release


class Direct:
    """The wire between the two ends of each pair."""

    name = "direct"
    cable = ""  # its two ends, where it is one between hosts
    capabilities = Capabilities(
        port_kinds=(PortKind.VHOST_USER, PortKind.VETH, PortKind.MEMIF),
        connect_modes=(ConnectMode.CROSS_CONNECT,),
        polling=False,
        in_kernel=True,
        keeps_offloads=True,
        description="no switch: the two ports of a pair are joined (the baseline)",
    )

    def availability(self) -> Availability:
        """Always available; the version is that of the kernel, whose veth may be the wire."""
        return available(f"no switch (Linux {kernel_release()})")

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Start nothing; refuse what a wire cannot be."""
        del session, cores
        check_request(self.name, self.capabilities, ports, mode)

    def wait_ports_up(self, timeout_s: float) -> None:
        """Return at once: a wire is up as soon as the environment has made it."""

    def wait_converged(self) -> None:
        """Return at once: a wire learns nothing."""

    def counters(self) -> SwitchCounters:
        """No counters: a wire counts nothing."""
        return SwitchCounters()

    def alive(self) -> str | None:
        """None: a wire does not die."""
        return None

    def process_ids(self) -> Sequence[int]:
        """Empty: a wire has no process."""
        return ()

    def details(self) -> dict[str, str]:
        """What stands in a record."""
        found = {"version": str(self.availability().version)}
        if self.cable:
            return found | {"datapath": "none", "cable": self.cable}
        return found | {"datapath": "none: a wire for each pair"}

    def stop(self) -> None:
        """Undo nothing: the environment owns the wire."""
