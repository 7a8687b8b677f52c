"""`snabb`: the Lua switch with vhost-user ports, which runs the bench's program `snabb.lua`.

It is one process on one core; `snabb snsh` runs the program without a build. Its counters are files
of eight bytes each, which Snabb updates every hundred rounds of its loop.
"""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from switchmark.errors import Refusal, TrialFailed
from switchmark.function.support.table import FunctionTable
from switchmark.host.place import Facility
from switchmark.host.process_output import output_of
from switchmark.model.capabilities import Capabilities
from switchmark.model.changes import Change
from switchmark.model.functions import FunctionEntries
from switchmark.model.page_size import PageSize
from switchmark.model.ports import ConnectMode, PortCounters, PortKind, SwitchCounters, SwitchPort
from switchmark.model.taxonomy import MODULAR, PIPELINE, STRUCTURED, Taxonomy
from switchmark.switch.support import snabb_functions
from switchmark.switch.support.base import refuse_impossible
from switchmark.switch.support.changes import PORTS
from switchmark.switch.support.ports import peer_index, socket_of
from switchmark.switch.support.program import DEADLINE_S, MAC_AGING_S, ProgramSwitch
from switchmark.switch.support.rights import SOCKET
from switchmark.switch.support.tools import own_text

PROGRAM, FUNCTIONS = "snabb.lua", "snabb_functions.lua"  # in this folder
LOAD_TIMEOUT_S = 120.0
LINK_FRAMES = 1024  # capacity of a link between two apps
PACKET_BYTES = 11 * 1024  # a packet buffer with its headroom
COMMIT_ROUNDS = 100  # rounds between updates of Snabb's counters
COUNTERS_TIMEOUT_S = 10.0
POLL_S = 0.001


def memory_mb(links: int) -> int:
    """Return the hugepages in MiB for the packets in full links. Snabb allocates 1000, 2000, 4000,
    ... packets."""
    packets, step = 0, 1000
    while packets < (links + 1) * LINK_FRAMES:
        packets, step = packets + step, 2 * step
    return -(-packets * PACKET_BYTES // (2 << 20)) * 2


def links_of(index: int, mode: ConnectMode, table: FunctionTable | None = None) -> tuple[str, str]:
    """Return the links that leave and enter a port's app, with the names of their folders in Snabb.
    Apps of functions are behind these links."""
    peer = peer_index(index)
    apps = snabb_functions.chain(table, index) if table else []
    before = snabb_functions.chain(table, peer) if table else []
    if mode is ConnectMode.CROSS_CONNECT:
        target, source = f"p{peer}.rx", f"{before[-1]}.output" if before else f"p{peer}.tx"
    else:
        hub = "router" if mode is ConnectMode.ROUTE else "bridge"
        target = source = f"{hub}.p{index}"
    if apps:
        target = f"{apps[0]}.input"
    if table and snabb_functions.has_tag(table, index):
        source = f"tag{index}.output"
    return f"p{index}.tx -> {target}", f"{source} -> p{index}.rx"


class Snabb(ProgramSwitch):
    """Snabb with the apps `VhostUser` and `bridge.learning`."""

    name = "snabb"
    setting = "SWITCHMARK_SNABB"
    programs = ("snabb",)
    obtain = "build Snabb (github.com/snabbco/snabb, `make`)"
    needs = (Facility.PHYSICAL_ADDRESSES,)
    capabilities = Capabilities(
        port_kinds=(PortKind.VHOST_USER,),
        application_ports=(PortKind.VETH,),
        linux_capabilities={PortKind.VHOST_USER: (), PortKind.VETH: SOCKET},
        writes=("/tmp",),  # a lock with a fixed path
        connect_modes=(ConnectMode.LEARNING, ConnectMode.CROSS_CONNECT),
        polling=True,
        page_sizes=(PageSize.HUGE,),
        takes_program=True,
        cannot_change_tables={
            "route": "its program loads the table while it starts",
            "acl": "pflua compiles the list while Snabb starts",
        },
        reconfigures=True,
        taxonomy=Taxonomy(MODULAR, STRUCTURED, PIPELINE, "high", "Lua, C", "VM-to-VM"),
        description="Snabb, Lua apps in one polling process, vhost-user",
        functions=snabb_functions.SUPPORT,
        functions_not_built=snabb_functions.NOT_BUILT,
    )

    def version_of(self, program: Path) -> str:
        """Return the version that `snabb --version` prints. It does not run in the folder in which
        the user's Snabb has its state."""
        with tempfile.TemporaryDirectory(prefix="sm", ignore_cleanup_errors=True) as folder:
            text = output_of([str(program), "--version"], {**os.environ, "SNABB_SHM_ROOT": folder})
        first = text.strip().partition("\n")[0]
        return first if first.startswith("snabb") else ""

    def memory_mb(self) -> int:
        """Return the memory of all packets that may be in flight, in MiB."""
        links = len(self.ports)
        if self.mode is not ConnectMode.CROSS_CONNECT:
            links = 2 * links + 2
        if (table := self.function_table) is not None:
            links += sum(len(snabb_functions.chain(table, port.index)) for port in self.ports)
        return memory_mb(links)

    def launch(self, program: Path) -> None:
        """Start it and wait for its first round."""
        self._shm = self.resources.folder("snabb")
        (self._shm / PROGRAM).write_text(own_text(PROGRAM))
        plan = "-"
        if (table := self.function_table) is not None:
            refuse_impossible(self, table)
            (self._shm / FUNCTIONS).write_text(own_text(FUNCTIONS))
            plan = str(snabb_functions.write_plan(table, self._shm))
        ports = [port.device or socket_of(port) for port in self.ports]
        self.run(
            [
                *(str(program), "snsh", str(self._shm / PROGRAM)),
                *(self.mode.value, str(MAC_AGING_S), plan, *ports),
            ],
            {"SNABB_SHM_ROOT": str(self._shm)},
        )
        timeout_s = DEADLINE_S if table is None else LOAD_TIMEOUT_S
        self.until(lambda: self._read("engine/breaths") > 0, "first round of its loop", timeout_s)

    def table_refusal(self, table: FunctionTable) -> Refusal | None:
        """See `RefusesTables`."""
        return snabb_functions.refusal(table)

    def function_entries(self) -> FunctionEntries:
        """Count the entries that the Lua program has found in its apps."""
        assert self.function_table is not None
        announced = self.function_table.entries_of_ports()
        counted = {name: self._read(f"switchmark/{name}") for name in announced}
        load_time_s = self._read("switchmark/load_ns") / 1e9
        return FunctionEntries(announced, counted, load_time_s, loads_at_start=True)

    def _read(self, counter: str) -> int:
        """Return the last value of a counter; 0 before it exists."""
        assert self.process is not None
        path = self._shm / str(self.process.pid) / f"{counter}.counter"
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return 0
        return int(struct.unpack("=Q", content[:8])[0]) if len(content) >= 8 else 0

    def waiting(self) -> list[SwitchPort]:
        """Return the ports that the Lua program does not report as up."""
        return [port for port in self.ports if not self._read(f"switchmark/p{port.index}")]

    def own_counters(self) -> SwitchCounters:
        """Count the frames up to this call: wait until Snabb has updated all counters."""
        published = self._read("engine/breaths") + 2 * COMMIT_ROUNDS
        deadline = time.monotonic() + COUNTERS_TIMEOUT_S
        while self._read("engine/breaths") < published:
            if (problem := self.alive()) is not None or time.monotonic() > deadline:
                raise TrialFailed(f"{self.name}: {problem or 'it no longer updates its counters'}")
            time.sleep(POLL_S)
        ports = {port.index: self._port(port.index) for port in self.ports}
        if self.mode is not ConnectMode.LEARNING:
            return SwitchCounters(ports)
        return SwitchCounters(ports, self._read("links/bridge.witness -> sink.input/txpackets"))

    def _port(self, index: int) -> PortCounters:
        """Return the frames that a port's app received from the port, and sent to it. A full link
        drops frames, which are receive drops behind the app and send drops before it."""
        leaving, entering = (
            f"links/{link}" for link in links_of(index, self.mode, self.function_table)
        )
        dropped = self._read(f"{leaving}/txdrop")
        bridged = self.mode is ConnectMode.LEARNING
        return PortCounters(
            rx_frames=self._read(f"{leaving}/txpackets") + dropped,
            tx_frames=self._read(f"{entering}/rxpackets"),
            rx_dropped=dropped if bridged else 0,
            tx_dropped=self._read(f"{entering}/txdrop"),
        )

    def changes(self) -> Sequence[Change]:
        """Return the change to a graph of apps with unused ports, and back. A bridge with other
        ports is a new bridge for Snabb, with an empty table. The table accepts no entries."""
        return [
            Change(f"{PORTS} ports added", lambda: self._have_spare(PORTS)),
            Change(f"{PORTS} ports removed", lambda: self._have_spare(0)),
        ]

    def _have_spare(self, count: int) -> None:
        """Set the number of spare ports of the Lua program, and wait until it has them."""
        assert self.process is not None
        path = self._shm / str(self.process.pid) / "switchmark/spare"
        with path.open("r+b", buffering=0) as file:
            file.write(struct.pack("=Q", count))
        self.until(
            lambda: struct.unpack("=QQ", path.read_bytes()) == (count, count),
            f"a graph with {count} more ports",
        )

    def details(self) -> dict[str, str]:
        """See `ProgramSwitch`; also the settings of the Lua program and of Snabb."""
        return super().details() | {
            "datapath": "apps VhostUser and bridge.learning, one process, engine.busywait",
            "link_frames": str(LINK_FRAMES),
            "burst": "all frames in the ring",
            "ring": "chosen by the application",
            "checksum_offload": "off (VIRTIO_NET_F_CSUM not offered)",
            "mac_aging_s": str(MAC_AGING_S),
            "memory": "anonymous hugepages",
            **({"cable_driver": "app RawSocket (AF_PACKET)"} if self.netns else {}),
        }
