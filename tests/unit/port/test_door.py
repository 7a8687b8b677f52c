"""A VALE port of a container is opened outside, and passed in through a door."""

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
    """The namespaces and ports of open calls. A file replaces /dev/netmap."""
    calls: list[tuple[str | None, str]] = []
    entered: list[str | None] = []
    (tmp_path / "netmap").write_text("the port")

    def inside(netns: str | None, action: Callable[[], Any]) -> Any:
        entered.append(netns)
        return action()

    def open_port(port: str) -> tuple[int, bytes]:
        calls.append((entered[-1], port))
        if port == "vale0:broken":
            raise OSError(12, "Cannot allocate memory")
        return os.open(tmp_path / "netmap", os.O_RDONLY), ACCOUNT

    monkeypatch.setattr(namespaces, "inside", inside)
    monkeypatch.setattr(netmap, "open_port", open_port)
    return calls


def opened_since(before: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the new open descriptors of this process, with their targets. Garbage of other tests
    may be closed meanwhile."""
    descriptors = set()
    for number in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of this folder is closed
            descriptors.add((number.name, str(number.readlink())))
    return descriptors - before


def request_port(place: Path) -> tuple[bytes, list[int]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(120.0)
        client.connect(str(place))
        message, fds, _, _ = socket.recv_fds(client, 256, 4)
        return message, fds


def test_door_passes_the_port_to_each_client(tmp_path: Path, opened: list[Any]) -> None:
    before = opened_since(set())
    door = Door(tmp_path / "door", "vale0:p1", "sm0sw")
    try:
        for _ in range(2):  # a foreign generator opens the port after the engine
            message, (fd,) = request_port(tmp_path / "door")
            assert message == ACCOUNT and os.read(fd, 20) == b"the port"
            os.close(fd)
    finally:
        door.close()
        door.close()
    assert opened == [("sm0sw", "vale0:p1")] * 2
    assert opened_since(before) == set(), "the door closes its descriptors"
    with pytest.raises(OSError, match="refused"):
        request_port(tmp_path / "door")


def test_door_reports_why_a_port_cannot_be_opened(tmp_path: Path, opened: list[Any]) -> None:
    door = Door(tmp_path / "door", "vale0:broken", "sm0sw")
    try:
        assert request_port(tmp_path / "door") == (
            b"netmap does not open 'vale0:broken': Cannot allocate memory",
            [],
        )
        assert len(opened) == 1
    finally:
        door.close()


class Ledger:
    """A ledger that only stores its entries."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def record(self, entry: object) -> int:
        self.entries.append(str(entry))
        return len(self.entries)

    def undo(self, number: int) -> None:
        del number


def node_of_vale(ports: int = 1) -> Attached:
    ports = [
        NodePort(
            PortKind.VALE, "m", "", made_port=MadePort(netmap=f"vale0:p{k},netns=/run/netns/sm0sw")
        )
        for k in range(ports)
    ]
    return Attached(NodeSpec("vnf", tuple(ports), (0,)), "sm0-vnf")


def test_node_on_the_host_needs_no_door(tmp_path: Path) -> None:
    session: Any = SimpleNamespace(ledger=Ledger(), run_dir=tmp_path)
    (port,) = attach(session, node_of_vale()).spec.ports
    assert port.made_port == MadePort(netmap="vale0:p0,netns=/run/netns/sm0sw")
    assert port.socket_host is None and session.ledger.entries == []


def test_container_gets_a_door_for_each_port(tmp_path: Path, opened: list[Any]) -> None:
    session: Any = SimpleNamespace(ledger=Ledger(), run_dir=tmp_path)
    attached = attach(session, node_of_vale(2), SHOWN)
    try:
        for k, port in enumerate(attached.spec.ports):
            assert port.made_port == MadePort(netmap=f"vale0:p{k},door={SHOWN}/netmap{k}.door")
            assert port.device_inside is None and port.socket_host is not None
            assert port.socket_host.parent == tmp_path / "vhost-vnf"
            _, (fd,) = request_port(port.socket_host)
            os.close(fd)
    finally:
        attached.release_namespace(session)
    assert opened == [("sm0sw", "vale0:p0"), ("sm0sw", "vale0:p1")]
    assert attached.doors == []


def test_open_port_requests_all_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine sends the same request: `struct nmreq_register`, API 14."""
    requests: list[tuple[int, str, bytes]] = []

    def record_request(fd: int, request: int, port: str, body: bytearray) -> bytes:
        del fd
        requests.append((request, port, bytes(body)))
        return bytes(body)

    monkeypatch.setattr(netmap, "DEVICE", Path("/dev/null"))
    monkeypatch.setattr(netmap, "_ask", record_request)
    fd, account = netmap.open_port("vale0:p0")
    os.close(fd)
    assert requests == [(1, "vale0:p0", account)] and len(account) == 56
    assert struct.unpack_from("=I", account, 36) == (1,), "all rings of the NIC, none of the host"
    assert struct.unpack_from("=Q", account, 48) == (0x20000,), "polling sends nothing"


def test_port_that_cannot_be_opened_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netmap, "DEVICE", Path("/dev/null"))
    before = opened_since(set())
    with pytest.raises(OSError, match="ioctl"):
        netmap.open_port("vale0:p0")
    assert opened_since(before) == set()
