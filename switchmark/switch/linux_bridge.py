"""`linux-bridge`: the bridge of the kernel, one for all pairs and a monitor port.

Spanning tree, forward delay and multicast snooping are off, so that a port forwards at once and
only the trial's traffic passes. `static-mac` disables learning and all flooding, so frames to an
address that is not in the table are dropped. `cross-connect` is a bridge for each pair with only
its two ports. It does not learn, and floods every frame from one port to the other.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from switchmark.errors import Refusal, SwitchmarkError, UnavailableError, UsageError
from switchmark.function.support.table import FunctionTable
from switchmark.host import place
from switchmark.host.place import Facility
from switchmark.host.programs import not_installed
from switchmark.model.capabilities import Availability, Capabilities, SwitchOption, available
from switchmark.model.changes import Change, TableChange
from switchmark.model.functions import FORWARD, FunctionEntries, FunctionSupport, TableMemory
from switchmark.model.options import mode_refusal
from switchmark.model.ports import ConnectMode, PortKind, SwitchCounters
from switchmark.model.taxonomy import RTC, SELF, STRUCTURED, Taxonomy
from switchmark.switch.support import kernel_tunnels, nft
from switchmark.switch.support.base import refuse_impossible
from switchmark.switch.support.changes import PORTS, RULES, rule_mac
from switchmark.switch.support.in_kernel import InKernelSwitch, veth_lines
from switchmark.switch.support.kernel_tunnels import CLOSED
from switchmark.switch.support.options import WithOptions
from switchmark.switch.support.ports import device_of, require
from switchmark.switch.support.table_memory import MemoryBefore
from switchmark.switch.support.tools import kernel_lacks, kernel_release

VLAN = 1
READ_BACK = ("stp_state", "forward_delay", "ageing_time", "mcast_snooping", "vlan_filtering")
SETTINGS = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
# A bit for each reserved address 01:80:c2:00:00:0X; the kernel lets all pass except X = 1, PAUSE.
OPEN = "learning off flood on mcast_flood on bcast_flood on group_fwd_mask 0xfffd"
LOOKS_AT_FRAMES = (ConnectMode.LEARNING, ConnectMode.STATIC_MAC)


class LinuxBridge(WithOptions, InKernelSwitch):
    """One bridge in a private network namespace."""

    name = "linux-bridge"
    capabilities = Capabilities(
        port_kinds=(PortKind.VETH, PortKind.TAP),
        connect_modes=(*LOOKS_AT_FRAMES, ConnectMode.CROSS_CONNECT),
        polling=False,
        in_kernel=True,
        keeps_offloads=True,
        hides_tags=True,
        runs_in=("host", "netns"),
        reconfigures=True,
        changes_tables=("acl",),
        taxonomy=Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "L2 bridge of the kernel"),
        description="bridge of the kernel; forwards in the softirq of the senders",
        options=(
            SwitchOption(
                "vlan_filtering",
                "the bridge looks up the VLAN of each frame; all ports are untagged in VLAN 1",
                "off",
                ("on", "off"),
                modes=LOOKS_AT_FRAMES,
            ),
            SwitchOption(
                "static_fdb",
                "the addresses of the applications are written into the table before the trial "
                "(always with `static-mac`); learning continues",
                "off",
                ("on", "off"),
                modes=LOOKS_AT_FRAMES,
            ),
            nft.ACL_ENGINE,
        ),
        functions={
            **{name: replace(support, bases=(FORWARD,)) for name, support in nft.SUPPORT.items()},
            "vxlan": FunctionSupport(
                1000,
                "a bridge of Linux has 1024 ports, and each tunnel is a port",
                bases=(FORWARD,),
                version=nft.TRIED,
            ),
            "mirror": FunctionSupport(bases=(FORWARD,), version=nft.TRIED),
        },
        functions_not_built={
            "vlan": "not provable: the kernel of the tests (6.18) has no VLAN filtering",
        },
    )
    function_table: FunctionTable | None = None
    _tables: nft.Filters | None = None
    _load_time_s = 0.0
    _memory: TableMemory | None = None

    def availability(self) -> Availability:
        """Available if the kernel has a bridge; the version is that of the kernel."""
        return (
            place.missing(Facility.NETWORK_NAMESPACE)
            or kernel_lacks({"bridge": None}, "CONFIG_BRIDGE")
            or not_installed("bridge", "iproute2")
            or available(f"Linux {kernel_release()}")
        )

    def connect(self) -> None:
        """Make the bridge and its monitor port, or a bridge for each pair; then load the
        functions."""
        self._load_time_s = 0.0
        table = self.function_table
        if table is not None and table.tunnels:
            self._connect_tunnels(table)
        elif self.mode is ConnectMode.CROSS_CONNECT:
            self._connect_pairs()
        else:
            self._connect_all()
        self._tables = None
        if table is None:
            return
        if (problem := not_installed("nft", "nftables")) is not None:
            require(self.name, problem)
        devices = [device_of(port) for port in self.ports]
        engine = self.option("acl_engine")
        self._tables = nft.Filters.of(self.namespace, table, engine, devices, bridged=True)
        memory = MemoryBefore()
        begun = time.monotonic()
        self._tables.load()
        self._load_time_s += time.monotonic() - begun
        self._memory = None if table.tunnels else memory.after()

    def table_refusal(self, table: FunctionTable) -> Refusal | None:
        """See `RefusesTables`."""
        if table.tunnels and self._filters:
            return Refusal(
                "vlan_filtering is on, and function vxlan has untagged ports only",
                "use vlan_filtering: off",
            )
        return nft.refusal(table, self.option("acl_engine"), bridged=True)

    def function_entries(self) -> FunctionEntries:
        """Count rules, elements of sets, policers, copies and tunnels in the kernel."""
        assert self._tables is not None
        filters = replace(self._tables.entries(self._load_time_s), memory=self._memory)
        table = self.function_table
        if table is None or not table.tunnels:
            return filters
        observed = kernel_tunnels.read_back(self.namespace, self._bridges[0], table)
        return FunctionEntries(
            {**filters.announced, **kernel_tunnels.announced(table)},
            {**filters.read_back, **observed},
            self._load_time_s,
        )

    def _connect_tunnels(self, table: FunctionTable) -> None:
        """Bridge the access port with a VXLAN device for each tunnel, by static entries."""
        refuse_impossible(self, table)
        bridge = f"sm{self.session.id}br"
        access = device_of(self.ports[table.access_port])
        underlay = device_of(self.ports[table.underlay_port])
        self._masters = {access: bridge}
        mtu_bytes = self.ports[table.access_port].mtu_bytes
        self._make_bridge(bridge)
        begun = time.monotonic()
        kernel_tunnels.load(self.namespace, table, bridge, (access, underlay), mtu_bytes)
        self._load_time_s = time.monotonic() - begun

    def _connect_pairs(self) -> None:
        refusal = mode_refusal(self.name, self.capabilities, self.options(), self.mode)
        if refusal is not None:
            raise UsageError(refusal)
        devices = [device_of(port) for port in self.paired_ports]
        self._masters = {
            device: f"sm{self.session.id}b{number // 2}" for number, device in enumerate(devices)
        }
        self._make_wires(self._masters)

    def _make_wires(self, masters: Mapping[str, str]) -> None:
        """Make bridges of two devices each. A bridge receives frames for the addresses of its ports
        itself. Without the table entries of these addresses it also floods such frames."""
        bridges = list(dict.fromkeys(masters.values()))
        self.namespace.batch(
            "ip",
            [
                *(f"link add {bridge} {SETTINGS}" for bridge in bridges),
                *(f"link set dev {device} master {to}" for device, to in masters.items()),
                *(f"link set dev {device} type bridge_slave {OPEN}" for device in masters),
            ],
        )
        links = self.namespace.query("ip", "link", "show")
        address_of = {link["ifname"]: link["address"] for link in links}
        entries = [f"fdb del {address_of[device]} dev {device} master" for device in masters]
        self.namespace.batch("bridge", entries)
        self.namespace.batch("ip", [f"link set dev {bridge} up" for bridge in bridges])

    def _connect_all(self) -> None:
        bridge = f"sm{self.session.id}br"
        self._witness_port = inner = self.make_witness()
        members = [inner, *map(device_of, self.paired_ports)]
        self._masters = dict.fromkeys(map(device_of, self.paired_ports), bridge)
        self._make_bridge(bridge)
        lines = [f"link set dev {member} master {bridge}" for member in members]
        if self.mode is ConnectMode.STATIC_MAC:
            lines += [f"link set dev {member} type bridge_slave {CLOSED}" for member in members]
        self.namespace.batch("ip", [*lines, f"link set dev {bridge} up"])
        if self._has_table:
            vlan = f" vlan {VLAN}" if self._filters else ""
            table = [
                f"fdb add {p.mac} dev {device_of(p)} master static{vlan}" for p in self.paired_ports
            ]
            self.namespace.batch("bridge", table)

    def table_changes(self) -> Sequence[TableChange]:
        """Return the changes of rules if there are some."""
        assert self._tables is not None and self.function_table is not None
        return self._tables.table_changes(self.function_table)

    def changes(self) -> Sequence[Change]:
        """Return changes that add and remove unused ports, and table entries for unused addresses.
        Bridges of two ports have no table."""
        ends = self.spare_veths()
        make = veth_lines(ends)
        part = [f"link del {port}" for port, _ in ends]
        wired = self.mode is ConnectMode.CROSS_CONNECT
        wires = {port: f"sm{self.session.id}x{k // 2}" for k, (port, _) in enumerate(ends)}
        if wired:
            part += [f"link del {bridge}" for bridge in dict.fromkeys(wires.values())]
        else:
            make += [f"link set dev {port} master {self._bridges[0]}" for port, _ in ends]

        def join() -> None:
            self.namespace.batch("ip", make)
            if wired:
                self._make_wires(wires)

        ports = [
            Change(f"{PORTS} ports added", join),
            Change(f"{PORTS} ports removed", lambda: self.namespace.batch("ip", part)),
        ]
        return ports if wired else ports + self._table_changes()

    def _table_changes(self) -> list[Change]:
        vlan = f" vlan {VLAN}" if self._filters else ""
        entries = [f"{rule_mac(k)} dev {self._witness_port} master" for k in range(RULES)]
        learn = [f"fdb add {entry} static{vlan}" for entry in entries]
        forget = [f"fdb del {entry}{vlan}" for entry in entries]
        return [
            Change(f"{RULES} table entries added", lambda: self.namespace.batch("bridge", learn)),
            Change(
                f"{RULES} table entries removed", lambda: self.namespace.batch("bridge", forget)
            ),
        ]

    def _make_bridge(self, bridge: str) -> None:
        self.namespace.batch("ip", [f"link add {bridge} {SETTINGS}"])
        if not self._filters:
            return
        filtering = f"type bridge vlan_filtering 1 vlan_default_pvid {VLAN}"
        try:
            self.namespace.batch("ip", [f"link set dev {bridge} {filtering}"])
        except SwitchmarkError:
            raise UnavailableError(
                f"{self.name}: the bridge of Linux {kernel_release()} cannot filter VLANs",
                remedy="use a kernel with CONFIG_BRIDGE_VLAN_FILTERING, or vlan_filtering: off",
            ) from None

    @property
    def _bridges(self) -> list[str]:
        return list(dict.fromkeys(self._masters.values()))

    @property
    def _filters(self) -> bool:
        return self.option("vlan_filtering") == "on"

    @property
    def _has_table(self) -> bool:
        return self.mode is ConnectMode.STATIC_MAC or self.option("static_fdb") == "on"

    def counters(self) -> SwitchCounters:
        """Return the devices' counters, with the frames that policers dropped."""
        counters = super().counters()
        if self._tables is None:
            return counters
        return self._tables.with_policed(counters, [port.index for port in self.ports])

    def fault(self) -> str | None:
        """Return why it no longer forwards, if a bridge or a port is gone; None otherwise."""
        links = self.namespace.query("ip", "link", "show")
        masters = {link["ifname"]: link.get("master") for link in links if "UP" in link["flags"]}
        for bridge in self._bridges:
            if bridge not in masters:
                return f"bridge {bridge} is gone or down in namespace {self.namespace.name}"
        lost = [d for d, bridge in self._masters.items() if masters.get(d) != bridge]
        return f"{', '.join(lost)} left its bridge or went down" if lost else None

    def details(self) -> dict[str, str]:
        """Return the settings that the kernel reports."""
        found = {"version": f"Linux {kernel_release()}", "datapath": "kernel, senders' softirq"}
        for link in self.namespace.query("ip", "-d", "link", "show", "dev", self._bridges[0]):
            settings = link["linkinfo"]["info_data"]
            for key in READ_BACK:
                found[key] = str(settings.get(key, "absent"))
        entries = self.namespace.query("bridge", "fdb", "show", "br", self._bridges[0])
        addresses = {port.mac for port in self.paired_ports}
        static = [e for e in entries if e.get("state") == "static" and e["mac"] in addresses]
        hooks = self.namespace.sysctl("net.bridge.bridge-nf-call-iptables")
        return found | {
            "bridges": str(len(self._bridges)),
            "bridge-nf-call-iptables": hooks,
            **self.option_details(),
            "static_entries": str(len({entry["mac"] for entry in static})),
            "connect_mode": self.mode.value,
            "unknown_destination": "dropped" if self.mode is ConnectMode.STATIC_MAC else "flooded",
        }
