"""`linux-bridge`: the kernel's own bridge, one for all pairs and a witness port.

Spanning tree, forward delay and multicast snooping are off, so that a port forwards at
once and nothing but the trial's traffic passes. `static-mac` turns learning and all
flooding off: what is not in the table is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.errors import SwitchmarkError, UnavailableError
from switchmark.switch.base import Capabilities, ConnectMode, PortKind, Probe, SwitchOption
from switchmark.switch.changes import PORTS, RULES, Change, rule_mac
from switchmark.switch.in_kernel import InKernelSwitch
from switchmark.switch.options import WithOptions
from switchmark.switch.ports import device_of
from switchmark.switch.tools import kernel_has, kernel_release, no_rights, which

VLAN = 1
READ_BACK = ("stp_state", "forward_delay", "ageing_time", "mcast_snooping", "vlan_filtering")


class LinuxBridge(WithOptions, InKernelSwitch):
    """One bridge in a private network namespace."""

    name = "linux-bridge"
    capabilities = Capabilities(
        port_kinds=(PortKind.VETH, PortKind.TAP),
        connect_modes=(ConnectMode.LEARNING, ConnectMode.STATIC_MAC),
        polling=False,
        in_kernel=True,
        runs_in=("host", "netns"),
        reconfigures=True,
        description="the kernel's bridge; forwards in the senders' softirq",
        options=(
            SwitchOption(
                "vlan_filtering",
                "the bridge looks up each frame's VLAN; all ports are untagged members of VLAN 1",
                "off",
                ("on", "off"),
            ),
            SwitchOption(
                "static_fdb",
                "the applications' addresses are written into the table before the trial (always "
                "so with `static-mac`); learning goes on beside it",
                "off",
                ("on", "off"),
            ),
        ),
    )

    def probe(self) -> Probe:
        """Available where the kernel has a bridge; the version is the kernel's."""
        if (answer := no_rights()) is not None:
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
        self._witness_port = inner
        members = [inner, *map(device_of, self.ports)]
        self._make_bridge()
        lines = [
            f"link add {inner} type veth peer name {self.witness}",
            *(f"link set dev {member} master {bridge}" for member in members),
        ]
        if self.mode is ConnectMode.STATIC_MAC:
            closed = "learning off flood off mcast_flood off bcast_flood off"
            lines += [f"link set dev {member} type bridge_slave {closed}" for member in members]
        lines += [f"link set dev {device} up" for device in (inner, self.witness, bridge)]
        self.namespace.batch("ip", lines)
        if self._has_table:
            vlan = f" vlan {VLAN}" if self._filters else ""
            table = [f"fdb add {p.mac} dev {device_of(p)} master static{vlan}" for p in self.ports]
            self.namespace.batch("bridge", table)

    def changes(self) -> Sequence[Change]:
        """Ports without anybody behind them, and table entries for addresses nobody has."""
        ends = [(f"sm{self.session.id}n{k}", f"sm{self.session.id}m{k}") for k in range(PORTS)]
        join = [
            line
            for port, far in ends
            for line in (
                f"link add {port} type veth peer name {far}",
                f"link set dev {port} master {self._bridge}",
                f"link set dev {far} up",
                f"link set dev {port} up",
            )
        ]
        part = [f"link del {port}" for port, _ in ends]
        vlan = f" vlan {VLAN}" if self._filters else ""
        entries = [f"{rule_mac(k)} dev {self._witness_port} master" for k in range(RULES)]
        learn = [f"fdb add {entry} static{vlan}" for entry in entries]
        forget = [f"fdb del {entry}{vlan}" for entry in entries]
        return [
            Change(f"{PORTS} ports added", lambda: self.namespace.batch("ip", join)),
            Change(f"{PORTS} ports removed", lambda: self.namespace.batch("ip", part)),
            Change(f"{RULES} table entries added", lambda: self.namespace.batch("bridge", learn)),
            Change(
                f"{RULES} table entries removed", lambda: self.namespace.batch("bridge", forget)
            ),
        ]

    def _make_bridge(self) -> None:
        settings = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        self.namespace.batch("ip", [f"link add {self._bridge} {settings}"])
        if not self._filters:
            return
        filtering = f"type bridge vlan_filtering 1 vlan_default_pvid {VLAN}"
        try:
            self.namespace.batch("ip", [f"link set dev {self._bridge} {filtering}"])
        except SwitchmarkError:
            raise UnavailableError(
                f"{self.name}: the bridge of Linux {kernel_release()} cannot filter VLANs; "
                "use a kernel with CONFIG_BRIDGE_VLAN_FILTERING, or vlan_filtering: off"
            ) from None

    @property
    def _filters(self) -> bool:
        return self.option("vlan_filtering") == "on"

    @property
    def _has_table(self) -> bool:
        return self.mode is ConnectMode.STATIC_MAC or self.option("static_fdb") == "on"

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
            for key in READ_BACK:
                found[key] = str(settings.get(key, "absent"))
        entries = self.namespace.query("bridge", "fdb", "show", "br", self._bridge)
        addresses = {port.mac for port in self.ports}
        static = [e for e in entries if e.get("state") == "static" and e["mac"] in addresses]
        hooks = self.namespace.sysctl("net.bridge.bridge-nf-call-iptables")
        return found | {
            "bridge-nf-call-iptables": hooks,
            **self.option_details(),
            "static_entries": str(len({entry["mac"] for entry in static})),
            "connect_mode": self.mode.value,
            "unknown_destination": "dropped" if self.mode is ConnectMode.STATIC_MAC else "flooded",
        }
