"""`linux-bridge`: the kernel's own bridge, one for all pairs and a witness port.

Spanning tree, forward delay and multicast snooping are off, so that a port forwards at
once and nothing but the trial's traffic passes. `static-mac` turns learning and all
flooding off: what is not in the table is dropped.
"""

from __future__ import annotations

from switchmark.switch.base import Capabilities, ConnectMode, PortKind, Probe
from switchmark.switch.in_kernel import InKernelSwitch
from switchmark.switch.ports import device_of
from switchmark.switch.tools import kernel_has, kernel_release, not_root, which


class LinuxBridge(InKernelSwitch):
    """One bridge in a private network namespace."""

    name = "linux-bridge"
    capabilities = Capabilities(
        port_kinds=(PortKind.VETH,),
        connect_modes=(ConnectMode.LEARNING, ConnectMode.STATIC_MAC),
        polling=False,
        in_kernel=True,
        description="the kernel's bridge; forwards in the senders' softirq",
    )

    def probe(self) -> Probe:
        """Available where the kernel has a bridge; the version is the kernel's."""
        if (answer := not_root()) is not None:
            return answer
        if not kernel_has("bridge"):
            return Probe(
                False,
                reason=f"Linux {kernel_release()} has no bridge",
                remedy="use a kernel with CONFIG_BRIDGE",
            )
        if which("bridge") is None:
            return Probe(False, reason="program `bridge` not found", remedy="apt install iproute2")
        return Probe(True, version=f"Linux {kernel_release()}")

    def connect(self) -> None:
        """Make the bridge and its witness, enslave everything, write the table."""
        self._bridge = bridge = f"sm{self.session.id}br"
        inner, self.witness = f"sm{self.session.id}w0", f"sm{self.session.id}w1"
        members = [inner, *map(device_of, self.ports)]
        lines = [
            f"link add {bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f"link add {inner} type veth peer name {self.witness}",
            *(f"link set dev {member} master {bridge}" for member in members),
        ]
        if self.mode is ConnectMode.STATIC_MAC:
            closed = "learning off flood off mcast_flood off bcast_flood off"
            lines += [f"link set dev {member} type bridge_slave {closed}" for member in members]
        lines += [f"link set dev {device} up" for device in (inner, self.witness, bridge)]
        self.namespace.batch("ip", lines)
        if self.mode is ConnectMode.STATIC_MAC:
            table = [f"fdb add {p.mac} dev {device_of(p)} master static" for p in self.ports]
            self.namespace.batch("bridge", table)

    def fault(self) -> str | None:
        """Whether bridge or port have gone."""
        links = self.namespace.query("ip", "link", "show")
        masters = {link["ifname"]: link.get("master") for link in links if "UP" in link["flags"]}
        if self._bridge not in masters:
            return f"bridge {self._bridge} is gone or down in namespace {self.namespace.name}"
        lost = [d for d in map(device_of, self.ports) if masters.get(d) != self._bridge]
        return f"{', '.join(lost)} left bridge {self._bridge} or went down" if lost else None

    def details(self) -> dict[str, str]:
        """The settings as the kernel reports them."""
        found = {"version": f"Linux {kernel_release()}", "datapath": "kernel, senders' softirq"}
        for link in self.namespace.query("ip", "-d", "link", "show", "dev", self._bridge):
            settings = link["linkinfo"]["info_data"]
            for key in ("stp_state", "forward_delay", "ageing_time", "mcast_snooping"):
                found[key] = str(settings[key])
        hooks = self.namespace.sysctl("net.bridge.bridge-nf-call-iptables")
        return found | {
            "bridge-nf-call-iptables": hooks,
            "connect_mode": self.mode.value,
            "unknown_destination": "dropped" if self.mode is ConnectMode.STATIC_MAC else "flooded",
        }
