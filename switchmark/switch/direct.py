"""`direct`: no switch; the two ports of a pair are connected.

The environment connects each pair (`create_wire`). The rate of a pair is the limit of the engine on
this machine and port kind. Between hosts, each application has one end of the cable.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.host.host import Session
from switchmark.model.capabilities import Availability, Capabilities, available
from switchmark.model.ports import ConnectMode, PortKind, SwitchCounters, SwitchPort
from switchmark.switch.support.ports import check_request
from switchmark.switch.support.tools import kernel_release


class Direct:
    """The connection between the two ends of each pair."""

    name = "direct"
    cable = ""  # the two ends of the cable between hosts
    capabilities = Capabilities(
        port_kinds=(PortKind.VHOST_USER, PortKind.VETH, PortKind.MEMIF),
        connect_modes=(ConnectMode.CROSS_CONNECT,),
        polling=False,
        in_kernel=True,
        keeps_offloads=True,
        description="no switch: the two ports of a pair are connected (the baseline)",
    )

    def availability(self) -> Availability:
        """Always available; the version is that of the kernel, which has the veth devices."""
        return available(f"no switch (Linux {kernel_release()})")

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Start nothing; refuse an impossible connect mode."""
        del session, cores
        check_request(self.name, self.capabilities, ports, mode)

    def wait_ports_up(self, timeout_s: float) -> None:
        """Return at once, since the environment has connected the ports."""

    def wait_converged(self) -> None:
        """Return at once, since there is no switch that learns."""

    def counters(self) -> SwitchCounters:
        """Return no counters."""
        return SwitchCounters()

    def alive(self) -> str | None:
        """Return None, since there is no process."""
        return None

    def process_ids(self) -> Sequence[int]:
        """Return an empty list."""
        return ()

    def details(self) -> dict[str, str]:
        """Return the details for the record."""
        found = {"version": str(self.availability().version)}
        if self.cable:
            return found | {"datapath": "none", "cable": self.cable}
        return found | {"datapath": "none: the ports of a pair are connected"}

    def stop(self) -> None:
        """Undo nothing, since the environment has made the connection."""
