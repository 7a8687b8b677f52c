"""`vpp`: the vector packet processor, cross-connect or bridge domain, vhost-user, memif or veth.

A private instance with everything in one folder, told what to do by a file of CLI commands.
One core: its main thread forwards. More: one worker on each core it is given, the main
thread on another. Counters come from the statistics segment, which is always up to date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from switchmark.errors import TrialFailed, UnavailableError
from switchmark.model.capabilities import (
    Availability,
    Capabilities,
    SwitchOption,
    available,
    unavailable,
)
from switchmark.model.changes import Change
from switchmark.model.ports import ConnectMode, PortCounters, PortKind, SwitchCounters, SwitchPort
from switchmark.model.taxonomy import RTC, SELF, STRUCTURED, Taxonomy
from switchmark.switch.support import vpp_changes
from switchmark.switch.support.cable import DPDK_ENDS
from switchmark.switch.support.options import WithOptions
from switchmark.switch.support.ports import device_of, peer_index, socket_of
from switchmark.switch.support.private import check_socket_path
from switchmark.switch.support.program import MAC_AGING_S, ProgramSwitch, output_of
from switchmark.switch.support.tools import memory_nodes, online_cores, which
from switchmark.switch.support.vpp_changes import Bridge
from switchmark.testbed.undo.entries import FilesNamed

BUFFERS = 16384  # per NUMA node; VPP's own default
BUFFERS_MB = 40
BRIDGE_DOMAIN = 1
STANDARD_MTU_BYTES = 1500
PLUGINS = (
    "vhost_plugin.so",
    "memif_plugin.so",
    "af_packet_plugin.so",
)  # in older releases part of VPP itself
CABLE = "cable"  # and the port's number: the interface of a NIC that VPP drives itself
XDP, DPDK = "af_xdp_plugin.so", "dpdk_plugin.so"  # of cables to other hosts
WITNESS = "pipe0.0"  # what goes into one end of a pipe comes out of the other, and ends there
MEMIF_RING = 256  # the client's end, VPP, chooses; as many as the other kinds of port have
OPTIONS = (
    SwitchOption(
        "rx_mode",
        "how the ports are read: polled, on the peer's notice, or by load",
        "polling",
        ("polling", "interrupt", "adaptive"),
    ),
    SwitchOption(
        "cross_connect",
        "what `cross-connect` is made of: `set interface l2 xconnect`, or the shorter `l2patch`",
        "xconnect",
        ("xconnect", "l2patch"),
    ),
    SwitchOption(
        "rx_workers",
        "which worker reads which port: `pairs`: pairs of ports in turn, so that each sender has a "
        "worker of its own where there are enough; `auto`: VPP deals them out",
        "auto",
        ("auto", "pairs"),
    ),
    SwitchOption(
        "cable_driver",
        "by which of its own drivers the interface of a cable is reached (location: remote, nics)",
        "af-packet",
        ("af-packet", "af-xdp"),
    ),
)
DEFAULTS: Mapping[str, str] = {option.name: option.default for option in OPTIONS}
STATISTIC = re.compile(r"^\[(\d+)(?: @ \d+)?\]: (?:(\d+) packets(?:, \d+ bytes)?|(\S+)) /(.+)$")


def thread_cores(
    cores: Sequence[int], online: Sequence[int], main: int | None = None
) -> tuple[int, tuple[int, ...]]:
    """The main thread's core and the workers' (none: the main thread forwards)."""
    if main is not None:
        return main, tuple(core for core in cores if core != main)
    if len(cores) == 1:
        return cores[0], ()
    others = [core for core in online if core not in cores]
    return (others[0], tuple(cores)) if others else (cores[0], tuple(cores[1:]))


def startup_config(
    folder: Path,
    prefix: str,
    main_core: int,
    workers: Sequence[int],
    more_plugins: Sequence[str] = (),
    nics: Mapping[int, str] | None = None,
) -> str:
    """What VPP reads first: every path in our folder, no plugin but those the ports need."""
    listed = ",".join(map(str, workers))
    plugins = " ".join(f"plugin {name} {{ enable }}" for name in (*PLUGINS, *more_plugins))
    named = " ".join(f"dev {pci} {{ name {CABLE}{k} }}" for k, pci in (nics or {}).items())
    devices = f"dpdk {{ {named} }}\n" if named else ""
    return f"""\
unix {{ nodaemon nobanner cli-no-pager runtime-dir {folder}/run
  cli-listen {folder}/cli.sock pidfile {folder}/run/vpp.pid }}
api-segment {{ prefix {prefix} }}
socksvr {{ socket-name {folder}/api.sock }}
statseg {{ socket-name {folder}/stats.sock size 16M }}
cpu {{ main-core {main_core}{f" corelist-workers {listed}" if workers else ""} }}
memory {{ main-heap-size 512M main-heap-page-size 4K }}
buffers {{ buffers-per-numa {BUFFERS} default data-size 2048 page-size default-hugepage }}
plugins {{ plugin default {{ disable }} {plugins} }}
{devices}"""


def interfaces_of(ports: Sequence[SwitchPort]) -> dict[int, str]:
    """VPP's name of each port: vhost-user interfaces are numbered in the order of making."""
    names, vhosts = {}, 0
    for port in ports:
        if port.pci:
            names[port.index] = f"{CABLE}{port.index}"
        elif port.kind is PortKind.VETH:
            names[port.index] = f"host-{device_of(port)}"
        elif port.kind is PortKind.MEMIF:
            names[port.index] = f"memif{port.index + 1}/0"
        else:
            names[port.index] = f"VirtualEthernet0/0/{vhosts}"
            vhosts += 1
    return names


def commands(
    ports: Sequence[SwitchPort], mode: ConnectMode, options: Mapping[str, str] = DEFAULTS
) -> list[str]:
    """The CLI commands that are the ports and the connect mode; last of all the ports go up."""
    names = interfaces_of(ports)
    lines = []
    for port in ports:
        name = names[port.index]
        lines += _create(port, options)
        if port.kind is not PortKind.MEMIF:  # which takes every frame anyway
            lines.append(f"set interface promiscuous on {name}")
        if not _mode_comes_later(port, options):
            lines.append(f"set interface rx-mode {name} {options['rx_mode']}")
        if port.mtu_bytes > STANDARD_MTU_BYTES:
            lines.append(f"set interface mtu packet {port.mtu_bytes} {name}")
    if mode is ConnectMode.CROSS_CONNECT:
        patch = options["cross_connect"] == "l2patch"
        command = "test l2patch rx {} tx {}" if patch else "set interface l2 xconnect {} {}"
        lines += [
            command.format(names[port.index], names[peer_index(port.index)]) for port in ports
        ]
    else:
        lines += _bridge(ports, names, learning=mode is ConnectMode.LEARNING)
    return lines + [f"set interface state {name} up" for name in names.values()]


def late_commands(
    ports: Sequence[SwitchPort], options: Mapping[str, str], workers: int = 0
) -> list[str]:
    """What can only be said once the peers are there; without `workers` nothing is placed."""
    names = interfaces_of(ports)
    modes = [
        f"set interface rx-mode {names[port.index]} {options['rx_mode']}"
        for port in ports
        if _mode_comes_later(port, options)
    ]
    if workers == 0 or options["rx_workers"] == "auto":
        return modes
    return modes + [
        f"set interface rx-placement {names[port.index]} queue 0 worker {port.index // 2 % workers}"
        for port in ports
    ]


def _mode_comes_later(port: SwitchPort, options: Mapping[str, str]) -> bool:
    """A vhost-user queue polls until its peer has said how it is to be woken."""
    return port.kind is PortKind.VHOST_USER and options["rx_mode"] != "polling"


def _create(port: SwitchPort, options: Mapping[str, str]) -> list[str]:
    if port.pci:
        return []  # VPP found it when it started
    if port.cable and options["cable_driver"] == "af-xdp":
        name = device_of(port)
        return [f"create interface af_xdp host-if {name} num-rx-queues 1 name host-{name}"]
    if port.kind is PortKind.VETH:
        # Offloads are off on the bench's devices; VPP, left to itself, then tells the kernel of
        # a header that it does not write, and not one frame gets out.
        return [f"create host-interface name {device_of(port)} cksum-gso-disable"]
    if port.kind is PortKind.MEMIF:
        number = port.index + 1  # 0 is a socket that VPP has of itself
        return [
            f"create memif socket id {number} filename {socket_of(port)}",
            f"create interface memif id 0 socket-id {number} slave ring-size {MEMIF_RING} "
            "buffer-size 2048",
        ]
    return [f"create vhost-user socket {socket_of(port)}"]


def _bridge(ports: Sequence[SwitchPort], names: dict[int, str], *, learning: bool) -> list[str]:
    on = int(learning)
    lines = [
        f"create bridge-domain {BRIDGE_DOMAIN} learn {on} forward 1 uu-flood {on} flood {on} "
        f"arp-term 0 mac-age {MAC_AGING_S // 60 if learning else 0}",
        "pipe create",
        f"set interface l2 bridge {WITNESS} {BRIDGE_DOMAIN}",
        *(f"set interface state {end} up" for end in ("pipe0", WITNESS, "pipe0.1")),
    ]
    lines += [f"set interface l2 bridge {name} {BRIDGE_DOMAIN}" for name in names.values()]
    if not learning:
        lines += [
            f"l2fib add {port.mac} {BRIDGE_DOMAIN} {names[port.index]} static" for port in ports
        ]
    return lines


@dataclass(frozen=True, slots=True)
class Statistics:
    """Frames by interface, all threads together; `lost` is what a full ring did not take."""

    rx: dict[str, int]
    tx: dict[str, int]
    drops: dict[str, int]
    lost: dict[str, int]


def parse_statistics(text: str) -> Statistics:
    """Read `vpp_get_stats dump`: `[index @ thread]: N packets, N bytes /if/rx` and the like.

    `/if/tx` counts what was handed to an interface's output, `/err/NAME-tx/...` what of it
    was not put on the ring, `/if/drops` that and what was dropped of the frames it received."""
    numbers: dict[str, dict[int, int]] = {"if/rx": {}, "if/tx": {}, "if/drops": {}}
    names, lost = {}, dict[str, int]()
    for index, packets, name, path in _statistics(text):
        if path == "if/names":
            names[index] = name
        elif path in numbers:
            numbers[path][index] = numbers[path].get(index, 0) + packets
        elif (error := re.fullmatch(r"err/(.+)-tx/(.+)", path)) and error[2] != "no error":
            lost[error[1]] = lost.get(error[1], 0) + packets
    rx, tx, drops = (
        {name: numbers[path].get(index, 0) for index, name in names.items()} for path in numbers
    )
    return Statistics(rx, tx, drops, lost)


def _statistics(text: str) -> Iterator[tuple[int, int, str, str]]:
    for line in text.splitlines():
        if (found := STATISTIC.match(line.strip())) is not None:
            yield int(found[1]), int(found[2] or 0), found[3] or "", found[4]


def links_up(text: str) -> set[str]:
    """The interfaces that `show hardware-interfaces` tells a link of."""
    lines = (line.split() for line in text.splitlines() if line and not line[0].isspace())
    return {words[0] for words in lines if len(words) >= 4 and words[2] == "up"}


class Vpp(WithOptions, ProgramSwitch):
    """VPP with `l2 xconnect` or a bridge domain."""

    name = "vpp"
    main_core: int | None = None
    setting = "SWITCHMARK_VPP"
    programs = ("vpp",)
    obtain = "install VPP (packagecloud.io/fdio, packages vpp and vpp-plugin-core) or build it"
    capabilities = Capabilities(
        port_kinds=(PortKind.VHOST_USER, PortKind.MEMIF, PortKind.VETH),
        connect_modes=(ConnectMode.LEARNING, ConnectMode.CROSS_CONNECT, ConnectMode.STATIC_MAC),
        polling=True,
        multi_core=True,
        main_thread=True,
        needs_hugepages=True,
        takes_program=True,
        cable_ends=DPDK_ENDS,
        reconfigures=True,
        taxonomy=Taxonomy(SELF, STRUCTURED, RTC, "medium", "C", "full router"),
        description="VPP, bridge domain or l2 xconnect; vhost-user, memif or AF_PACKET",
        options=OPTIONS,
    )

    def version_of(self, program: Path) -> str:
        """`vpp --version`, without where and when it was built."""
        found = re.search(r"vpp v\S+", output_of([str(program), "--version"]))
        return found[0] if found else ""

    def check_more(self, program: Path, version: str) -> Availability:
        """Its two tools come with it."""
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
        """The buffer pools."""
        return BUFFERS_MB * memory_nodes()

    def launch(self, program: Path) -> None:
        """Start it, wait for its CLI, and give it the file of commands."""
        self._control = str(self._tool(program, "vppctl"))
        self._statistics = str(self._tool(program, "vpp_get_stats"))
        self._names = interfaces_of(self.ports)
        self._main_core, self._workers = thread_cores(self.cores, online_cores(), self.main_core)
        nics = {port.index: port.pci for port in self.ports if port.pci}
        self._folder = self.resources.folder("vpp")
        check_socket_path(self._folder / "stats.sock")
        prefix = f"sm{self.session.id}vpp"
        self.resources.note(FilesNamed("/dev/shm", prefix))
        config, script = self._folder / "startup.conf", self._folder / "commands"
        config.write_text(
            startup_config(
                self._folder, prefix, self._main_core, self._workers, self._plugins(program), nics
            )
        )
        script.write_text("\n".join(self._commands()) + "\n")
        self.process = self.resources.spawn(
            [str(program), "-c", str(config)],
            cores=sorted({self._main_core, *self._workers}),
            netns=self.netns,
        )
        self.until(lambda: self._cli("show", "version").startswith("vpp"), "its CLI")
        self._apply(script)

    def wait_ports_up(self, timeout_s: float) -> None:
        """Also the receive modes that need the peer."""
        super().wait_ports_up(timeout_s)
        for command in self._late_commands():
            if answer := self._cli(*command.split()):
                raise TrialFailed(f"{self.name}: {command}: {' '.join(answer.split())}")

    def _plugins(self, program: Path) -> list[str]:
        """What the ends of cables need more. Raises `UnavailableError` where there is none."""
        wanted = {DPDK if port.pci else XDP for port in self.ports if port.cable}
        if self.option("cable_driver") != "af-xdp":
            wanted -= {XDP}
        for name in wanted:
            if not list(program.resolve().parents[1].glob(f"lib*/**/vpp_plugins/{name}")):
                package = "vpp-plugin-dpdk" if name == DPDK else "vpp-plugin-core"
                raise UnavailableError(
                    f"{self.name}: {program} has no {name}, by which it would reach the cable; "
                    f"install {package}, or build it with that plugin"
                )
        return sorted(wanted)

    def _options(self) -> dict[str, str]:
        return {option.name: self.option(option.name) for option in OPTIONS}

    def _commands(self) -> list[str]:
        return commands(self.ports, self.mode, self._options())

    def _late_commands(self) -> list[str]:
        return late_commands(self.ports, self._options(), len(self._workers))

    def _apply(self, script: Path) -> None:
        """The answer to `exec` tells of the first line that was refused, and may come before
        the last one is through."""
        answer = self._cli("exec", str(script))
        if "error" in answer:
            raise TrialFailed(f"{self.name}: {' '.join(answer.split())}: {self.said()}")
        if "falling back" in self.said():
            raise TrialFailed(f"{self.name}: its buffers are not in hugepages: {self.said()}")
        last = self._names[self.ports[-1].index]
        up = re.compile(rf"^{re.escape(last)}\s+\d+\s+up\s", re.MULTILINE)
        self.until(lambda: bool(up.search(self._cli("show", "interface"))), f"{last} up")

    def _cli(self, *words: str) -> str:
        """What a CLI command prints; empty when nobody answers."""
        socket = str(self._folder / "cli.sock")
        return self.session.host.run([self._control, "-s", socket, *words], check=False).stdout

    def changes(self) -> Sequence[Change]:
        """Interfaces and table entries; see `vpp_changes`."""
        return vpp_changes.changes(
            self.mode, self._folder, self._cli, self.until, Bridge(BRIDGE_DOMAIN, WITNESS)
        )

    def waiting(self) -> list[SwitchPort]:
        """The ports whose interface has no link."""
        up = links_up(self._cli("show", "hardware-interfaces"))
        return [port for port in self.ports if self._names[port.index] not in up]

    def own_counters(self) -> SwitchCounters:
        """Frames since start, from the statistics segment."""
        patterns = ("^/if/names$", "^/if/rx$", "^/if/tx$", "^/if/drops$", "^/err/.*-tx/")
        answer = self.session.host.run(
            [
                *(self._statistics, "socket-name", str(self._folder / "stats.sock")),
                *("dump", *patterns),
            ],
            check=False,
        )
        told = parse_statistics(answer.stdout)
        missing = [name for name in self._names.values() if name not in told.rx]
        if missing:
            words = self.alive() or answer.stderr.strip() or "no statistics"
            raise TrialFailed(f"{self.name}: no counters of {missing[0]}: {words}")
        ports = {}
        for index, name in self._names.items():
            lost = told.lost.get(name, 0)
            ports[index] = PortCounters(
                rx_frames=told.rx[name],
                tx_frames=told.tx[name] - lost,
                rx_dropped=max(0, told.drops[name] - lost),
                tx_dropped=lost,
            )
        if self.mode is ConnectMode.CROSS_CONNECT:
            return SwitchCounters(ports)
        return SwitchCounters(ports, told.tx[WITNESS])

    def details(self) -> dict[str, str]:
        """Also where its threads are, and the commands it was given."""
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
                else "as the application has it"
            ),
            **self.option_details(),
            "burst": "up to 256 (vector)",
            "rx_placement": " ".join(self._cli("show", "interface", "rx-placement").split()),
            "commands": "; ".join(self._commands() + self._late_commands()),
        }
