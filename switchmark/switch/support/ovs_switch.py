"""The common base of the three Open vSwitch switches, which differ in their datapath.

The bridge starts without rules (fail mode `secure`), and gets the rules of the connect mode.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from switchmark.errors import Refusal, TrialFailed, UsageError
from switchmark.function.support.table import FunctionTable
from switchmark.host import place
from switchmark.host.host import Session
from switchmark.host.kernel import namespaces
from switchmark.host.kernel.device_settings import set_up
from switchmark.host.place import Facility
from switchmark.host.programs import find_program
from switchmark.model.capabilities import Availability, Capabilities, available, unavailable
from switchmark.model.changes import Change, TableChange
from switchmark.model.functions import FunctionEntries
from switchmark.model.ports import (
    ConnectMode,
    PortCounters,
    PortKind,
    Split,
    SwitchCounters,
    SwitchPort,
)
from switchmark.model.rights import Rights
from switchmark.model.taxonomy import MATCH_ACTION, RTC, SELF, Taxonomy
from switchmark.switch.support import ovs_functions
from switchmark.switch.support.changes import PORTS, RULES, rule_mac
from switchmark.switch.support.options import WithProgram
from switchmark.switch.support.ovs_functions import LoadedFunctions, Translation
from switchmark.switch.support.ovs_instance import (
    DEADLINE_S,
    OvsInstance,
    missing_helper,
    other_config,
)
from switchmark.switch.support.ovs_rules import openflow_port, rules
from switchmark.switch.support.ovs_tunnels import prepare_underlay, tunnel_commands
from switchmark.switch.support.ports import check_request, device_of, lent_of, require
from switchmark.switch.support.private import Resources, WithResources
from switchmark.switch.support.rights import SOCKET, rights_of
from switchmark.switch.support.tools import version_text

POLL_S = 0.01
MAC_AGING_S = 300  # Open vSwitch's default, and the Linux bridge's
SPARE_COOKIE = "0x5a"  # marks the rules that are added and removed on purpose
COMMON = Capabilities(
    port_kinds=(PortKind.VETH, PortKind.TAP),
    linux_capabilities=dict.fromkeys((PortKind.VETH, PortKind.TAP), SOCKET),
    writes=("/dev/net/tun",),  # the devices of its bridge
    connect_modes=(ConnectMode.LEARNING, ConnectMode.CROSS_CONNECT, ConnectMode.STATIC_MAC),
    polling=False,
    runs_in=("host", "netns", "lxc", "docker"),
    splits=True,
    takes_program=True,
    reconfigures=True,
    changes_tables=("route", "acl"),
    functions=ovs_functions.SUPPORT,
    taxonomy=Taxonomy(SELF, MATCH_ACTION, RTC, "medium", "C", "SDN switch"),
)


class OvsSwitch(WithProgram, WithResources):
    """A private Open vSwitch with one bridge; subclasses define datapath and ports."""

    name: str
    capabilities: Capabilities
    datapath = "netdev"  # the name in OVS; `system` is that of the kernel
    setting = "SWITCHMARK_OVS_VSWITCHD"  # the environment variable that names the program
    programs: Sequence[str] = ("/usr/lib/openvswitch-switch/ovs-vswitchd", "ovs-vswitchd")
    package = "openvswitch-switch"  # the package with the program
    # The bridge has devices, which are taps unless the datapath is that of the kernel.
    needs: Sequence[Facility] = (Facility.NETWORK_NAMESPACE, Facility.TUN)

    split: Split | None = None
    function_table: FunctionTable | None = None
    instance: OvsInstance
    _functions: LoadedFunctions | None = None

    def availability(self) -> Availability:
        """Available if the programs and the needs of the datapath exist."""
        if (answer := place.missing(*self.needs)) is not None:
            return answer
        program = self.program()
        missing = "program `ovs-vswitchd`" if program is None else missing_helper()
        if program is None or missing:
            return unavailable(
                f"{missing} not found", remedy=f"apt install {self.package}, or set {self.setting}"
            )
        version = version_text(program)
        if not version:
            return unavailable(
                f"{program} does not run",
                remedy="choose another `program`"
                if self.chosen_program
                else f"reinstall {self.package}",
            )
        return self.check_datapath(version)

    def program(self) -> Path | None:
        """Return the path of the switch daemon."""
        return self.chosen_program or find_program(self.setting, self.programs)

    def check_datapath(self, version: str) -> Availability:
        """Check further needs of this datapath."""
        return available(version)

    def settings(self) -> dict[str, str]:
        """Return the daemon's `other_config`."""
        return {}

    def interface(self, port: SwitchPort) -> tuple[str, list[str]]:
        """Return a port's name in OVS and its Interface columns; a device keeps its name."""
        return device_of(port), []

    def spare_interface(self, number: int) -> tuple[str, list[str]]:
        """Return an unused port in the form of `interface`, which is added and removed."""
        return f"sm{self.instance.session.id}n{number}", ["type=internal"]

    def changes(self) -> Sequence[Change]:
        """Return changes that add and remove unused ports, and rules for unused addresses."""
        bridge = self.instance.bridge
        add, remove = [], []
        for number in range(PORTS):
            name, columns = self.spare_interface(number)
            add += [["add-port", bridge, name], ["set", "Interface", name, *columns]]
            remove.append(["del-port", bridge, name])
        flows = [
            f"cookie={SPARE_COOKIE},priority=100,dl_dst={rule_mac(k)},actions=drop"
            for k in range(RULES)
        ]
        return [
            Change(f"{PORTS} ports added", lambda: self.instance.reconfigure(add)),
            Change(f"{PORTS} ports removed", lambda: self.instance.reconfigure(remove)),
            Change(f"{RULES} rules added", lambda: self.instance.flows(flows)),
            Change(f"{RULES} rules removed", lambda: self.instance.remove_flows(SPARE_COOKIE)),
        ]

    def table_changes(self) -> Sequence[TableChange]:
        """Return the changes of the routes, and of the rules, that its functions have."""
        assert self._functions is not None
        return self._functions.table_changes()

    def makes_devices(self) -> bool:
        """Return True if the datapath makes network devices, for which the daemons need a separate
        network namespace."""
        return True

    def daemon_arguments(self) -> Sequence[str]:
        """Return further arguments of the switch daemon."""
        return ()

    def daemon_rights(self) -> Rights | None:
        """Return the rights with which the switch daemon starts."""
        return rights_of(self, self._ports)

    def daemon_cores(self, cores: Sequence[int]) -> Sequence[int]:
        """Return the cores of the daemon's main threads."""
        return cores

    def before_launch(self) -> None:
        """Prepare for the daemon's start: adopt the ports."""
        self.instance.namespace.adopt(
            [device_of(port) for port in self._ports], lent_of(self._ports)
        )

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Start both daemons with everything configured, then write the rules."""
        require(self.name, self.availability())
        mirror = self.function_table.mirror if self.function_table else None
        self._paired = ports[:-1] if mirror else ports  # the last port is the monitor port
        check_request(self.name, self.capabilities, self._paired, mode)
        program = self.program()
        assert program is not None  # `availability` checks it
        self._ports, self._mode, self._cores = tuple(ports), mode, tuple(cores)
        self._resources = Resources(session)
        try:
            self.instance = OvsInstance(
                session, self._resources, program, apart=self.makes_devices()
            )
            self._names = {port.index: self.interface(port)[0] for port in ports}
            self._witness = None if mode is ConnectMode.CROSS_CONNECT else f"sm{session.id}w"
            self._settings = self.settings()
            self._translation = self._translate()
            self.instance.configure(self._configuration())
            self.before_launch()
            self._daemon_cores = self.daemon_cores(cores)
            self.instance.launch(self._daemon_cores, self.daemon_rights(), self.daemon_arguments())
            if self._witness:
                self._open_witness(self._witness)
            self._load_rules()
            if self.function_table is not None and self.function_table.tunnels:
                prepare_underlay(self.instance, self.function_table)
            self._before = self._last = self._device_counters()
        except BaseException:
            self.stop()
            raise

    def _translate(self) -> Translation | None:
        """Return the OpenFlow tables of the switch's functions; None if it only forwards."""
        if self.function_table is None:
            return None
        if self.function_table.tunnels and not self.makes_devices():
            raise UsageError(
                f"{self.name}: function vxlan needs a device with the address of the tunnels' end",
                remedy="use datapath: netdev",
            )
        base = [] if self._mode is ConnectMode.ROUTE else self._rules()
        return Translation(self.function_table, base, self._mode is ConnectMode.LEARNING)

    def _rules(self) -> list[str]:
        """Return the rules of the connect mode."""
        return rules(self._paired, self._mode, self.split)

    def _load_rules(self) -> None:
        """Write the rules of the functions, or those of the connect mode."""
        if self._translation is None:
            self._functions = None
            self.instance.flows(self._rules())
        else:
            self._functions = LoadedFunctions(self.instance, self._translation)
            self._functions.load()

    def table_refusal(self, table: FunctionTable) -> Refusal | None:
        """See `RefusesTables`."""
        return ovs_functions.refusal(table)

    def function_entries(self) -> FunctionEntries:
        """See `PerformsFunctions`."""
        assert self._functions is not None
        return self._functions.entries()

    def _configuration(self) -> list[list[str]]:
        bridge = self.instance.bridge
        commands = [other_config(self._settings)] if self._settings else []
        commands += [
            ["add-br", bridge],
            [
                *("set", "Bridge", bridge, f"datapath_type={self.datapath}", "fail_mode=secure"),
                "other_config:disable-in-band=true",
                f"other_config:mac-aging-time={MAC_AGING_S}",
            ],
        ]
        for table, fields in self._translation.prefix_fields().items() if self._translation else ():
            named = f"@table{table}"
            commands.append([f"--id={named}", "create", "Flow_Table", f"prefixes={fields}"])
            commands.append(["set", "Bridge", bridge, f"flow_tables:{table}={named}"])
        for port in self._ports:
            name, columns = self.interface(port)
            tunnelled = self.function_table if self._translation else None
            if tunnelled and tunnelled.tunnels and port.index == tunnelled.underlay_port:
                commands += tunnel_commands(self.instance, tunnelled, self.datapath, name, columns)
                continue
            number = f"ofport_request={openflow_port(port.index)}"
            commands.append(["add-port", bridge, name])
            commands.append(["set", "Interface", name, number, *columns])
            if self._translation and (own_vlan := self._translation.port_columns(port.index)):
                commands.append(["set", "Port", name, *own_vlan])
        if self._translation:
            commands += self._translation.mirror_commands(bridge, self._names)
        if self._witness:
            number = f"ofport_request={openflow_port(len(self._ports))}"
            commands.append(["add-port", bridge, self._witness])
            commands.append(["set", "Interface", self._witness, "type=internal", number])
        return commands

    def _open_witness(self, device: str) -> None:
        """Set the monitor port up, because flooded frames only go to a port that is up."""
        self.set_witness_up(device)
        deadline = time.monotonic() + DEADLINE_S
        while not self.instance.interfaces()[device].link_up:
            if time.monotonic() > deadline:
                raise TrialFailed(f"{self.name}: monitor port {device} does not come up")
            time.sleep(POLL_S)

    def set_witness_up(self, device: str) -> None:
        """Set the monitor port's device up."""
        namespaces.inside(self.instance.namespace.name, lambda: set_up(device))

    def witness_frames(self, device: str, counted: Mapping[str, PortCounters]) -> int:  # noqa: ARG002
        """Return the frames at the monitor port; `counted` are the datapath's counters."""
        return self.instance.namespace.link_counters()[device].rx_frames

    def _device_counters(self) -> dict[str, PortCounters]:
        return self.instance.port_counters()

    def wait_ports_up(self, timeout_s: float) -> None:
        """Wait until every port of the switch has a link."""

        def waiting() -> list[str]:
            interfaces = self.instance.interfaces()
            return [name for name in self._names.values() if not interfaces[name].link_up]

        self.wait_for_peers(waiting, timeout_s)

    def wait_converged(self) -> None:
        """Delete the datapath flows from the time before an address was learnt. They would flood
        until the next revalidation, up to a second at full rate."""
        if self._mode is ConnectMode.LEARNING:
            self.instance.appctl("revalidator/purge")

    def counters(self) -> SwitchCounters:
        """Return the datapath's counters since the start, and the frames at the monitor port."""
        now = self._device_counters()
        ports = {}
        for index, name in self._names.items():
            self._check_continuity(name, now.get(name))
            before = self._before.get(name, PortCounters(0, 0))
            ports[index] = now.get(name, before).since(before)
        for index, frames in (self._functions.policed_frames() if self._functions else {}).items():
            ports[index] = replace(ports[index], rx_dropped=ports[index].rx_dropped + frames)
        self._last = now
        if self._witness is None:
            return SwitchCounters(ports)
        return SwitchCounters(ports, self.witness_frames(self._witness, now))

    def _check_continuity(self, name: str, now: PortCounters | None) -> None:
        """Raise TrialFailed if a vhost-user port lost its peer, because its counters then begin at
        0 with the next peer."""
        last = self._last.get(name)
        if last and (
            now is None or now.rx_frames < last.rx_frames or now.tx_frames < last.tx_frames
        ):
            raise TrialFailed(
                f"{self.name}: the peer of port {name} has gone, and the port's counters with it",
                remedy="read them while the applications run",
            )

    def alive(self) -> str | None:
        """Return None while both daemons run, otherwise how the first ended."""
        if self._resources is None:
            return "not started"
        return self.instance.died()

    def output(self) -> str:
        """Return the end of the daemon's log."""
        return "" if self._resources is None else self.instance.log()

    def process_ids(self) -> Sequence[int]:
        """Return the process of the switch daemon."""
        return () if self._resources is None else self.instance.process_ids

    def details(self) -> dict[str, str]:
        """Return versions, datapath, settings and rules."""
        return {
            "version": self.instance.version,
            "datapath": self.datapath,
            "connect_mode": self._mode.value,
            "mac-aging-time": str(MAC_AGING_S),
            **self._rule_details(),
            **{f"other_config:{key}": value for key, value in self._settings.items()},
        }

    def _rule_details(self) -> dict[str, str]:
        """Return the rules of the connect mode, or the number of rules of the functions."""
        if self._translation is None:
            return {"rules": "; ".join(self._rules())}
        return self._translation.details()
