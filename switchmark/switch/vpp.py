"""`vpp`: the vector packet processor, cross-connect or bridge domain, vhost-user, memif or veth.

It is a private instance with all files in one folder, configured by a file of CLI commands. On one
core its main thread forwards. On several cores there is a worker on each core of the switch, and
the main thread is on another core. Counters come from the statistics segment, which is always
current.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from switchmark.errors import Refusal, TrialFailed, UnavailableError
from switchmark.function.support.table import FunctionTable
from switchmark.host.kernel.packet_rings import PacketRings
from switchmark.host.place import Facility
from switchmark.host.process_output import output_of
from switchmark.host.programs import which
from switchmark.host.undo.entries import FilesNamed
from switchmark.model.capabilities import Availability, Capabilities, available, unavailable
from switchmark.model.changes import Change, TableChange
from switchmark.model.functions import FunctionEntries, TableMemory
from switchmark.model.page_size import EITHER
from switchmark.model.ports import ConnectMode, PortCounters, PortKind, SwitchCounters, SwitchPort
from switchmark.model.taxonomy import RTC, SELF, STRUCTURED, Taxonomy
from switchmark.switch.support import vpp_changes, vpp_functions
from switchmark.switch.support.base import refuse_impossible
from switchmark.switch.support.cable import DPDK_ENDS
from switchmark.switch.support.options import WithOptions
from switchmark.switch.support.private import check_socket_path
from switchmark.switch.support.program import DEADLINE_S, ProgramSwitch
from switchmark.switch.support.table_memory import MemoryBefore
from switchmark.switch.support.tools import allowed_cores, memory_nodes
from switchmark.switch.support.vpp_answers import links_up, parse_statistics
from switchmark.switch.support.vpp_commands import (
    BUFFERS,
    MEMIF_RING,
    OPTIONS,
    WITNESS,
    commands,
    interfaces_of,
    late_commands,
    startup_config,
)

BUFFERS_MB = 40
SLOWEST_ROUTES_A_S = 5000
LONGEST_COMMAND = 400
XDP, DPDK = "af_xdp_plugin.so", "dpdk_plugin.so"  # for cables to other hosts


def thread_cores(
    cores: Sequence[int], allowed: Sequence[int], main: int | None = None
) -> tuple[int, tuple[int, ...]]:
    """Return the main thread's core and the workers' cores (empty: the main thread forwards)."""
    if main is not None:
        return main, tuple(core for core in cores if core != main)
    if len(cores) == 1:
        return cores[0], ()
    others = [core for core in allowed if core not in cores]
    return (others[0], tuple(cores)) if others else (cores[0], tuple(cores[1:]))


class Vpp(WithOptions, ProgramSwitch):
    """VPP with `l2 xconnect` or a bridge domain."""

    name = "vpp"
    main_core: int | None = None
    _not_counted = ""  # why the drops of its packet sockets are unknown
    setting = "SWITCHMARK_VPP"
    programs = ("vpp",)
    needs_for_hugepages = (Facility.LOCKED_MEMORY,)
    obtain = "install VPP (packagecloud.io/fdio, packages vpp and vpp-plugin-core) or build it"
    capabilities = Capabilities(
        runs_in=("host", "netns", "lxc", "docker"),
        port_kinds=(PortKind.VHOST_USER, PortKind.MEMIF, PortKind.VETH),
        linux_capabilities={
            PortKind.VHOST_USER: ("ipc_lock",),  # for its buffers
            PortKind.MEMIF: ("ipc_lock",),
            PortKind.VETH: ("ipc_lock", "net_raw"),
        },
        writes=("/dev/shm",),  # its API, which cannot be disabled
        connect_modes=(ConnectMode.LEARNING, ConnectMode.CROSS_CONNECT, ConnectMode.STATIC_MAC),
        polling=True,
        multi_core=True,
        main_thread=True,
        page_sizes=EITHER,
        takes_program=True,
        cable_ends=DPDK_ENDS,
        reconfigures=True,
        changes_tables=("route", "acl"),
        taxonomy=Taxonomy(SELF, STRUCTURED, RTC, "medium", "C", "full router"),
        description="VPP, bridge domain or l2 xconnect; vhost-user, memif or AF_PACKET",
        options=(*OPTIONS, vpp_functions.ACL_LOOKUP),
        functions=vpp_functions.SUPPORT,
    )
    _announced: Mapping[str, int] = MappingProxyType({})
    _fib_before = 0
    _load_time_s = 0.0
    _memory: TableMemory | None = None

    def version_of(self, program: Path) -> str:
        """Return the version that `vpp --version` prints, without place and date of the build."""
        found = re.search(r"vpp v\S+", output_of([str(program), "--version"]))
        return found[0] if found else ""

    def check_more(self, program: Path, version: str) -> Availability:
        """Check for its two tools."""
        for tool in ("vppctl", "vpp_get_stats"):
            if self._tool(program, tool) is None:
                return unavailable(
                    f"program `{tool}` is neither beside {program} nor in PATH",
                    remedy="install the whole of package vpp",
                )
        return available(version)

    @staticmethod
    def _tool(program: Path, name: str) -> str | None:
        beside = program.resolve().with_name(name)
        found = beside if beside.exists() else which(name)
        return str(found) if found else None

    def memory_mb(self) -> int:
        """Return the memory of the buffer pools, in MiB."""
        return BUFFERS_MB * memory_nodes()

    def launch(self, program: Path) -> None:
        """Start it, wait for its CLI, and give it the file of commands."""
        self._control = str(self._tool(program, "vppctl"))
        self._statistics = str(self._tool(program, "vpp_get_stats"))
        self._names = interfaces_of(self.ports)
        self._main_core, self._workers = thread_cores(self.cores, allowed_cores(), self.main_core)
        nics = {port.index: port.pci for port in self.ports if port.pci}
        self._folder = self.resources.folder("vpp")
        check_socket_path(self._folder / "stats.sock")
        prefix = f"sm{self.session.id}{secrets.token_hex(8)}"  # all users can write in /dev/shm
        self.resources.note(FilesNamed("/dev/shm", prefix))
        config, script = self._folder / "startup.conf", self._folder / "commands"
        more, main = self._plugins(program), self._main_core
        table = self.function_table
        text = startup_config(
            *(self._folder, prefix, main, self._workers, more, nics),
            small_pages=self.small_pages,
            heap_mb=vpp_functions.heap_mb(table),
            statistics_mb=vpp_functions.statistics_mb(table),
        )
        config.write_text(text)
        lines = self._commands()
        at = self._first_of_functions(lines)
        cores = sorted({self._main_core, *self._workers})
        self.run([str(program), "-c", str(config)], cores=cores)
        assert self.process is not None
        self._rings = PacketRings(self.process.pid)
        self.until(lambda: self._cli("show", "version").startswith("vpp"), "its CLI")
        if table is not None:  # its memory and load time are without those of the ports
            self._execute(script, lines[:at])
            self.until(self._has_ports, "its ports")
            lines = lines[at:]
        memory = MemoryBefore([self.process.pid])
        began = time.monotonic()
        self._apply(script, lines)
        if table is not None:
            self._load(table)
            self._load_time_s = time.monotonic() - began
            self._memory = memory.after()

    def _load(self, table: FunctionTable) -> None:
        """Load the routes, and wait until VPP has them. The answer to `exec` may come long before
        VPP has executed the last command."""
        self._announced = vpp_functions.announced(table)
        if not table.is_routed:
            return
        self._fib_before = self._fib_entries()
        script = self._folder / "routes"
        with script.open("w") as file:
            file.writelines(
                f"{line}\n" for line in vpp_functions.route_commands(table, self._names)
            )
        expected = self._fib_before + self._announced["routes"]
        answer = self._cli("exec", str(script))
        if answer.strip():
            raise TrialFailed(
                f"{self.name}: {' '.join(answer.split())[:300]}: {self.last_output()}"
            )
        timeout_s = DEADLINE_S + self._announced["routes"] / SLOWEST_ROUTES_A_S
        self.until(lambda: self._fib_entries() >= expected, f"{expected} FIB entries", timeout_s)

    def _fib_entries(self) -> int:
        version = "6" if self.function_table and self.function_table.ip_version == 6 else ""
        return vpp_functions.routes_in(self._cli("show", f"ip{version}", "fib", "summary"))

    def table_refusal(self, table: FunctionTable) -> Refusal | None:
        """See `RefusesTables`."""
        return vpp_functions.refusal(table, self.options())

    def function_entries(self) -> FunctionEntries:
        """Count routes, list entries and policers by VPP's own commands."""
        readers: dict[str, Callable[[], int]] = {
            "routes": lambda: self._fib_entries() - self._fib_before,
            "acl entries": lambda: vpp_functions.rules_in(self._cli("show", "acl-plugin", "acl")),
            "acl inputs": lambda: vpp_functions.inputs_in(
                self._cli("show", "acl-plugin", "interface")
            ),
            "policers": lambda: vpp_functions.policers_in(self._cli("show", "policer")),
            "mirrors": lambda: vpp_functions.mirrors_in(self._cli("show", "interface", "span")),
            "tunnels": lambda: vpp_functions.tunnels_in(self._cli("show", "vxlan", "tunnel")),
            "sub-interfaces": lambda: vpp_functions.sub_interfaces_in(
                self._cli("show", "interface")
            ),
        }
        counted = {name: readers[name]() for name in self._announced}
        return FunctionEntries(self._announced, counted, self._load_time_s, self._memory)

    def wait_ports_up(self, timeout_s: float) -> None:
        """Wait for every peer, then set the receive modes, which need a peer."""
        super().wait_ports_up(timeout_s)
        for command in self._late_commands():
            if answer := self._cli(*command.split()):
                raise TrialFailed(f"{self.name}: {command}: {' '.join(answer.split())}")

    def _plugins(self, program: Path) -> list[str]:
        """Return the plugins that the ends of cables need. Raises `UnavailableError` if a plugin is
        missing."""
        cables = {DPDK if port.pci else XDP for port in self.ports if port.cable}
        if self.option("cable_driver") != "af-xdp":
            cables -= {XDP}
        needed = vpp_functions.plugins(self.function_table)
        for name in needed:
            if not _has_plugin(program, name):
                raise UnavailableError(
                    f"{self.name}: {program} has no {name}, which the function needs",
                    remedy="install vpp-plugin-core, or build VPP with that plugin",
                )
        for name in cables:
            if not _has_plugin(program, name):
                package = "vpp-plugin-dpdk" if name == DPDK else "vpp-plugin-core"
                raise UnavailableError(
                    f"{self.name}: {program} has no {name}, which the cable needs",
                    remedy=f"install {package}, or build it with that plugin",
                )
        return sorted({*cables, *needed})

    def _commands(self) -> list[str]:
        table = self.function_table
        if table is None:
            return commands(self.ports, self.mode, self.options())
        refuse_impossible(self, table)
        has_addresses = table.is_routed or table.tunnels
        macs = {port.index: port.mac for port in table.ports} if has_addresses else None
        functions = vpp_functions.setup_commands(table, self._names, self.options())
        before = list(vpp_functions.sub_interfaces(table, self._names))
        joined = vpp_functions.joined_names(table, self._names)
        joins = vpp_functions.tunnel_commands(table, self._names)
        return commands(
            *(self.ports, self.mode, self.options(), macs, functions, before, joined, joins)
        )

    def _late_commands(self) -> list[str]:
        return late_commands(self.ports, self.options(), len(self._workers))

    def _first_of_functions(self, lines: Sequence[str]) -> int:
        """Return the place of the first command behind those that make the ports."""
        table = self.function_table
        if table is None:
            return len(lines)
        functions = {
            *vpp_functions.setup_commands(table, self._names, self.options()),
            *vpp_functions.sub_interfaces(table, self._names),
            *(vpp_functions.tunnel_commands(table, self._names) or ()),
        }
        return next(
            k for k, line in enumerate(lines)
            if line in functions or line.startswith("set interface state")
        )  # fmt: skip

    def _has_ports(self) -> bool:
        listed = self._cli("show", "interface")
        return all(re.search(rf"^{re.escape(name)}\s", listed, re.MULTILINE)
                   for name in self._names.values())  # fmt: skip

    def _execute(self, script: Path, lines: Sequence[str]) -> None:
        """Execute commands from a file. The answer to `exec` names the first line that was
        refused, and may come before the last line has been executed."""
        script.write_text("\n".join(lines) + "\n")
        answer = self._cli("exec", str(script))
        if "error" in answer:
            raise TrialFailed(f"{self.name}: {' '.join(answer.split())}: {self.last_output()}")

    def _apply(self, script: Path, lines: Sequence[str]) -> None:
        """Execute the last commands, and wait until the ports are up."""
        self._execute(script, lines)
        if "falling back" in self.last_output():
            raise TrialFailed(
                f"{self.name}: its buffers are not in hugepages: {self.last_output()}"
            )
        last = self._names[self.ports[-1].index]
        up = re.compile(rf"^{re.escape(last)}\s+\d+\s+up\s", re.MULTILINE)
        self.until(lambda: bool(up.search(self._cli("show", "interface"))), f"{last} up")

    def _cli(self, *arguments: str) -> str:
        """Return the output of a CLI command; empty without an answer."""
        socket = str(self._folder / "cli.sock")
        return self.session.host.run([self._control, "-s", socket, *arguments], check=False).stdout

    def changes(self) -> Sequence[Change]:
        """Return changes of interfaces and table entries; see `vpp_changes`."""
        return vpp_changes.changes(self.mode, self._folder, self._cli, self.until)

    def table_changes(self) -> Sequence[TableChange]:
        """Return the changes of the routes, and of the rules, that its functions have."""
        table = self.function_table
        assert table is not None
        return vpp_changes.table_changes(
            table, self._names, self._folder, self._cli, self.until,
            {"routes": self._fib_entries,
             "rules": lambda: vpp_functions.rules_in(self._cli("show", "acl-plugin", "acl"))},
        )  # fmt: skip

    def waiting(self) -> list[SwitchPort]:
        """Return the ports whose interface has no link."""
        up = links_up(self._cli("show", "hardware-interfaces"))
        return [port for port in self.ports if self._names[port.index] not in up]

    def own_counters(self) -> SwitchCounters:
        """Return the frames since the start, from the statistics segment."""
        patterns = ("^/if/names$", "^/if/rx$", "^/if/tx$", "^/if/drops$", "^/err/.*-tx/")
        answer = self.session.host.run(
            [
                *(self._statistics, "socket-name", str(self._folder / "stats.sock")),
                *("dump", *patterns),
            ],
            check=False,
        )
        statistics = parse_statistics(answer.stdout)
        missing = [name for name in self._names.values() if name not in statistics.rx]
        if missing:
            problem = self.alive() or answer.stderr.strip() or "no statistics"
            raise TrialFailed(f"{self.name}: no counters of {missing[0]}: {problem}")
        no_room = self._without_room()
        ports = {}
        for index, name in self._names.items():
            lost = statistics.lost.get(name, 0)
            ports[index] = PortCounters(
                rx_frames=statistics.rx[name],
                tx_frames=statistics.tx[name] - lost,
                rx_dropped=max(0, statistics.drops[name] - lost) + no_room.get(index, 0),
                tx_dropped=lost,
            )
        if self.mode in (ConnectMode.CROSS_CONNECT, ConnectMode.ROUTE):
            return SwitchCounters(ports)
        return SwitchCounters(ports, statistics.tx[WITNESS])

    def _without_room(self) -> dict[int, int]:
        """Return the frames that found full rings of its packet sockets, by port, because VPP does
        not count them. At the end of a cable the counters of the interface have them."""
        devices = {port.index: port.device for port in self.ports if not port.cable}
        if not any(devices.values()):
            return {}
        try:
            drops = self._rings.drops()
        except OSError as error:
            if (problem := self.alive()) is not None:
                raise TrialFailed(f"{self.name}: {problem}") from None
            self._not_counted = (
                f"not counted: {error}"  # a kernel before 5.6, or a container's rules
            )
            return {}
        return {index: drops.get(device, 0) for index, device in devices.items() if device}

    def details(self) -> dict[str, str]:
        """See `ProgramSwitch`; also the cores of its threads, and its commands."""
        kinds = {"vhost-user": "vhost-user client", "memif": "memif client", "veth": "AF_PACKET"}
        return super().details() | {
            "datapath": ", ".join(sorted({kinds[port.kind.value] for port in self.ports})),
            "main_core": str(self._main_core),
            "worker_cores": ",".join(map(str, self._workers)) or "none: the main thread forwards",
            "checksum_offload": "off",
            "buffers_per_numa": str(BUFFERS),
            "ring": (
                str(MEMIF_RING)
                if self.ports[0].kind is PortKind.MEMIF
                else "chosen by the application"
            ),
            "socket_drops": (self._not_counted or "counted") if self.netns else "no sockets",
            **self.option_details(),
            "burst": "up to 256 (vector)",
            "rx_placement": " ".join(self._cli("show", "interface", "rx-placement").split()),
            "commands": "; ".join(map(_shortened, self._commands() + self._late_commands())),
        }


def _has_plugin(program: Path, name: str) -> bool:
    return bool(list(program.resolve().parents[1].glob(f"lib*/**/vpp_plugins/{name}")))


def _shortened(command: str) -> str:
    """Return a command in short for the record, since a list may have thousands of entries."""
    return command if len(command) <= LONGEST_COMMAND else command[:LONGEST_COMMAND] + " ..."
