"""`testpmd`: DPDK's own test application as a cross-connect between vhost-user ports.

`dpdk-testpmd` in its `io` mode does the same as `basicfwd`, but is an independent implementation.
One process serves all pairs. Its ports are paired in the order of the trial, and each forwarding
thread is pinned to one core. DPDK's telemetry, which a control thread answers, has the ports'
counters. Only its command line reports the frames that it dropped at a full ring.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.host.process_output import parse_counter, parsing
from switchmark.model.capabilities import Capabilities, WrittenMemory
from switchmark.model.choices import ETHERNET_OVERHEAD_BYTES
from switchmark.model.page_size import EITHER
from switchmark.model.ports import ConnectMode, PortCounters, PortKind, SwitchCounters
from switchmark.model.taxonomy import RTC, SELF, STRUCTURED, Taxonomy
from switchmark.switch.support.cable import CABLE_DRIVER, DPDK_ENDS, eal_devices, ethdev_numbers
from switchmark.switch.support.program import dpdk_version
from switchmark.switch.support.rights import MAPPED
from switchmark.switch.support.telemetry import ANSWER_TIMEOUT_S, TelemetrySwitch

BUFFERS_A_PORT = 16384
HEADROOM_BYTES = 128 + ETHERNET_OVERHEAD_BYTES  # headroom of a buffer, beyond the MTU
STANDARD_BUFFER_BYTES = 2176
BUFFER_OVERHEAD_BYTES = 256  # overhead of DPDK for each buffer
BASE_MB = 48  # its memory without buffers
BURST = 32
_PORT_HEADING = re.compile(r"Forward statistics for port (\d+)")
_TX_DROPPED = re.compile(r"TX-dropped:\s*(\d+)")


class Testpmd(TelemetrySwitch):
    """One `dpdk-testpmd` for all pairs."""

    name = "testpmd"
    setting = "SWITCHMARK_TESTPMD"
    programs = ("dpdk-testpmd",)
    obtain = "apt install dpdk-dev"
    capabilities = Capabilities(
        port_kinds=(PortKind.VHOST_USER,),
        application_ports=(PortKind.VETH,),
        linux_capabilities={PortKind.VHOST_USER: ("ipc_lock",), PortKind.VETH: MAPPED},
        writes=(),
        connect_modes=(ConnectMode.CROSS_CONNECT,),
        polling=True,
        multi_core=True,
        runs_in=("host", "netns", "lxc", "docker"),
        main_thread=True,
        max_ports=32,  # limit of DPDK
        page_sizes=EITHER,
        # The program locks all memory, also that of its peers.
        written_memory=WrittenMemory(1.0, 1.0, own_mb=60),
        takes_program=True,
        cable_ends=DPDK_ENDS,
        options=(CABLE_DRIVER,),
        cannot_reconfigure="it stops to forward before it adds a port, and it has no table",
        taxonomy=Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "test of DPDK ports"),
        description="DPDK's test application, io forwarding between vhost-user ports",
    )

    main_core: int | None = None

    def version_of(self, program: Path) -> str:
        """Return the version that EAL prints first, for example `DPDK 22.11.11`."""
        return dpdk_version(program)

    def memory_mb(self) -> int:
        """Return the memory in MiB for the buffers of all ports, which are in one pool."""
        each = self.buffer_takes(self._buffer_bytes() + BUFFER_OVERHEAD_BYTES)
        bytes_needed = self._buffers() * each
        return BASE_MB + (bytes_needed >> 20) + 1

    def _buffers(self) -> int:
        return BUFFERS_A_PORT * len(self.ports)

    def _buffer_bytes(self) -> int:
        """Return the bytes of a buffer. A frame is in one buffer, as in the other switches."""
        longest = max(port.mtu_bytes for port in self.ports) + HEADROOM_BYTES
        return max(STANDARD_BUFFER_BYTES, longest)

    def launch(self, program: Path) -> None:
        """Start it; it forwards as soon as a pair has both its peers."""
        self._numbers = ethdev_numbers(self.ports)
        folder = self.resources.folder("testpmd")
        prefix = f"sm{self.session.id}tp"
        self._telemetry = self.telemetry_socket(folder, prefix)
        self.run(
            ["stdbuf", "-oL", str(program), *self._eal_options(prefix), "--", *self._options()],
            {"RUNTIME_DIRECTORY": str(folder)},
            sorted({*self.cores, *([] if self.main_core is None else [self.main_core])}),
        )
        assert self.process is not None
        every = list(range(len(self.ports)))
        self.until(lambda: self.answers_so_far("/ethdev/list") == every, "it has all its ports")
        if not self._in_order:
            # The option --portlist sorts its ports; the command `set portlist` does not.
            listed = ",".join(str(self._numbers[port.index]) for port in self.ports)
            self.process.write_line(f"set portlist {listed}")
            self.process.write_line("start")

    @property
    def _in_order(self) -> bool:
        """Return True if DPDK numbers the devices like the trial."""
        return all(index == number for index, number in self._numbers.items())

    def _eal_options(self, prefix: str) -> list[str]:
        """Return EAL's options. Thread 0 only waits for the end; the others forward, one on each
        core."""
        main = self.cores[0] if self.main_core is None else self.main_core
        threads = [f"0@{main}"]
        threads += [f"{number}@{core}" for number, core in enumerate(self.cores, 1)]
        ports = eal_devices(self.name, self.ports, self.option("cable_driver"))
        return [
            *self.eal_memory(self.memory_mb()),
            *([] if self.small_pages else ["--single-file-segments"]),
            *(f"--file-prefix={prefix}", "--lcores", ",".join(threads), *ports),
        ]

    def _options(self) -> list[str]:
        numbers = ",".join(str(number) for number in range(len(self.ports)))
        return [
            *("-i", "--forward-mode=io", "--port-topology=paired", f"--portlist={numbers}"),
            *(["--auto-start"] if self._in_order else []),
            *(f"--nb-cores={len(self.cores)}", f"--burst={BURST}"),
            *("--disable-link-check", f"--total-num-mbufs={self._buffers()}"),
            *(f"--mbuf-size={self._buffer_bytes()}",),
        ]

    def own_counters(self) -> SwitchCounters:
        """Return the counters of the ports, with the frames that testpmd dropped at a full port."""
        dropped = self._dropped()
        statistics = self.ask("stats", len(self.ports))
        ports = {}
        with parsing(self.name):
            for index, number in self._numbers.items():
                port_statistics = statistics[number]
                lost = sum(
                    parse_counter(port_statistics[name])
                    for name in ("imissed", "ierrors", "rx_nombuf")
                )
                rx, tx = (
                    parse_counter(port_statistics["ipackets"]),
                    parse_counter(port_statistics["opackets"]),
                )
                ports[index] = PortCounters(rx, tx, lost, dropped[number])
        return SwitchCounters(ports)

    def _dropped(self) -> dict[int, int]:
        """Return the frames that each port failed to send; the last value is the sum."""
        assert self.process is not None
        dropped: dict[int, int] = {}
        port: int | None = None
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        try:
            self.process.write_line("show fwd stats all")
            while True:
                line = self.process.read_line(max(0.01, deadline - time.monotonic()))
                if line is None:
                    raise TrialFailed(f"{self.name}: {self.alive()}")
                if found := _PORT_HEADING.search(line):
                    port = int(found[1])
                elif "Accumulated forward statistics" in line:
                    port = None
                elif found := _TX_DROPPED.search(line):
                    if port is None and dropped:
                        return dropped
                    if port is not None:
                        dropped[port] = int(found[1])
        except (TimeoutError, SwitchmarkError) as error:
            problem = self.alive() or f"does not print its forwarding statistics ({error})"
            raise TrialFailed(f"{self.name}: {problem}") from None

    def details(self) -> dict[str, str]:
        """See `ProgramSwitch`; and the whole command line."""
        return super().details() | {
            "datapath": "DPDK vhost-user, io forwarding, one process",
            "burst": str(BURST),
            "buffers": str(self._buffers()),
            "buffer_bytes": str(self._buffer_bytes()),
            "idle": "poll",
            **self.option_details(),
            "options": " ".join(self._options()),
        }
