"""A container's port of VALE is opened outside and handed in through a door."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.host.kernel import namespaces, netmap
from switchmark.model.node import NodePort, NodeSpec
from switchmark.model.ports import MadePort, PortKind
from switchmark.port.attach import attach
from switchmark.port.attached import Attached
from switchmark.port.door import Door

ACCOUNT = bytes(range(netmap.REGISTER_BYTES))
SHOWN = "/run/vhost"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str | None, str]]:
    """What is opened, and where: a file stands in for /dev/netmap."""
    seen: list[tuple[str | None, str]] = []
    where: list[str | None] = []
    (tmp_path / "netmap").write_text("the port")

    def inside(netns: str | None, action: Callable[[], Any]) -> Any:
        where.append(netns)
        return action()

    def open_port(port: str) -> tuple[int, bytes]:
        seen.append((where[-1], port))
        if port == "vale0:broken":
            raise OSError(12, "Cannot allocate memory")
        return os.open(tmp_path / "netmap", os.O_RDONLY), ACCOUNT

    monkeypatch.setattr(namespaces, "inside", inside)
    monkeypatch.setattr(netmap, "open_port", open_port)
    return seen


def opened_since(before: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """What this process has open, by number and by what it leads to, that it had not. (What is
    garbage of other tests may be closed meanwhile.)"""
    found = set()
    for number in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the folder itself
            found.add((number.name, str(number.readlink())))
    return found - before


def ask(place: Path) -> tuple[bytes, list[int]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.settimeout(120.0)
        asking.connect(str(place))
        words, fds, _, _ = socket.recv_fds(asking, 256, 4)
        return words, fds


def test_who_knocks_gets_the_port_itself(tmp_path: Path, opened: list[Any]) -> None:
    before = opened_since(set())
    door = Door(tmp_path / "door", "vale0:p1", "sm0sw")
    try:
        for _ in range(2):  # an instrument takes the port after our application
            words, (fd,) = ask(tmp_path / "door")
            assert words == ACCOUNT and os.read(fd, 20) == b"the port"
            os.close(fd)
    finally:
        door.close()
        door.close()
    assert opened == [("sm0sw", "vale0:p1")] * 2
    assert opened_since(before) == set(), "none is kept here"
    with pytest.raises(OSError, match="refused"):
        ask(tmp_path / "door")


def test_who_cannot_have_it_is_told_why(tmp_path: Path, opened: list[Any]) -> None:
    door = Door(tmp_path / "door", "vale0:broken", "sm0sw")
    try:
        assert ask(tmp_path / "door") == (
            b"netmap does not open 'vale0:broken': Cannot allocate memory",
            [],
        )
        assert len(opened) == 1
    finally:
        door.close()


class Ledger:
    """It only keeps what was made."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def record(self, entry: object) -> int:
        self.entries.append(str(entry))
        return len(self.entries)

    def undo(self, number: int) -> None:
        del number


def node_of_vale(ports: int = 1) -> Attached:
    made = [
        NodePort(
            PortKind.VALE, "m", "", made_port=MadePort(netmap=f"vale0:p{k},netns=/run/netns/sm0sw")
        )
        for k in range(ports)
    ]
    return Attached(NodeSpec("vnf", tuple(made), (0,)), "sm0-vnf")


def test_a_node_of_the_host_opens_its_port_itself(tmp_path: Path) -> None:
    session: Any = SimpleNamespace(ledger=Ledger(), run_dir=tmp_path)
    (port,) = attach(session, node_of_vale()).spec.ports
    assert port.made_port == MadePort(netmap="vale0:p0,netns=/run/netns/sm0sw")
    assert port.socket_host is None and session.ledger.entries == []


def test_a_container_sees_the_doors_of_its_own_ports(tmp_path: Path, opened: list[Any]) -> None:
    session: Any = SimpleNamespace(ledger=Ledger(), run_dir=tmp_path)
    attached = attach(session, node_of_vale(2), SHOWN)
    try:
        for k, port in enumerate(attached.spec.ports):
            assert port.made_port == MadePort(netmap=f"vale0:p{k},door={SHOWN}/netmap{k}.door")
            assert port.device_inside is None and port.socket_host is not None
            assert port.socket_host.parent == tmp_path / "vhost-vnf"
            _, (fd,) = ask(port.socket_host)
            os.close(fd)
    finally:
        attached.release_namespace(session)
    assert opened == [("sm0sw", "vale0:p0"), ("sm0sw", "vale0:p1")]
    assert attached.doors == []


def test_the_kernel_is_asked_for_all_rings_of_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the engine asks when it opens a port itself: `struct nmreq_register`, API 14."""
    asked: list[tuple[int, str, bytes]] = []

    def ask_kernel(fd: int, request: int, port: str, body: bytearray) -> bytes:
        del fd
        asked.append((request, port, bytes(body)))
        return bytes(body)

    monkeypatch.setattr(netmap, "DEVICE", Path("/dev/null"))
    monkeypatch.setattr(netmap, "_ask", ask_kernel)
    fd, account = netmap.open_port("vale0:p0")
    os.close(fd)
    assert asked == [(1, "vale0:p0", account)] and len(account) == 56
    assert struct.unpack_from("=I", account, 36) == (1,), "all rings of the NIC, none of the host"
    assert struct.unpack_from("=Q", account, 48) == (0x20000,), "polling sends nothing"


def test_a_port_that_is_not_opened_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netmap, "DEVICE", Path("/dev/null"))
    before = opened_since(set())
    with pytest.raises(OSError, match="ioctl"):
        netmap.open_port("vale0:p0")
    assert opened_since(before) == set()
