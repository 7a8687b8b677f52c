"""A rig for switch tests, independent of the engine: the tests send and receive at the ports.

veth ports end in separate namespaces and are driven by AF_PACKET sockets; vhost-user
ports end in a `dpdk-testpmd` each. Both count frames by themselves.
"""

from __future__ import annotations

import re
import shutil
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from switchmark.host.host import Session, Spawned
from switchmark.host.kernel import namespaces, netlink, procfs
from switchmark.host.session import open_session
from switchmark.host.state import state_dir
from switchmark.host.undo.entries import Directory, NetworkDevice, NetworkNamespace
from switchmark.model.ports import MADE_BY_SWITCH, PortKind, SwitchPort
from switchmark.model.topology import pair_mac
from switchmark.port.made_by_switch import put_inside
from switchmark.switch.registry import SWITCHES, make_switch
from switchmark.switch.support.base import MakesPorts, Switch

ETHERTYPE = 0x88B5  # IEEE 802: local experimental
BROADCAST = "ff:ff:ff:ff:ff:ff"
FRAME_BYTES = 60
SO_RCVBUFFORCE = 33  # asm-generic/socket.h
RIG_KINDS = (PortKind.VETH, PortKind.VHOST_USER, PortKind.MACVLAN, PortKind.VF)
QUIET_S = 0.1
LATE_S = 15.0  # for a busy or an emulated machine


# Routers need a table of routes; tests/integration/function_rig.py starts them.
REAL = [
    name
    for name in SWITCHES
    if name != "direct"
    and not SWITCHES[name]().capabilities.is_network
    and not SWITCHES[name]().capabilities.only_routes
]
EXCLUSIVE = ("sriov",)  # a NIC has only one user


def available(name: str) -> Switch:
    """Return the switch, or skip with reason and remedy."""
    switch = make_switch(name)
    availability = switch.availability()
    if not availability.available:
        pytest.skip(f"{name}: {availability.reason}; {availability.remedy}")
    return switch


@contextmanager
def own_state_dir() -> Iterator[None]:
    """A separate state directory; its path is short enough for sockets."""
    with (
        tempfile.TemporaryDirectory(prefix="smt", dir="/tmp") as folder,
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
        monkeypatch.setenv("SWITCHMARK_STATE_DIR", folder)
        yield


def mac_of(index: int) -> str:
    """Return the bench's address of that port, as some tables are compiled in."""
    return pair_mac(index // 2, index % 2)


def mac_bytes(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def packet_socket(namespace: str, device: str) -> socket.socket:
    """Return an AF_PACKET socket on a device in another namespace, opened by a thread there."""

    def make() -> socket.socket:
        bound = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        bound.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)  # beyond rmem_max
        bound.bind((device, 3))
        return bound

    return namespaces.inside(namespace, make)


@dataclass
class VethEnd:
    """The application's end of a veth port."""

    port: SwitchPort
    socket: socket.socket
    sent: int = 0

    def send(self, to: str, count: int, gap_s: float = 0.0) -> None:
        head = mac_bytes(to) + mac_bytes(self.port.mac) + struct.pack("!H", ETHERTYPE)
        for sequence in range(count):
            self.socket.send((head + struct.pack("!I", sequence)).ljust(FRAME_BYTES, b"\0"))
            self.sent += 1
            if gap_s:
                time.sleep(gap_s)

    def received(self, expected: int = 0) -> list[bytes]:
        """Return frames that others sent: wait for `expected` frames, then for a moment of
        silence."""
        frames: list[bytes] = []
        while True:
            self.socket.settimeout(LATE_S if len(frames) < expected else QUIET_S)
            try:
                frame, address = self.socket.recvfrom(2048)
            except TimeoutError:
                return frames
            if address[2] != socket.PACKET_OUTGOING:
                frames.append(frame)


@contextmanager
def veth_ends(session: Session, count: int) -> Iterator[list[VethEnd]]:
    """`count` veth ports whose ends are in separate namespaces."""
    host, entries, ends = session.host, [], []
    for index in range(count):
        namespace, device = f"sm{session.id}n{index}", f"sm{session.id}v{index}"
        entries.append(session.ledger.record(NetworkNamespace(namespace)))
        entries.append(session.ledger.record(NetworkDevice(device)))
        host.run(["ip", "netns", "add", namespace])
        quiet = "net.ipv6.conf.default.disable_ipv6=1"
        host.run(["ip", "netns", "exec", namespace, "sysctl", "-qw", quiet])
        far = ["peer", "name", "eth0", "address", mac_of(index), "netns", namespace]
        host.run(["ip", "link", "add", device, "type", "veth", *far])
        Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").write_text("1")
        host.run(["ip", "link", "set", device, "up"])
        host.run(["ip", "-n", namespace, "link", "set", "eth0", "up"])
        port = SwitchPort(
            index,
            PortKind.VETH,
            mac_of(index),
            device=device,
            far_device="eth0",
            far_netns=namespace,
        )
        ends.append(VethEnd(port, packet_socket(namespace, "eth0")))
    try:
        yield ends
    finally:
        for end in ends:
            end.socket.close()
        for entry in reversed(entries):
            session.ledger.undo(entry)


@contextmanager
def made_ends(session: Session, switch: Switch, count: int) -> Iterator[list[VethEnd]]:
    """Ports that the switch makes, each in a separate namespace as device `eth0`."""
    assert isinstance(switch, MakesPorts)
    kind = rig_kind(switch)
    ports = [SwitchPort(index, kind, mac_of(index)) for index in range(count)]
    entries, ends = [], []
    devices = switch.make_ports(session, ports)
    try:
        for index, device in enumerate(devices):
            namespace = f"sm{session.id}n{index}"
            entries.append(session.ledger.record(NetworkNamespace(namespace)))
            namespaces.create_namespace(namespace)
            inside = netlink.VethEnd("eth0", mac_of(index), namespace)
            put_inside(device, inside, 1500)
            netlink.bring_up(inside)
            port = SwitchPort(index, kind, mac_of(index), far_device="eth0", far_netns=namespace)
            ends.append(VethEnd(port, packet_socket(namespace, "eth0")))
        yield ends
    finally:
        for end in ends:
            end.socket.close()
        for entry in reversed(entries):
            session.ledger.undo(entry)
        switch.stop()


@dataclass
class VhostEnd:
    """The application's end of a vhost-user port: an interactive dpdk-testpmd."""

    port: SwitchPort
    peer_mac: str
    process: Spawned
    output: str = ""

    def _read_to_prompt(self, timeout_s: float = 20.0) -> str:
        """Read the output up to the next prompt, which ends no line, so that a command prints
        one."""
        self.process.write_line("show fwd stats nothing")  # prints `Bad arguments`
        text, deadline = "", time.monotonic() + timeout_s
        while "Bad arguments" not in text:
            line = self.process.read_line(max(0.01, deadline - time.monotonic()))
            assert line is not None, f"testpmd ended: {self.process.stderr_tail()}"
            text += line + "\n"
        return text

    def tell(self, *commands: str) -> str:
        for command in commands:
            self.process.write_line(command)
        return self._read_to_prompt()

    def send_for(self, seconds: float, to: str | None = None) -> None:
        self.tell("stop", f"set eth-peer 0 {to or self.peer_mac}", "set fwd txonly", "start")
        time.sleep(seconds)
        self.tell("stop")

    def listen(self) -> None:
        self.tell("stop", "set fwd rxonly", "start")

    def counted(self) -> tuple[int, int]:
        """Return the received and sent frames."""
        text = self.tell("show port stats 0")
        counts = [re.search(rf"{way}-packets:\s*(\d+)", text) for way in ("RX", "TX")]
        assert all(counts), text
        return int(counts[0][1]), int(counts[1][1])  # type: ignore[index]

    def wait_settled(self) -> tuple[int, int]:
        """Return the counters once they no longer change."""
        before = self.counted()
        while (now := self.counted()) != before:
            before = now
        return now


def arrivals(ends: list[VethEnd], expected: list[int]) -> list[int]:
    """Return the number of frames that came in at each end."""
    return [len(end.received(count)) for end, count in zip(ends, expected, strict=True)]


def traces(session_id: str) -> set[str]:
    """Return everything on the machine with the session's mark, to compare before and after."""
    found = {f"process {identity.pid}" for identity in procfs.session_processes(session_id)}
    for folder in ("/run/netns", "/sys/class/net", "/dev/shm", "/var/run/dpdk", "/dev/hugepages"):
        if Path(folder).is_dir():
            names = (path for path in Path(folder).iterdir() if f"sm{session_id}" in path.name)
            found |= {str(path) for path in names}
    return found | {str(path) for path in (state_dir() / session_id).rglob("*")}


def port_ends(
    session: Session, switch: Switch, count: int, core: int = 1
) -> AbstractContextManager[list[VethEnd]] | AbstractContextManager[list[VhostEnd]]:
    """Make ports of the kind that the switch prefers, among those that have ends here."""
    kind = rig_kind(switch)
    if kind in MADE_BY_SWITCH:
        return made_ends(session, switch, count)
    if kind is PortKind.VETH:
        return veth_ends(session, count)
    return vhost_ends(session, count, core)


def rig_kind(switch: Switch) -> PortKind:
    """Return the port kind for tests of this switch."""
    return next(kind for kind in switch.capabilities.port_kinds if kind in RIG_KINDS)


@contextmanager
def vhost_ends(session: Session, count: int, core: int = 1) -> Iterator[list[VhostEnd]]:
    """`count` vhost-user ports. Each waits for the switch to connect to its socket."""
    program = shutil.which("dpdk-testpmd")
    assert program, "dpdk-testpmd is needed (apt install dpdk-dev)"
    folder = session.run_dir / "rig"
    entry = session.ledger.record(Directory(str(folder)))
    folder.mkdir()
    with ExitStack() as stack:
        stack.callback(session.ledger.undo, entry)
        ends = []
        for index in range(count):
            path = folder / f"p{index}.sock"
            device = f"virtio_user0,path={path},server=1,queues=1,mac={mac_of(index)}"
            process = session.host.spawn(
                [
                    # Its prompt is not flushed, so read line by line.
                    *(
                        "stdbuf",
                        "-oL",
                        program,
                        "--no-pci",
                        "--in-memory",
                        "--single-file-segments",
                    ),
                    *("--no-telemetry", f"--file-prefix=sm{session.id}t{index}", "-m", "64"),
                    *("--lcores", f"0@{core},1@{core}", "--vdev", device),
                    *("--", "-i", "--total-num-mbufs=8192"),
                ],
                cores=[core],
                env={"RUNTIME_DIRECTORY": str(folder)},
            )
            stack.callback(process.terminate)
            port = SwitchPort(index, PortKind.VHOST_USER, mac_of(index), socket=str(path))
            ends.append(VhostEnd(port, mac_of(index ^ 1), process))
        yield ends


def start_and_wait_to_be_killed(name: str) -> None:
    """Start a switch, print the session on standard output, and sleep."""
    switch = make_switch(name)
    with open_session(measuring=False) as session, port_ends(session, switch, 2) as ends:
        ports = [end.port for end in ends]
        switch.start(session, ports, switch.capabilities.connect_modes[0], [0])
        switch.wait_ports_up(30)
        print(session.id, flush=True)
        time.sleep(60)


if __name__ == "__main__":
    start_and_wait_to_be_killed(sys.argv[1])
