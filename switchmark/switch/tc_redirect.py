"""`tc-redirect`: the kernel's shortest path between two devices, without any switch.

A traffic-control filter at the ingress of each port hands every frame to the other port
of its pair. It is to the Linux bridge what a patch cable is to a switch: the difference
between the two is the cost of bridging.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.switch.base import Capabilities, ConnectMode, PortKind, Probe
from switchmark.switch.changes import PORTS, RULES, Change
from switchmark.switch.in_kernel import InKernelSwitch
from switchmark.switch.ports import device_of, peer_index
from switchmark.switch.tools import kernel_has, kernel_release, not_root, which

_ALL = "protocol all prio 1 u32 match u32 0 0"  # a filter that takes every frame


class TcRedirect(InKernelSwitch):
    """Each port's frames leave through the other port of its pair."""

    name = "tc-redirect"
    capabilities = Capabilities(
        port_kinds=(PortKind.VETH, PortKind.TAP),
        connect_modes=(ConnectMode.CROSS_CONNECT,),
        polling=False,
        in_kernel=True,
        reconfigures=True,
        description="tc filters that redirect each port to its peer, in the kernel",
    )

    def probe(self) -> Probe:
        """Available where the kernel has the filter and the action it is made of."""
        if (answer := not_root()) is not None:
            return answer
        if which("tc") is None:
            return Probe(False, reason="program `tc` not found", remedy="apt install iproute2")
        parts = {"cls_u32": "u32_init", "act_mirred": "tcf_mirred_init"}
        missing = [module for module, function in parts.items() if not kernel_has(module, function)]
        if missing:
            return Probe(
                False,
                reason=f"Linux {kernel_release()} has no {' and no '.join(missing)}",
                remedy="use a kernel with CONFIG_NET_CLS_U32 and CONFIG_NET_ACT_MIRRED",
            )
        return Probe(True, version=f"Linux {kernel_release()}")

    def connect(self) -> None:
        """Two lines a port: a hook at its ingress, and a filter that takes every frame."""
        lines = []
        for port in self.ports:
            device, peer = device_of(port), device_of(self.ports[peer_index(port.index)])
            lines.append(f"qdisc add dev {device} clsact")
            lines.append(
                f"filter add dev {device} ingress {_ALL} action mirred egress redirect dev {peer}"
            )
        self.namespace.batch("tc", lines)

    def changes(self) -> Sequence[Change]:
        """Hooked ports without anybody behind them, and filters behind the one that takes all."""
        ends = [(f"sm{self.session.id}n{k}", f"sm{self.session.id}m{k}") for k in range(PORTS)]
        join = [f"link add {port} type veth peer name {far}" for port, far in ends]
        join += [f"link set dev {device} up" for pair in ends for device in pair]
        hook = [
            line
            for port, far in ends
            for line in (
                f"qdisc add dev {port} clsact",
                f"filter add dev {port} ingress {_ALL} action mirred egress redirect dev {far}",
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
            self.namespace.batch("ip", join)
            self.namespace.batch("tc", hook)

        return [
            Change(f"{PORTS} ports added", add_ports),
            Change(f"{PORTS} ports removed", lambda: self.namespace.batch("ip", part)),
            Change(f"{RULES} rules added", lambda: self.namespace.batch("tc", learn)),
            Change(f"{RULES} rules removed", lambda: self.namespace.batch("tc", forget)),
        ]

    def fault(self) -> str | None:
        """Whether a port has lost its hook."""
        hooked = {
            hook["dev"]
            for hook in self.namespace.query("tc", "qdisc", "show")
            if hook["kind"] == "clsact"
        }
        lost = [device for device in map(device_of, self.ports) if device not in hooked]
        return f"{', '.join(lost)} lost its redirect" if lost else None

    def details(self) -> dict[str, str]:
        """What stands in a record."""
        return {
            "version": f"Linux {kernel_release()}",
            "datapath": "kernel, tc ingress: u32 match all, mirred egress redirect",
            "connect_mode": self.mode.value,
        }
