"""`t4p4s`: a P4 program compiled to a DPDK switch, a static table of addresses.

The program is ours (`t4p4s.p4`); the user compiles it once with his t4p4s and names the
result. The bench's addresses are in its table, so no controller is needed. Counters are those
of its DPDK ports, read through DPDK's telemetry.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from switchmark.errors import TrialFailed, UsageError
from switchmark.switch.base import (
    Capabilities,
    ConnectMode,
    PortCounters,
    PortKind,
    SwitchCounters,
    SwitchPort,
)
from switchmark.switch.ports import socket_of
from switchmark.switch.private import check_socket_path
from switchmark.switch.program import ProgramSwitch, output_of

SOURCE = Path(__file__).with_name("t4p4s.p4")
ENTRY = re.compile(r"\(48w0x([0-9a-f]{12})\): forward\((\d+)\);")
MEMORY_MB = 256
LONGEST_MTU_BYTES = 1500
ANSWER_TIMEOUT_S = 10.0
ANSWER_BYTES = 1 << 16


@cache
def table() -> dict[int, str]:
    """The address of each port, as it stands in our P4 program."""
    entries = ENTRY.findall(SOURCE.read_text())
    return {int(port): ":".join(re.findall("..", digits)) for digits, port in entries}


def arguments(program: Path, ports: Sequence[SwitchPort], core: int, file_prefix: str) -> list[str]:
    """EAL's options, then the generated program's own: its ports and which core polls them.
    The last port is the witness, a device that takes everything and gives nothing. The core is
    DPDK's lcore 0 whichever it is: the program crashes at its first frame on any other."""
    vdevs = []
    for port in ports:
        vdevs += ["--vdev", f"net_vhost{port.index},iface={socket_of(port)},client=1"]
    count = len(ports) + 1
    queues = ",".join(f"({port},0,0)" for port in range(count))
    return [
        *(str(program), "--lcores", f"0@{core}", "--no-pci", "--in-memory", "-m", str(MEMORY_MB)),
        *(f"--file-prefix={file_prefix}", *vdevs, "--vdev", "net_null0,no-rx=1"),
        *("--", "-p", hex((1 << count) - 1), "--config", queues),
    ]


def ask_telemetry(path: str, questions: Sequence[str]) -> list[dict[str, Any]]:
    """DPDK's telemetry (version 2): one JSON answer a question. Raises OSError, ValueError."""
    answers = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(ANSWER_TIMEOUT_S)
        connection.connect(path)
        connection.recv(ANSWER_BYTES)  # its version, and who it is
        for question in questions:
            connection.send(question.encode())
            answer = json.loads(connection.recv(ANSWER_BYTES))
            answers.append(answer[question.partition(",")[0]])
    return answers


class T4p4s(ProgramSwitch):
    """The program that t4p4s made of `t4p4s.p4`."""

    name = "t4p4s"
    setting = "SWITCHMARK_T4P4S"
    programs = ("switchmark-t4p4s",)
    obtain = f"compile {SOURCE} with t4p4s (docs/switches.md)"
    capabilities = Capabilities(
        port_kinds=(PortKind.VHOST_USER,),
        connect_modes=(ConnectMode.STATIC_MAC,),
        polling=True,
        needs_hugepages=True,
        settled="its table is compiled in, and it is run without a controller that could change it",
        max_ports=16,
        description="T4P4S, a P4 program compiled to DPDK, vhost-user",
    )

    def version_of(self, program: Path) -> str:
        """It has none of its own: what DPDK says of itself, and which program it is."""
        found = re.search(r"DPDK \d[\d.]*", output_of([str(program), "-v", "-h"]))
        if found is None:
            return ""
        digest = hashlib.sha256(program.read_bytes()).hexdigest()[:12]
        return f"t4p4s program {digest}, {found[0]}"

    def memory_mb(self) -> int:
        """Of all ports together."""
        return MEMORY_MB

    def launch(self, program: Path) -> None:
        """Start it and wait until its telemetry answers."""
        for port in self.ports:
            if (has := table()[port.index]) != port.mac:
                raise UsageError(
                    f"{self.name}: port {port.index} has address {port.mac}, its program {has}; "
                    "the table is compiled in"
                )
            if port.mtu_bytes > LONGEST_MTU_BYTES:
                raise UsageError(
                    f"{self.name}: port {port.index}: MTU {port.mtu_bytes}, its buffers take "
                    f"frames of up to {LONGEST_MTU_BYTES}"
                )
        folder = self.footprint.folder("t4p4s")
        prefix = f"sm{self.session.id}t4"
        self._telemetry = check_socket_path(folder / "dpdk" / prefix / "dpdk_telemetry.v2")
        self.process = self.footprint.spawn(
            arguments(program, self.ports, self.cores[0], prefix),
            cores=self.cores[:1],
            env={"RUNTIME_DIRECTORY": str(folder)},
        )
        self.until(self._all_started, "its ports")

    def _all_started(self) -> bool:
        """The witness is the last port, and its link is always up once it is started."""
        try:
            (status,) = ask_telemetry(self._telemetry, [f"/ethdev/link_status,{len(self.ports)}"])
        except (OSError, ValueError, KeyError):
            return False
        return bool(status) and status.get("status") == "UP"

    def _ask(self, what: str, count: int) -> list[dict[str, Any]]:
        questions = [f"/ethdev/{what},{port}" for port in range(count)]
        try:
            return ask_telemetry(self._telemetry, questions)
        except (OSError, ValueError, KeyError) as error:
            raise TrialFailed(f"{self.name}: {self.alive() or error}") from None

    def waiting(self) -> list[SwitchPort]:
        """The ports whose DPDK device has no link."""
        links = self._ask("link_status", len(self.ports))
        return [port for port in self.ports if links[port.index].get("status") != "UP"]

    def counters(self) -> SwitchCounters:
        """What the DPDK devices have counted. What the table drops shows as the difference."""
        *told, witness = self._ask("stats", len(self.ports) + 1)
        ports = {
            index: PortCounters(
                stats["ipackets"], stats["opackets"], stats["imissed"], stats["oerrors"]
            )
            for index, stats in enumerate(told)
        }
        return SwitchCounters(ports, int(witness["opackets"]))

    def details(self) -> dict[str, str]:
        """Also the program's source, and what t4p4s leaves no choice about."""
        return super().details() | {
            "datapath": "DPDK net_vhost, client",
            "program": f"t4p4s.p4 {hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}",
            "cores": str(self.cores[0]),
            "burst": "32 (compiled in)",
            "ring": "as the application has it",
            "checksum_offload": "not used",
        }
