"""`fastclick`: the Click modular router with DPDK and batching, vhost-user ports as client.

The switch is a page of Click's language, written for the ports of the trial: direct connections for
cross-connect, `EtherSwitch` for learning, `Classifier` for a static table. Counters are read
through Click's control socket.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path

from switchmark.errors import Refusal, TrialFailed
from switchmark.function.support.table import FunctionTable
from switchmark.host.process_output import output_of, parse_counter, parsing
from switchmark.host.programs import digest, has_bytes
from switchmark.model.capabilities import (
    ONE_BUFFER_FRAME_BYTES,
    Availability,
    Capabilities,
    unavailable,
)
from switchmark.model.functions import FunctionEntries
from switchmark.model.page_size import EITHER
from switchmark.model.ports import ConnectMode, PortCounters, PortKind, SwitchCounters, SwitchPort
from switchmark.model.taxonomy import MODULAR, RTC, STRUCTURED, Taxonomy
from switchmark.switch.support import fastclick_functions
from switchmark.switch.support.base import refuse_impossible
from switchmark.switch.support.cable import CABLE_DRIVER, DPDK_ENDS, eal_devices, ethdev_numbers
from switchmark.switch.support.options import WithOptions
from switchmark.switch.support.ports import WITNESS_MAC, peer_index
from switchmark.switch.support.private import check_socket_path
from switchmark.switch.support.program import DEADLINE_S, MAC_AGING_S, ProgramSwitch, dpdk_version
from switchmark.switch.support.rights import MAPPED
from switchmark.switch.support.tools import memory_nodes

# Number of buffers on each NUMA node without element DPDKInfo: many more if Click's packets are
# also in them (lib/dpdkdevice.cc).
BUFFERS = {"Click": (1 << 16) - 1, "DPDK": (1 << 18) - 1}
POOL_TEXT = b"--enable-dpdk-pool requires"  # only a program with such a pool has this text
BUFFER_BYTES = 2432  # with DPDK's headers
BASE_MB = 96  # its memory without buffers
WITHOUT_DPDK = "without DPDK"
BURST = 32
DESCRIPTORS = 4096  # as tuned by Zhang et al., CoNEXT 2019, table 2
# The queue of ToDPDKDevice before the ring. If the ring is full, frames stay in the queue until the
# next frame comes. With Click's default of 1024 these are many frames.
QUEUE_FRAMES = BURST
ANSWER_TIMEOUT_S = 10.0
MOST_BYTES = 1 << 20  # limit for a line or a value
TABLE_BYTES = 1 << 26  # limit for a routing table
LOAD_TIMEOUT_S = 120.0
LONGEST_CONFIG = 20_000  # characters in a record


def click_config(
    ports: Sequence[SwitchPort],
    mode: ConnectMode,
    control: str,
    functions: fastclick_functions.Elements | None = None,
) -> str:
    """Return the switch in Click's language. A full queue drops; with Click's default, to wait, the
    ports of one thread would wait for each other."""
    functions = functions or fastclick_functions.Elements()
    lines = [f'ControlSocket(UNIX, "{control}");']
    numbers = ethdev_numbers(ports)
    for port in ports:
        k, number = port.index, numbers[port.index]
        lines.append(
            f"f{k} :: FromDPDKDevice({number}, PROMISC true, BURST {BURST}, NDESC {DESCRIPTORS});"
        )
        lines.append(
            f"t{k} :: ToDPDKDevice({number}, BLOCKING false, BURST {BURST}, "
            f"IQUEUE {QUEUE_FRAMES}, NDESC {DESCRIPTORS});"
        )
    lines += functions.lines
    ports = [port for port in ports if port.index != functions.monitor]
    sources = {port.index: f"f{port.index}" for port in ports} | functions.tails
    sinks = {port.index: f"t{port.index}" for port in ports} | functions.heads
    if mode is ConnectMode.CROSS_CONNECT:
        for port in ports:
            lines.append(f"{sources[port.index]} -> {sinks[peer_index(port.index)]};")
    elif mode is not ConnectMode.ROUTE:
        # Frames at the monitor port were flooded, or left through a wrong port.
        lines.append("w :: Counter -> Discard;")
        join = _learning if mode is ConnectMode.LEARNING else _static
        lines += join(ports, sources, sinks)
    return "\n".join(lines) + "\n"


def _learning(
    ports: Sequence[SwitchPort], sources: Mapping[int, str], sinks: Mapping[int, str]
) -> list[str]:
    """Return the elements of a learning switch. Without a timestamp on every frame, an address
    would expire as soon as it is learnt."""
    witness = len(ports)
    return [
        f"switch :: EtherSwitch(TIMEOUT {MAC_AGING_S});",
        *(
            f"{sources[port.index]} -> SetTimestamp -> [{port.index}]switch[{port.index}] "
            f"-> {sinks[port.index]};"
            for port in ports
        ),
        f"Idle -> [{witness}]switch[{witness}] -> w;",
    ]


def _static(
    ports: Sequence[SwitchPort], sources: Mapping[int, str], sinks: Mapping[int, str]
) -> list[str]:
    """Return the elements of a static table: a classifier by destination address for each port,
    which drops frames without a match. The monitor port is the last entry."""
    lines = []
    for port in ports:
        ways = [(o.mac, sinks[o.index]) for o in ports if o.index != port.index]
        ways.append((WITNESS_MAC, "w"))
        patterns = ", ".join(f"0/{mac.replace(':', '')}" for mac, _ in ways)
        lines.append(f"{sources[port.index]} -> c{port.index} :: Classifier({patterns});")
        lines += [f"c{port.index}[{way}] -> {to};" for way, (_, to) in enumerate(ways)]
    return lines


def read_handlers(
    control: str, handlers: Iterable[str], most_bytes: int = MOST_BYTES
) -> dict[str, str]:
    """Read values from Click's control socket (protocol of element ControlSocket: `READ name`, then
    a status line, `DATA length` and `length` bytes).

    Raises OSError, ValueError."""
    values = {}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_TIMEOUT_S)
        connection.connect(control)
        with connection.makefile("rwb") as stream:
            stream.readline(MOST_BYTES)  # a greeting with the protocol's version
            for handler in handlers:
                stream.write(f"READ {handler}\r\n".encode())
                stream.flush()
                values[handler] = value_of(stream, handler, most_bytes)
    return values


def value_of(stream: BufferedIOBase, handler: str, most_bytes: int = MOST_BYTES) -> str:
    """Return the answer to one query. Raises ValueError."""
    status = stream.readline(MOST_BYTES).decode().strip()
    if not status.startswith("200"):
        raise ValueError(f"{handler}: {status[:200] or 'no answer'}")
    word, _, length = stream.readline(MOST_BYTES).partition(b" ")
    if word != b"DATA" or not 0 <= int(length) <= most_bytes:
        raise ValueError(f"{handler}: no DATA of a known length follows")
    return stream.read(int(length)).decode().strip()


class FastClick(WithOptions, ProgramSwitch):
    """FastClick with DPDK's vhost ports, one thread."""

    name = "fastclick"
    setting = "SWITCHMARK_FASTCLICK"
    programs = ("click",)
    obtain = "build FastClick with --enable-dpdk and --enable-etherswitch (fastclick.dev)"
    capabilities = Capabilities(
        longest_frame_bytes=ONE_BUFFER_FRAME_BYTES,
        port_kinds=(PortKind.VHOST_USER,),
        application_ports=(PortKind.VETH,),
        linux_capabilities={PortKind.VHOST_USER: (), PortKind.VETH: MAPPED},
        writes=(),
        connect_modes=(ConnectMode.LEARNING, ConnectMode.CROSS_CONNECT, ConnectMode.STATIC_MAC),
        polling=True,
        page_sizes=EITHER,
        takes_program=True,
        cable_ends=DPDK_ENDS,
        options=(CABLE_DRIVER, fastclick_functions.ROUTE_LOOKUP),
        functions=fastclick_functions.SUPPORT,
        functions_not_built=fastclick_functions.NOT_BUILT,
        cannot_change_tables={
            "route": "its lookup has handlers that change routes, which the bench does not use",
            "acl": "IPFilter compiles its list while Click starts",
        },
        cannot_reconfigure="while it runs, it refuses configurations with DPDK devices "
        '(`hotconfig` ends with "Trying to configure DPDK device after initialization")',
        taxonomy=Taxonomy(MODULAR, STRUCTURED, RTC, "low", "C++", "modular router"),
        description="FastClick, modular router with DPDK, vhost-user",
    )
    _load_time_s = 0.0

    def version_of(self, program: Path) -> str:
        """Return the version that `click --version` prints, the digest of the program, and the
        version of its DPDK. The output is read line by line, since some builds abort before its
        end. The digest is needed because all builds of some years have the same version."""
        found = re.search(
            r"click \(FastClick\) (\S+)", output_of(["stdbuf", "-oL", str(program), "--version"])
        )
        if found is None:
            return ""
        dpdk = dpdk_version(program, "--dpdk") or WITHOUT_DPDK
        return f"FastClick {found[1]}, program {digest(program)[:12]}, {dpdk}"

    def check_more(self, program: Path, version: str) -> Availability:
        """Check that its DPDK elements were built."""
        if version.endswith(WITHOUT_DPDK):
            return unavailable(
                f"{program} was built without DPDK",
                remedy="build it with `./configure --enable-dpdk`",
            )
        return super().check_more(program, version)

    def memory_mb(self) -> int:
        """Return the memory of all ports together, in MiB."""
        return BASE_MB + self._pool_mb() * memory_nodes()

    def _eal(self, program: Path, devices: Sequence[str]) -> list[str]:
        """Return the program, and the arguments that it passes to EAL."""
        return [
            *(str(program), "--dpdk", "-l", str(self.cores[0])),
            *(*self.eal_memory(self._eal_mb()), "--no-telemetry"),
            *(f"--file-prefix=sm{self.session.id}click", *devices),
        ]

    def _eal_mb(self) -> int:
        """Return the memory that EAL takes at its start: hugepages on the first NUMA node, since it
        takes those of other nodes on demand, or all small pages."""
        return self.memory_mb() if self.small_pages else BASE_MB + self._pool_mb()

    def _pool(self) -> str:
        """Return whether the buffers of DPDK or of Click contain its packets."""
        program = self.program_for(None)
        assert program is not None  # `availability` checks it
        return "DPDK" if has_bytes(program, POOL_TEXT) else "Click"

    def _pool_mb(self) -> int:
        return (BUFFERS[self._pool()] * self.buffer_takes(BUFFER_BYTES) >> 20) + 1

    def launch(self, program: Path) -> None:
        """Write the configuration, start, and wait for the control socket."""
        folder = self.resources.folder("click")
        self._control = check_socket_path(folder / "control.sock")
        self._config = click_config(self.ports, self.mode, self._control, self._functions())
        file = folder / "switch.click"
        file.write_text(self._config)
        devices = eal_devices(self.name, self.ports, self.option("cable_driver"))
        self.run(
            [*self._eal(program, devices), "--", str(file)], {"RUNTIME_DIRECTORY": str(folder)}
        )
        began = time.monotonic()
        timeout_s = DEADLINE_S if self.function_table is None else LOAD_TIMEOUT_S
        self.until(self._answers, "its control socket", timeout_s)
        self._load_time_s = time.monotonic() - began

    def _functions(self) -> fastclick_functions.Elements | None:
        table = self.function_table
        if table is None:
            return None
        refuse_impossible(self, table)
        return fastclick_functions.configuration(table, self.options())

    def table_refusal(self, table: FunctionTable) -> Refusal | None:
        """See `RefusesTables`."""
        return fastclick_functions.refusal(table)

    def function_entries(self) -> FunctionEntries:
        """Count the native entries by Click's handlers. The load time is that of the start, in
        which Click reads its configuration."""
        table = self.function_table
        assert table is not None
        announced = table.entries_of_ports()
        handlers = list(fastclick_functions.handlers(table))
        counted = fastclick_functions.read_back(self._ask(handlers, TABLE_BYTES))
        mine = {name: counted[name] for name in announced}
        return FunctionEntries(announced, mine, self._load_time_s, loads_at_start=True)

    def _answers(self) -> bool:
        try:
            return bool(read_handlers(self._control, ["version"]))
        except (OSError, ValueError):
            return False

    def waiting(self) -> list[SwitchPort]:
        """The ports whose DPDK device has no link."""
        up = self._ask([f"f{port.index}.carrier" for port in self.ports])
        return [port for port in self.ports if up[f"f{port.index}.carrier"] != "1"]

    def _ask(self, handlers: Sequence[str], most_bytes: int = MOST_BYTES) -> dict[str, str]:
        try:
            return read_handlers(self._control, handlers, most_bytes)
        except (OSError, ValueError) as error:
            raise TrialFailed(f"{self.name}: {self.alive() or error}") from None

    def own_counters(self) -> SwitchCounters:
        """Return the counts of the elements at the ports."""
        kinds = ("f{}.count", "t{}.count", "t{}.dropped")
        names = [kind.format(port.index) for port in self.ports for kind in kinds]
        mac_mode = self.mode in (ConnectMode.LEARNING, ConnectMode.STATIC_MAC)
        values = self._ask(names + (["w.count"] if mac_mode else []))
        ports = {}
        for port in self.ports:
            with parsing(self.name):
                rx, tx, dropped = (parse_counter(values[kind.format(port.index)]) for kind in kinds)
                ports[port.index] = PortCounters(rx, tx, 0, dropped)
        with parsing(self.name):
            return SwitchCounters(ports, parse_counter(values["w.count"]) if mac_mode else None)

    def details(self) -> dict[str, str]:
        """See `ProgramSwitch`; and its configuration."""
        return super().details() | {
            "datapath": "DPDK net_vhost, client",
            **self.option_details(),
            "burst": str(BURST),
            "descriptors": str(DESCRIPTORS),
            "packet_pool": self._pool(),
            "buffers_per_numa": str(BUFFERS[self._pool()]),
            "queue_frames": str(QUEUE_FRAMES),
            "when_full": "drop",
            "ring": "chosen by the application",
            "checksum_offload": "not used",
            "configuration": " ".join(self._config[:LONGEST_CONFIG].split()),
        }
