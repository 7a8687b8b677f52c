"""The traffic engine and dpdk-testpmd on the same kind of DPDK port: the programs of one run.

Five cases, each with the same counterpart for both programs:

  sender     `switchmark-traffic sender` (every frame has its own sequence number, two time
             stamps and right checksums) against `testpmd txonly`, and against Pktgen-DPDK,
             counted by the receiver; a `testpmd rxonly` receives.
  receiver   `switchmark-traffic receiver` (sequence and latency of every frame) against
             `testpmd rxonly`; the engine's sender sends.
  forwarder  `switchmark-traffic forwarder` against `testpmd io`, between two ports of another
             `testpmd io` through which a fixed set of frames circulates in both directions.
  wire       the engine's sender to its receiver, against engines that only move descriptors
             (descriptors.c): the maximum of the port kind.
  rewriter   the forwarder, which writes each frame's MAC addresses: `--mac-update` against
             `macswap`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from comparison import OURS, Run, observe
from pktgen import Pktgen
from programs import Program, ProgramError, Testpmd, Traffic

WARM_UP_S = 0.4
CAROUSEL_BURSTS = 4  # each way; few enough to lie in one ring without drops
MAC_A, MAC_B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
THEIRS, PKTGEN = "dpdk-testpmd", "pktgen"
MOVING_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Common settings of all runs."""

    engine: Path
    port: str
    measured_core: int
    other_core: int
    frame_size: int
    burst: int
    queue_size: int
    seconds: float
    pktgen: Path | None


class Bench:
    """Builds the programs of one run with sockets in a separate folder."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder

    def _specs(self, kind: str, index: int) -> tuple[str, str]:
        """Return a port of this kind on socket `index`, for the engine and for testpmd."""
        path, size = self.folder / f"{index}.sock", self.settings.queue_size
        if kind == "virtio-user":
            return (
                f"dpdk:virtio-user={path},queue-size={size}",
                f"net_virtio_user{index},path={path},queue_size={size}",
            )
        if kind == "vhost":
            return f"dpdk:vhost={path}", f"net_vhost{index},iface={path}"
        role = "server" if kind == "memif-server" else "client"
        ring = self.settings.queue_size.bit_length() - 1
        return (
            f"dpdk:memif={path},role={role},id={index},queue-size={size}",
            f"net_memif{index},role={role},id={index},socket={path},socket-abstract=no,rsize={ring}",
        )

    def traffic(self, role: str, kind: str, core: int, ports: int = 1) -> Traffic:
        """Return the engine with `ports` ports of this kind."""
        specs = [self._specs(kind, index)[0] for index in range(ports)]
        options = ["--frame-size", str(self.settings.frame_size), "--idle", "poll"]
        if role != "receiver":
            options += ["--burst", str(self.settings.burst)]
        if role == "sender":
            options += ["--rate", "max"]
        if role in ("sender", "rewriter"):
            options += ["--src-mac", MAC_A, "--dst-mac", MAC_B]
        if role == "rewriter":
            role, options = "forwarder", [*options, "--mac-update"]
        if role == "receiver":
            options += ["--latency", "1"]
        return Traffic(self.settings.engine, role, specs, options, core)

    def testpmd(self, mode: str, kind: str, core: int, ports: int = 1) -> Testpmd:
        """Return testpmd with the same ports, rings and burst."""
        vdevs = [self._specs(kind, index)[1] for index in range(ports)]
        size = self.settings.queue_size
        options = [f"--burst={self.settings.burst}", f"--txd={size}", f"--rxd={size}"]
        options.append(f"--txpkts={self.settings.frame_size - 4}")
        return Testpmd(mode, vdevs, options, core)

    def pktgen(self, kind: str, core: int) -> Pktgen:
        """Return Pktgen with the same port, rings, size and burst."""
        assert self.settings.pktgen is not None
        vdev, s = self._specs(kind, 0)[1], self.settings
        return Pktgen(self.settings.pktgen, vdev, s.frame_size, s.burst, s.queue_size, core)

    def run(self, case: str, program: str) -> Run:
        """Measure once."""
        is_engine = program == OURS
        mine, peer = PORT_KINDS[self.settings.port]
        core, other = self.settings.measured_core, self.settings.other_core
        if program == PKTGEN:
            return self._measure(
                lambda: self.pktgen(mine, core),
                lambda: self.testpmd("rxonly", peer, other),
                1,
                "RX-packets",
            )
        if case == "wire":
            return self._measure(
                lambda: self.traffic("sender", mine, core),
                lambda: self.traffic("receiver", peer, other),
                1,
                "rx_frames",
            )
        if case == "sender":
            make = (
                (lambda: self.traffic("sender", mine, core))
                if is_engine
                else (lambda: self.testpmd("txonly", mine, core))
            )
            counter = "tx_offered" if is_engine else "TX-packets"
            return self._measure(make, lambda: self.testpmd("rxonly", peer, other), 0, counter)
        if case == "receiver":
            make = (
                (lambda: self.traffic("receiver", mine, core))
                if is_engine
                else (lambda: self.testpmd("rxonly", mine, core))
            )
            counter = "rx_frames" if is_engine else "RX-packets"
            return self._measure(make, lambda: self.traffic("sender", peer, other), 0, counter)
        mode = {"forwarder": "io", "rewriter": "macswap"}[case]
        make = (
            (lambda: self.traffic(case, mine, core, 2))
            if is_engine
            else (lambda: self.testpmd(mode, mine, core, 2))
        )
        return self._measure(make, lambda: self._carousel(peer, other), 1, "RX-packets")

    def _carousel(self, kind: str, core: int) -> Testpmd:
        """Return a counterpart that circulates frames through the measured forwarder: it never
        touches them, and so is faster than any generator."""
        counterpart = self.testpmd("io", kind, core, 2)
        counterpart.first_bursts = CAROUSEL_BURSTS
        return counterpart

    def _measure(
        self,
        measured: Callable[[], Program | Pktgen],
        other: Callable[[], Program],
        counts: int,
        counter: str,
    ) -> Run:
        """Start both (the listening side first), warm up, and read the counter twice."""
        mine = PORT_KINDS[self.settings.port][0]
        programs: list[Program | Pktgen] = []
        try:
            order = (measured, other) if mine in LISTENING else (other, measured)
            programs = [make() for make in order]
            if mine not in LISTENING:
                programs.reverse()
            for program in programs:
                program.start()
            if counts == 1:  # a program that does not report its start
                _wait_moving(programs[counts], counter)
            time.sleep(WARM_UP_S)
            run = observe(
                programs,
                lambda: programs[counts].frames(counter),
                self.settings.seconds,
                programs[0].process.worker_ran_ns,
            )
            for program in programs:
                program.finish()
            return run
        finally:
            for program in programs:
                program.process.kill()
            for socket in self.folder.glob("*.sock"):
                socket.unlink()


# The measured program's port, and its counterpart's. The listening side is started first.
PORT_KINDS = {
    "virtio-user": ("virtio-user", "vhost"),
    "vhost": ("vhost", "virtio-user"),
    "memif": ("memif-server", "memif-client"),
}
LISTENING = ("vhost", "memif-server")


def _wait_moving(program: Program | Pktgen, counter: str) -> None:
    end_s = time.monotonic() + MOVING_TIMEOUT_S
    while program.frames(counter).frames == 0:
        if time.monotonic() > end_s:
            raise ProgramError("no frames pass")
        time.sleep(0.05)
