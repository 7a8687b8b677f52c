"""The base of switches made of traffic-control filters, and their changes while they run."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.model.changes import Change
from switchmark.switch.support.changes import PORTS, RULES
from switchmark.switch.support.in_kernel import InKernelSwitch, veth_lines
from switchmark.switch.support.ports import device_of

# A filter that takes every frame; `redirect dev ...` says where to.
EVERY_FRAME = "protocol all prio 1 u32 match u32 0 0 action mirred egress"


class FilterSwitch(InKernelSwitch):
    """A switch that is filters at the ingress of its ports; ports and filters can be added and
    removed."""

    def changes(self) -> Sequence[Change]:
        """Adding hooked ports with nobody behind them, and filters behind the one that takes all;
        removing both."""
        ends = self.spare_veths()
        hook = [
            line
            for port, far in ends
            for line in (
                f"qdisc add dev {port} clsact",
                f"filter add dev {port} ingress {EVERY_FRAME} redirect dev {far}",
            )
        ]
        part = [f"link del {port}" for port, _ in ends]
        device, peer = device_of(self.ports[0]), device_of(self.ports[1])
        learn = [
            f"filter add dev {device} ingress protocol all prio 2 u32 "
            f"match u32 0x0e5a 0xffff at -16 match u32 {k} 0xffffffff at -12 "
            f"action mirred egress redirect dev {peer}"
            for k in range(RULES)
        ]
        forget = [f"filter del dev {device} ingress prio 2"]

        def add_ports() -> None:
            self.namespace.batch("ip", veth_lines(ends))
            self.namespace.batch("tc", hook)

        return [
            Change(f"{PORTS} ports added", add_ports),
            Change(f"{PORTS} ports removed", lambda: self.namespace.batch("ip", part)),
            Change(f"{RULES} rules added", lambda: self.namespace.batch("tc", learn)),
            Change(f"{RULES} rules removed", lambda: self.namespace.batch("tc", forget)),
        ]
