"""Helpers for the engine's integration tests: namespaces, the binary, an independent counter.

The counter and the injector speak AF_PACKET themselves and share no code with the engine.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from switchmark.engine.binary import find_engine
from switchmark.errors import UnavailableError
from switchmark.host.kernel import namespaces
from tests.cases.frames import ones_complement_sum
from tests.integration.waiting import DEADLINE_S

ETH_P_ALL = 3
PACKET_OUTGOING = 4
SO_RCVBUFFORCE = 33
MARK = 0x53
DATA = 1
TOUCHED = 4

Event = dict[str, Any]


def engine_path() -> str | None:
    """Return the engine that the bench itself would run."""
    try:
        return str(find_engine())
    except UnavailableError:
        return None


needs_engine = [
    pytest.mark.integration,
    pytest.mark.skipif(engine_path() is None, reason="switchmark-traffic is not built"),
]


def ip(*args: str) -> str:
    return subprocess.run(
        ["ip", *args], check=True, capture_output=True, text=True, timeout=30
    ).stdout


@dataclass
class Node:
    """A namespace with one end of a veth pair."""

    namespace: str
    device: str
    mac: str
    address: str
    peer: Node | None = None

    def packet_socket(self) -> socket.socket:
        s = namespaces.inside(
            self.namespace,
            lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)),
        )
        s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
        s.bind((self.device, ETH_P_ALL))
        s.settimeout(0.1)
        return s


@contextlib.contextmanager
def veth_pair(tag: str) -> Iterator[tuple[Node, Node]]:
    """Two namespaces joined by a wire, with silent IPv6 and static neighbours."""
    nodes = []
    names = [f"smt{os.getpid()}{tag}{side}" for side in "ab"]
    devices = [f"{tag}{side}{os.getpid() % 100000}" for side in "ab"]
    try:
        for name in names:
            ip("netns", "add", name)
        ip(
            "link",
            "add",
            devices[0],
            "netns",
            names[0],
            "type",
            "veth",
            "peer",
            "name",
            devices[1],
            "netns",
            names[1],
        )
        for i, (name, device) in enumerate(zip(names, devices, strict=True)):
            sysctl = f"net.ipv6.conf.{device}.disable_ipv6=1"
            subprocess.run(
                ["ip", "netns", "exec", name, "sysctl", "-qw", sysctl], check=True, timeout=30
            )
            ip("-n", name, "addr", "add", f"198.18.0.{i + 1}/24", "dev", device)
            ip("-n", name, "link", "set", device, "up")
            link = json.loads(ip("-n", name, "-j", "link", "show", device))[0]
            nodes.append(Node(name, device, link["address"], f"198.18.0.{i + 1}"))
        nodes[0].peer, nodes[1].peer = nodes[1], nodes[0]
        for node in nodes:
            assert node.peer is not None
            ip(
                "-n",
                node.namespace,
                "neigh",
                "replace",
                node.peer.address,
                "lladdr",
                node.peer.mac,
                "dev",
                node.device,
            )
        yield nodes[0], nodes[1]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def port(io: str, node: Node) -> str:
    """`raw-mmsg-block` on a node's device as a port specification."""
    backend, *flags = io.split("-")
    return ",".join([f"{backend}:dev={node.device}", *flags])


class Engine:
    """A running engine whose events are collected by a thread."""

    def __init__(self, role: str, args: list[str], namespace: str | None = None) -> None:
        path = engine_path()
        assert path is not None
        command = [path, role, *args]
        if namespace is not None:
            command = ["ip", "netns", "exec", namespace, *command]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.events: list[Event] = []
        self.lines: list[str] = []  # as they were printed
        self.arrived = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            assert event["v"] == 2
            with self.arrived:
                self.lines.append(line)
                self.events.append(event)
                self.arrived.notify_all()
        with self.arrived:
            self.events.append({"event": "end of file"})
            self.arrived.notify_all()

    def wait(self, name: str, count: int = 1, timeout_s: float = DEADLINE_S) -> Event:
        """Wait for the `count`-th event of this name and return it."""
        deadline = time.monotonic() + timeout_s
        with self.arrived:
            while True:
                found = self.all(name)
                if len(found) >= count:
                    return found[count - 1]
                left = deadline - time.monotonic()
                ended = self.events and self.events[-1]["event"] == "end of file"
                if left <= 0 or ended:
                    raise AssertionError(f"no {name} event: {self.events} {self.stderr()}")
                self.arrived.wait(left)

    def all(self, name: str) -> list[Event]:
        return [e for e in self.events if e["event"] == name]

    def wait_sent(self, frames: int, timeout_s: float = DEADLINE_S) -> None:
        """Wait until the interval events of a sender report so many frames."""
        for count in range(1, 100_000):
            self.wait("interval", count, timeout_s)
            if sum(one["tx_offered"] for one in self.all("interval")) >= frames:
                return

    def wait_passed(self, frames: int, timeout_s: float = DEADLINE_S) -> None:
        """Wait until the interval events of a forwarder report so many frames.

        Frames of the sender may still be on their way, and a receiver ends after 20 ms of
        silence."""
        for count in range(1, 100_000):
            self.wait("interval", count, timeout_s)
            intervals = self.all("interval")
            if sum(end["tx_offered"] for one in intervals for end in one["ports"]) >= frames:
                return

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def stderr(self) -> str:
        if self.process.poll() is None or self.process.stderr is None:
            return ""
        return self.process.stderr.read()

    def finish(self, how: str) -> tuple[Event, int]:
        """End by `stop` (and the commands after it), `eof` or a signal's name; return the result
        and the exit code."""
        if how == "eof":
            assert self.process.stdin is not None
            self.process.stdin.close()
        elif how.startswith("stop"):
            self.tell(how)
            if "--session" in self.process.args:  # a session continues after `stop`
                self.tell("exit")
        elif how != "wait":
            self.process.send_signal(signal.Signals[how])
        code = self.process.wait(timeout=DEADLINE_S)
        self.reader.join(timeout=30)
        return self.wait("result"), code

    def finish_tcp(self) -> int:
        """End a trial of a TCP client; return the number of completed requests."""
        self.tell("stop")
        totals: dict[str, int] = self.wait("tcp_result")["totals"]
        assert totals["completed"] == totals["attempted"]
        return totals["completed"]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join(timeout=30)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


@contextlib.contextmanager
def engine(role: str, *args: str, node: Node | None = None) -> Iterator[Engine]:
    """An engine on a node, with the node's addresses, that has printed `ready`."""
    all_args = list(args)
    namespace = None
    if node is not None:
        assert node.peer is not None
        namespace = node.namespace
        all_args += ["--src-ip", node.address, "--dst-ip", node.peer.address]
        all_args += ["--src-mac", node.mac, "--dst-mac", node.peer.mac]
    running = Engine(role, all_args, namespace)
    try:
        running.wait("ready")
        yield running
    finally:
        running.close()


def run_pair(
    wire: tuple[Node, Node], io: str, args: list[str], duration: str = "0.5"
) -> tuple[Event, Event]:
    """Return the results of a sender and a receiver."""
    a, b = wire
    with (
        engine("receiver", "--port", port(io, b), "--idle", "sleep", *args, node=b) as receiver,
        engine("sender", "--port", port(io, a), "--idle", "sleep", *args, node=a) as sender,
    ):
        receiver.tell("start patience=2s")  # a forwarder may wait for its core
        receiver.wait("started")
        sender.tell(f"start duration={duration}")
        sent, code = sender.finish("wait")
        assert code == 0
        received, code = receiver.finish(f"stop sent={sent['totals']['tx_offered']}")
        assert code == 0
    return sent, received


@dataclass
class StreamCount:
    """Frames of a stream that the independent counter received."""

    frames: int = 0
    sizes: Counter[int] = field(default_factory=Counter)
    sequences: Counter[int] = field(default_factory=Counter)
    first: bytes = b""


class PacketCounter:
    """Counts the data frames of a stream that arrive at a node's device.

    It stops when it is stopped and its socket is empty, so that no frame is missed if this thread
    gets its core late."""

    def __init__(self, node: Node, stream: int = 0) -> None:
        self.socket = node.packet_socket()
        self.stream = stream
        self.seen = StreamCount()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> PacketCounter:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done()
        self.socket.close()

    def _run(self) -> None:
        while True:
            try:
                frame, address = self.socket.recvfrom(16384)
            except TimeoutError:
                if self.stopping.is_set():
                    return
                continue
            if address[2] != PACKET_OUTGOING:
                self._count(frame)

    def _count(self, frame: bytes) -> None:
        if len(frame) < 60 or frame[12:15] != b"\x08\x00\x45" or frame[23] != 17:
            return
        mark, kind, stream, sequence = struct.unpack_from("!BBHI", frame, 42)
        if mark != MARK or (kind >> 4) & 3 != DATA or stream != self.stream:
            return
        self.seen.frames += 1
        self.seen.sizes[len(frame) + 4] += 1
        self.seen.sequences[sequence] += 1
        self.seen.first = self.seen.first or frame

    def done(self) -> StreamCount:
        """Return the frames of the stream; call it after the sender ended."""
        self.stopping.set()
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()
        return self.seen


def renumbered(frame: bytes, sequence: int, stream: int | None = None) -> bytes:
    """Return a captured frame with another sequence (and stream) and a new UDP checksum."""
    changed = bytearray(frame)
    struct.pack_into("!I", changed, 46, sequence)
    if stream is not None:
        struct.pack_into("!H", changed, 44, stream)
    changed[40:42] = b"\0\0"
    (length,) = struct.unpack_from("!H", changed, 38)
    pseudo = bytes(changed[26:34]) + struct.pack("!HH", 17, length)
    total = ~ones_complement_sum(pseudo + bytes(changed[34 : 34 + length])) & 0xFFFF
    struct.pack_into("!H", changed, 40, total or 0xFFFF)
    return bytes(changed)
