"""`t4p4s`: a P4 program compiled to a DPDK switch: a static table of addresses, or of ports.

The bench has a P4 program for each connect mode (`t4p4s.p4`, `t4p4s_cross_connect.p4`). The user
compiles each once with t4p4s, names the first, and puts the second into the same folder. The tables
are compiled in, so no controller is needed. Counters are those of the DPDK ports, read through
DPDK's telemetry.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from switchmark.errors import UsageError
from switchmark.host.process_output import parse_counter, parsing
from switchmark.host.programs import digest, has_bytes, which
from switchmark.model.capabilities import (
    ONE_BUFFER_FRAME_BYTES,
    Availability,
    Capabilities,
    SwitchOption,
    unavailable,
)
from switchmark.model.page_size import EITHER
from switchmark.model.ports import ConnectMode, PortCounters, PortKind, SwitchCounters, SwitchPort
from switchmark.model.taxonomy import MATCH_ACTION, RTC, SELF, Taxonomy
from switchmark.switch.support.cable import DPDK_ENDS, eal_devices, ethdev_numbers
from switchmark.switch.support.program import dpdk_version
from switchmark.switch.support.telemetry import TelemetrySwitch
from switchmark.switch.support.tools import own_text

SOURCE = Path(__file__).with_name("t4p4s.p4")
SOURCES = {
    ConnectMode.STATIC_MAC: SOURCE,
    ConnectMode.CROSS_CONNECT: SOURCE.with_name("t4p4s_cross_connect.p4"),
}
# Names from the source that distinguish one compiled program from the other.
MARKS = {
    ConnectMode.STATIC_MAC: b"ingress.destination",
    ConnectMode.CROSS_CONNECT: b"ingress.to_other_end",
}
BESIDE = "-cross-connect"  # suffix of the second program's name
ENTRY = re.compile(r"\(48w0x([0-9a-f]{12})\): forward\((\d+)\);")
MEMORY_MB = 256
CABLE_DRIVER = SwitchOption(
    "cable_driver",
    "driver of DPDK for the interface of a cable (`location: remote`, `nics`). The program needs "
    "frames of 1,536 bytes, and `af-packet` accepts 1,518",
    "af-xdp",
    ("af-xdp",),
)


@cache
def table() -> dict[int, str]:
    """Return the address of each port in the P4 program."""
    entries = ENTRY.findall(own_text(SOURCE.name))
    return {int(port): ":".join(re.findall("..", digits)) for digits, port in entries}


def arguments(
    program: Path,
    ports: Sequence[SwitchPort],
    mode: ConnectMode,
    core: int,
    file_prefix: str,
    cable_driver: str = "af-xdp",
    memory: Sequence[str] = ("--in-memory", "-m", str(MEMORY_MB)),
) -> list[str]:
    """Return EAL's options, then those of the generated program: its ports, and the cores that poll
    them.

    With a table of addresses the last port is the monitor port, a device that accepts all frames
    and receives none. It has no receive queue, because a core polls at most 16 queues. The core is
    always DPDK's lcore 0, because the program crashes at its first frame on another core."""
    devices = eal_devices("t4p4s", ports, cable_driver)
    count = len(ports)
    queues = ",".join(f"({port},0,0)" for port in range(count))
    if mode is ConnectMode.STATIC_MAC:
        devices += ["--vdev", "net_null0,no-rx=1"]
        count += 1
    return [
        *(str(program), "--lcores", f"0@{core}", *memory),
        *(f"--file-prefix={file_prefix}", *devices),
        *("--", "-p", hex((1 << count) - 1), "--config", queues),
    ]


class T4p4s(TelemetrySwitch):
    """The programs that t4p4s generated from the P4 programs."""

    name = "t4p4s"
    setting = "SWITCHMARK_T4P4S"
    programs = ("switchmark-t4p4s",)
    obtain = f"compile {SOURCE} with t4p4s (docs/switches-userspace.md)"
    capabilities = Capabilities(
        longest_frame_bytes=ONE_BUFFER_FRAME_BYTES,
        port_kinds=(PortKind.VHOST_USER,),
        connect_modes=(ConnectMode.STATIC_MAC, ConnectMode.CROSS_CONNECT),
        polling=True,
        page_sizes=EITHER,
        takes_program=True,
        cable_ends=DPDK_ENDS,
        options=(CABLE_DRIVER,),
        cannot_reconfigure="its table is compiled in, and it runs without a controller that could "
        "change it",
        max_ports=16,
        linux_capabilities={PortKind.VHOST_USER: ()},
        writes=(),
        taxonomy=Taxonomy(SELF, MATCH_ACTION, RTC, "medium", "C, Python", "P4 switch"),
        description="T4P4S, a P4 program compiled to DPDK, vhost-user",
    )

    def program_for(self, mode: ConnectMode | None) -> Path | None:
        """Return the program that the setting names, or the second program in its folder."""
        first = super().program_for(mode)
        if first is None or mode is not ConnectMode.CROSS_CONNECT:
            return first
        return which(f"{first}{BESIDE}")

    def mode_availability(self, mode: ConnectMode) -> Availability:
        """Available if the program for this mode exists, and was compiled from the right source."""
        first, program = self.program_for(None), self.program_for(mode)
        if first is None:
            return self.availability()
        remedy = f"compile {SOURCES[mode]} with t4p4s (docs/switches-userspace.md)"
        if program is None:
            path = f"{first}{BESIDE}"
            reason = f"no program {path} for connect_mode {mode}"
            return unavailable(reason, remedy=f"{remedy} to this path")
        if not has_bytes(program, MARKS[mode]):
            reason = f"{program} was not compiled from {SOURCES[mode].name}"
            return unavailable(reason, remedy=remedy)
        return self._check_program(program)

    def version_of(self, program: Path) -> str:
        """Return the version of DPDK, and the digest of the program, which has no version."""
        dpdk = dpdk_version(program)
        return f"t4p4s program {digest(program)[:12]}, {dpdk}" if dpdk else ""

    def memory_mb(self) -> int:
        """Return the memory of all ports together. The buffers of its only pool, of 2 KiB each,
        take twice as much on small pages."""
        return MEMORY_MB * 2 if self.small_pages else MEMORY_MB

    def launch(self, program: Path) -> None:
        """Start it and wait until its telemetry answers."""
        for port in self.ports:
            if self._by_address and (has := table()[port.index]) != port.mac:
                raise UsageError(
                    f"{self.name}: port {port.index} has address {port.mac}, and the table in its "
                    f"program has {has}"
                )
        self._numbers = ethdev_numbers(self.ports)
        if len(self.ports) > 2 and any(port.pci for port in self.ports):
            raise UsageError(
                f"{self.name}: its program connects ports in the order in which DPDK finds them, "
                "with NICs first",
                remedy="with a cable by PCI address use scenario: v2v",
            )
        folder = self.resources.folder("t4p4s")
        prefix = f"sm{self.session.id}t4"
        self._telemetry = self.telemetry_socket(folder, prefix)
        driver = self.option("cable_driver")
        self.run(
            arguments(
                program,
                self.ports,
                self.mode,
                self.cores[0],
                prefix,
                driver,
                self.eal_memory(self.memory_mb()),
            ),
            {"RUNTIME_DIRECTORY": str(folder)},
        )
        self.until(self._all_started, "its ports")

    @property
    def _by_address(self) -> bool:
        return self.mode is ConnectMode.STATIC_MAC

    def _all_started(self) -> bool:
        """Return True if the last port has been started, because ports are started in order."""
        last = len(self.ports) - (0 if self._by_address else 1)
        info = self.answers_so_far(f"/ethdev/info,{last}")
        return isinstance(info, dict) and info.get("dev_started") == 1

    def own_counters(self) -> SwitchCounters:
        """Return the counters of the DPDK devices. Frames that the table drops are the
        difference."""
        statistics = self.ask("stats", len(self.ports) + int(self._by_address))
        keys = ("ipackets", "opackets", "imissed", "oerrors")
        with parsing(self.name):
            witness = parse_counter(statistics.pop()["opackets"]) if self._by_address else None
            ports = {
                index: PortCounters(*(parse_counter(statistics[number][key]) for key in keys))
                for index, number in self._numbers.items()
            }
            return SwitchCounters(ports, witness)

    def details(self) -> dict[str, str]:
        """See `ProgramSwitch`; also the source, and the fixed settings of t4p4s."""
        source, text = SOURCES[self.mode], own_text(SOURCES[self.mode].name)
        return super().details() | {
            "version": str(self.mode_availability(self.mode).version),
            "datapath": "DPDK net_vhost, client",
            "program": f"{source.name} {hashlib.sha256(text.encode()).hexdigest()[:12]}",
            "burst": "32, or all frames of 100 us (compiled in)",
            "ring": "chosen by the application",
            "checksum_offload": "not used",
            **self.option_details(),
        }
