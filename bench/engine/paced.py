"""A sender that keeps to a schedule on a port, and the program behind that port.

null         no I/O at all: the pacing itself
virtio-user  a DPDK port; the engine's receiver on the other core is its vhost peer
vhost        the other side of the same wire
raw, packet_mmap, af_xdp
             a device of a veth pair between two namespaces (root); the engine's receiver has the
             other
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from programs import Process, ProgramError

SETTLE_S = 0.2  # from ready to the start, if there is a peer
VETH = {
    "raw": "raw:dev={},mmsg",
    "packet_mmap": "packet_mmap:dev={}",
    "af_xdp": "af_xdp:dev={}",
}
PORTS = ("null", "virtio-user", "vhost", *VETH)
MACS = ["--src-mac", "02:00:00:00:00:0a", "--dst-mac", "02:00:00:00:00:0b"]


@dataclass(frozen=True, slots=True)
class CoreTime:
    """Seconds that a core has spent on other work than the sender's."""

    stolen_s: float
    irqs_s: float
    soft_irqs_s: float

    @classmethod
    def read(cls, core: int) -> CoreTime:
        """Read /proc/stat, whose unit is 10 ms."""
        tick = os.sysconf("SC_CLK_TCK")
        for line in Path("/proc/stat").read_text().splitlines():
            columns = line.split()
            if columns[0] == f"cpu{core}":
                irqs, soft_irqs, stolen = (int(word) / tick for word in columns[6:9])
                return cls(stolen, irqs, soft_irqs)
        raise ProgramError(f"no core {core}")


class Pair:
    """A sender on a port, and the program behind the port."""

    def __init__(
        self,
        engine: Path,
        sender: Sequence[str],
        peer: Sequence[str],
        namespaces: tuple[str, str] | None = None,
    ) -> None:
        self.engine = [str(engine)]
        self.sender = sender
        self.peer = peer
        self.namespaces = namespaces
        self.listens = any("vhost=" in word for word in sender)  # then the sender starts first

    def run(self, rate: str, burst: int, seconds: float, cores: tuple[int, int]) -> dict[str, Any]:
        """Return the result of a trial, with the time that other programs took of the sender's
        core."""
        running: list[Process] = []
        command = [*self.sender, "--core", str(cores[0]), "--rate", rate, "--burst", str(burst)]
        command += ["--duration", f"{seconds:g}", "--idle", "poll"]

        def sends() -> Process:
            running.append(Process([*self._inside(0), *self.engine, "sender", *command], cores[0]))
            return running[-1]

        def receives() -> Process | None:
            if not self.peer:
                return None
            arguments = ["receiver", *self.peer, "--core", str(cores[1])]
            running.append(Process([*self._inside(1), *self.engine, *arguments], cores[1]))
            event(running[-1], "ready")
            running[-1].write("start")
            event(running[-1], "started")
            return running[-1]

        try:
            if self.listens:
                sender, receiver = sends(), receives()
            else:
                receiver, sender = receives(), sends()
            event(sender, "ready")
            if receiver is not None:
                time.sleep(SETTLE_S)
            peer_before = receiver.waited_ns() if receiver is not None else 0
            before = CoreTime.read(cores[0])
            sender.write("start")
            result = event(sender, "result")
            after = CoreTime.read(cores[0])
            peer_waited = receiver.waited_ns() - peer_before if receiver is not None else 0
        finally:
            for process in running:
                process.kill()
        wall_s = result["duration_ns"] / 1e9
        result["stolen"] = (after.stolen_s - before.stolen_s) / wall_s
        result["peer_waited"] = peer_waited / result["duration_ns"]
        # On a veth device the soft interrupts carry the sender's own frames.
        other_soft_irqs_s = 0.0 if self.namespaces else after.soft_irqs_s - before.soft_irqs_s
        result["interrupts"] = (after.irqs_s - before.irqs_s + other_soft_irqs_s) / wall_s
        return result

    def _inside(self, end: int) -> list[str]:
        return ["ip", "netns", "exec", self.namespaces[end]] if self.namespaces else []


def event(process: Process, name: str) -> dict[str, Any]:
    """Return the next event of this name."""
    while True:
        found: dict[str, Any] = json.loads(process.line()[1])
        if found["event"] == "error":
            raise ProgramError(str(found["message"]))
        if found["event"] == name:
            return found


@contextmanager
def veth() -> Iterator[tuple[str, str]]:
    """Two namespaces joined by the devices `sm-a` and `sm-b`."""
    names = (f"smpace{os.getpid()}a", f"smpace{os.getpid()}b")
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", "sm-a", "netns", names[0], "type", "veth",
           "peer", "name", "sm-b", "netns", names[1])  # fmt: skip
        for name, device in zip(names, ("sm-a", "sm-b"), strict=True):
            ip("netns", "exec", name, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")
            ip("-n", name, "link", "set", device, "up")
        yield names
    finally:
        for name in names:
            with suppress(subprocess.CalledProcessError):
                ip("netns", "del", name)


def ip(*args: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *args], check=True, capture_output=True, timeout=10)


@contextmanager
def pair(port: str, engine: Path, size: int) -> Iterator[Pair]:
    """The programs of one kind of port."""
    sized = ["--frame-size", str(size)]
    if port == "null":
        yield Pair(engine, ["--port", "null:", *sized], [])
    elif port in VETH:
        with veth() as names:
            sender = ["--port", VETH[port].format("sm-a"), *MACS, *sized]
            yield Pair(engine, sender, ["--port", VETH[port].format("sm-b"), *sized], names)
    else:
        far = "vhost" if port == "virtio-user" else "virtio-user"
        with tempfile.TemporaryDirectory(prefix="sm-pace-") as folder:
            path = f"{folder}/0.sock"
            sender = ["--port", f"dpdk:{port}={path}", *MACS, *sized]
            yield Pair(engine, sender, ["--port", f"dpdk:{far}={path}", *sized])
