"""The engine's kernel backends and other programs on the same veth pair: the programs of one run.

Each kind of port has its opponents:

  packet-mmap  dpdk-testpmd with DPDK's af_packet driver
  af-xdp       dpdk-testpmd with DPDK's af_xdp driver, and the floor
  raw-mmsg     a plain sendmmsg loop (plain.c): past the qdisc, through it, and, like earlier tools,
               through it and to the device's own address, so that the receiving kernel's IP stack
               processes every frame (the other frames have addresses that no kernel has)
  udp-mmsg     a plain sendmmsg loop on UDP, and iperf3 -u
  io-uring     the plain loop past the qdisc, and the floor

and up to three cases:

  sender    the program sends as fast as it can; no program listens at the other end, where the
            kernel drops unknown frames (for UDP: a socket that is never read). This is the cost of
            sending through the wire up to the other end's kernel
  pair      the same with a receiver of the same program and kind on another core, which
            verifies and counts (engine) or counts (testpmd rxonly); the received frames
  receiver  the same sender for the receivers of both programs: the engine's, of the same kind

The floor (floor.c, senders only) uses the same calls and does nothing more: no frame is written,
the same descriptors or requests are submitted repeatedly. No sender that uses these calls can be
faster.

Frames are counted at the receiving end by the device (sender) or by the receiving program. Senders
are always busy, so their rate is also given per second of CPU time: the rate of a sender with a
separate core, which is valid on a busy machine.
"""

from __future__ import annotations

import shutil
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from comparison import OURS, Run, observe
from plain import Plain
from programs import ProgramError, Testpmd, Traffic
from wire import DEVICE_A, DEVICE_B, IP_A, IP_B, MAC_A, MAC_B, Wire, inside

WARM_UP_S = 0.4
MOVING_TIMEOUT_S = 10.0
TESTPMD, IPERF = "testpmd", "iperf3"
PLAIN, PLAIN_PAST = "plain loop", "plain loop, past qdisc"
PLAIN_ADDRESSED = "plain loop, addressed"
FLOOR = "floor"
CASES = ("sender", "pair", "receiver")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of port: the engine's specification, DPDK's, and its opponents."""

    engine: str
    vdev: str | None
    opponents: tuple[str, ...]


KINDS = {
    "packet-mmap": Kind("packet_mmap:dev={}", "net_af_packet0,iface={},qdisc_bypass=1", (TESTPMD,)),
    "af-xdp": Kind("af_xdp:dev={}", "net_af_xdp0,iface={}", (TESTPMD, FLOOR)),
    "raw-mmsg": Kind("raw:dev={},mmsg", None, (PLAIN_PAST, PLAIN, PLAIN_ADDRESSED)),
    "udp-mmsg": Kind("udp:dev={},mmsg", None, (PLAIN, IPERF)),
    "io-uring": Kind("io_uring:dev={}", None, (PLAIN_PAST, FLOOR)),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Common settings of all runs."""

    engine: Path
    cores: tuple[int, int]  # the measured sender's and the other one
    frame_size: int
    burst: int
    seconds: float
    built: dict[str, Path]  # programs of plain.py by name


class Bench:
    """Builds and measures the programs of one run."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.core, self.other_core = settings.cores

    def _traffic(self, role: str, kind: str, core: int) -> Traffic:
        sends = role == "sender"
        own_end, peer = ((MAC_A, IP_A), (MAC_B, IP_B)) if sends else ((MAC_B, IP_B), (MAC_A, IP_A))
        options = ["--frame-size", str(self.settings.frame_size), "--idle", "poll"]
        options += ["--src-ip", own_end[1], "--dst-ip", peer[1]]
        if kind != "udp-mmsg":
            options += ["--src-mac", own_end[0], "--dst-mac", peer[0]]
        if sends:
            options += ["--rate", "max", "--burst", str(self.settings.burst)]
        spec = KINDS[kind].engine.format(DEVICE_A if sends else DEVICE_B)
        return Traffic(self.settings.engine, role, [spec], options, core)

    def _testpmd(self, mode: str, kind: str, core: int) -> Testpmd:
        vdev = (KINDS[kind].vdev or "").format(DEVICE_A if mode == "txonly" else DEVICE_B)
        options = [f"--burst={self.settings.burst}", f"--txpkts={self.settings.frame_size - 4}"]
        return Testpmd(mode, [vdev], options, core)

    def sender(self, kind: str, program: str, wire: Wire) -> Traffic | Testpmd | Plain:
        """Return the program that sends from the first namespace, on the measured core."""
        if program == OURS:
            return self._traffic("sender", kind, self.core)
        if program == TESTPMD:
            return self._testpmd("txonly", kind, self.core)
        if program == IPERF:
            length = self.settings.frame_size - 46  # Ethernet, IP, UDP, FCS
            command = ["iperf3", "-c", IP_B, "-u", "-b", "0", "-l", str(length), "-t", "60"]
            return Plain(command, self.core)
        if program == FLOOR:
            command = [kind.replace("-", "_"), DEVICE_A, str(self.settings.frame_size - 4)]
            return Plain(
                [str(self.settings.built["floor"]), *command, str(self.settings.burst)], self.core
            )
        udp = kind == "udp-mmsg"
        way = "udp" if udp else "raw-bypass" if program == PLAIN_PAST else "raw"
        size = self.settings.frame_size - (46 if udp else 4)
        command = [way, IP_B if udp else DEVICE_A, str(size), str(self.settings.burst)]
        if program == PLAIN_ADDRESSED:
            command = ["datagram", *command[1:], wire.far_mac(), IP_B]
        return Plain([str(self.settings.built["plain"]), *command], self.core)

    def receiver(self, kind: str, program: str, core: int) -> Traffic | Testpmd:
        """Return the program that receives in the second namespace."""
        if program == OURS:
            return self._traffic("receiver", kind, core)
        return self._testpmd("rxonly", kind, core)

    def run(self, kind: str, case: str, program: str) -> Run:
        """Measure once."""
        with ExitStack() as stack:
            wire = stack.enter_context(Wire())
            running: list[Traffic | Testpmd | Plain] = []
            stack.callback(kill_all, running)
            read = wire.arrived
            with inside(wire.b):
                if case != "sender":
                    receives = self.receiver(kind, program, self.other_core)
                    running.append(receives)
                    counter = "rx_frames" if isinstance(receives, Traffic) else "RX-packets"
                    read = lambda: receives.frames(counter)  # noqa: E731
                elif program == IPERF:
                    running.append(Plain(["iperf3", "-s"], self.other_core))
                    time.sleep(0.3)
                elif kind == "udp-mmsg":
                    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    stack.callback(sink.close)
                    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    sink.bind((IP_B, 5000))
            with inside(wire.a):
                running.append(self.sender(kind, OURS if case == "receiver" else program, wire))
            for each in running:
                each.start()
            _wait_for_frames(wire)
            return observe(running, read, self.settings.seconds, running[-1].process.ran_ns)


def kill_all(running: Sequence[Traffic | Testpmd | Plain]) -> None:
    """Kill all of them at once."""
    for each in running:
        each.process.kill()


def _wait_for_frames(wire: Wire) -> None:
    """Wait until frames arrive, and a moment more. Raises ProgramError."""
    end_s = time.monotonic() + MOVING_TIMEOUT_S
    begun = wire.arrived().frames
    while wire.arrived().frames < begun + 1000:
        if time.monotonic() > end_s:
            raise ProgramError("no frames arrive at the other end of the wire")
        time.sleep(0.05)
    time.sleep(WARM_UP_S)


def is_there(program: str) -> bool:
    """Return True if the programs of an opponent are installed; otherwise print their names."""
    needed = {TESTPMD: "dpdk-testpmd", IPERF: "iperf3"}.get(program, "cc")
    if shutil.which(needed) is None:
        print(f"{program}: left out, {needed} is not installed", file=sys.stderr)
        return False
    return True
