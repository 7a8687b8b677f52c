"""The base of switches made of traffic-control filters, and their changes while they run."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.function.support.table import FunctionTable
from switchmark.host.process_output import parsing
from switchmark.model.changes import Change
from switchmark.model.functions import FORWARD, FunctionEntries, FunctionSupport
from switchmark.model.ports import SwitchPort
from switchmark.switch.support.changes import PORTS, RULES
from switchmark.switch.support.in_kernel import InKernelSwitch, veth_lines
from switchmark.switch.support.ports import device_of

# A filter for every frame; `redirect dev ...` names the device.
EVERY_FRAME = "protocol all prio 1 u32 match u32 0 0 action mirred egress"

MIRRORS = {"mirror": FunctionSupport(bases=(FORWARD,), version="6.18")}


class FilterSwitch(InKernelSwitch):
    """A switch that consists of filters at the ingress of its ports; ports and filters can be added
    and removed. A mirror is an additional action of a filter."""

    function_table: FunctionTable | None = None

    def copy_action(self, port: SwitchPort) -> str:
        """Return the action that copies the frames of a port, to put before another action."""
        mirror = self.function_table.mirror if self.function_table else None
        if mirror is None or not mirror.copies or port.index != mirror.source:
            return ""
        return f"mirror dev {device_of(self.ports[mirror.monitor])} pipe action mirred egress "

    def function_entries(self) -> FunctionEntries:
        """Count the mirror actions in the kernel. They are loaded with the filters."""
        assert self.function_table is not None and self.function_table.mirror is not None
        mirror = self.function_table.mirror
        source = device_of(self.ports[mirror.source])
        filters = self.namespace.query("tc", "filter", "show", "dev", source, "ingress")
        with parsing("tc -j"):
            actions = [
                action["mirred_action"]
                for shown in filters
                for action in shown.get("options", {}).get("actions", ())
            ]
        return FunctionEntries(
            {"mirrors": int(mirror.copies)}, {"mirrors": actions.count("mirror")}
        )

    def changes(self) -> Sequence[Change]:
        """Return changes that add and remove unused ports with a filter, and filters that follow
        the filter for every frame."""
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
