"""The driver of BESS: commands that it sends by HTTP/2, against a server that the test plays."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from switchmark.switch.support import bess_driver as driver

SUCCESS = b"\0\0\0\0\0"
Answer = Callable[[int, bytes], bytes]


def response(content: bytes) -> SimpleNamespace:
    """Return the part of `CommandResponse` that the driver reads; its text is the content."""
    return SimpleNamespace(error=SimpleNamespace(code=len(content), errmsg=content.decode()))


def command_request(name: str, cmd: str) -> SimpleNamespace:
    """Return a `CommandRequest` whose serialised form is a readable text."""
    packed: list[object] = []

    def serialize() -> bytes:
        return f"{name} {cmd} {packed[0]}".encode()

    return SimpleNamespace(arg=SimpleNamespace(Pack=packed.append), SerializeToString=serialize)


@pytest.fixture(autouse=True)
def pybess(monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide the part of BESS's client library that the driver imports."""
    library, messages = ModuleType("pybess"), ModuleType("pybess.bess")
    vars(messages)["module_pb"] = SimpleNamespace(WildcardMatchCommandAddArg=dict)
    vars(messages)["bess_msg"] = SimpleNamespace(
        CommandResponse=SimpleNamespace(FromString=response), CommandRequest=command_request
    )
    monkeypatch.setitem(sys.modules, "pybess", library)
    monkeypatch.setitem(sys.modules, "pybess.bess", messages)


def succeed(stream: int, _: bytes) -> bytes:
    """Return the frames of a response without an error, as gRPC sends them."""
    return (
        driver.frame(driver.HEADERS, driver.END_HEADERS, stream, b"\x88")
        + driver.frame(driver.DATA, 0, stream, SUCCESS)
        + driver.frame(driver.HEADERS, driver.END_HEADERS | driver.END_STREAM, stream, b"")
    )


class Server(threading.Thread):
    """Accepts one connection, checks its frames, and answers the latest requests first."""

    def __init__(self, path: Path, answer: Answer) -> None:
        super().__init__(daemon=True)
        self.answer = answer
        self.requests: list[bytes] = []
        self.acknowledgements: list[tuple[int, bytes]] = []
        self.most_open = 0
        self.credit = driver.FIRST_WINDOW
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()

    def run(self) -> None:
        """Serve until the client closes the connection."""
        with self.listener, self.listener.accept()[0] as control:
            received = bytearray(control.recv(len(driver.PREFACE), socket.MSG_WAITALL))
            assert received == driver.PREFACE
            received.clear()
            control.sendall(
                driver.frame(driver.SETTINGS) + driver.frame(driver.PING, 0, 0, b"12345678")
            )
            while chunk := control.recv(1 << 16):
                received += chunk
                answers = []
                for kind, flags, stream, content in driver.frames(received):
                    if kind == driver.DATA:
                        self.credit -= len(content)
                        assert content[:5] == b"\0" + (len(content) - 5).to_bytes(4, "big")
                        self.requests.append(content[5:])
                        answers.append(self.answer(stream, content[5:]))
                    elif flags & driver.ACK and kind in (driver.SETTINGS, driver.PING):
                        self.acknowledgements.append((kind, content))
                assert self.credit >= 0
                self.most_open = max(self.most_open, len(answers))
                used, self.credit = driver.FIRST_WINDOW - self.credit, driver.FIRST_WINDOW
                if used:
                    window = used.to_bytes(4, "big")
                    answers.append(driver.frame(driver.WINDOW_UPDATE, 0, 0, window))
                try:
                    # In two parts, so that a frame arrives in two pieces.
                    whole = b"".join(reversed(answers))
                    control.sendall(whole[:7])
                    control.sendall(whole[7:])
                except OSError:
                    return


def run(tmp_path: Path, requests: Iterator[bytes], answer: Answer) -> tuple[int, Server]:
    """Run the requests against a server; return the number of acknowledgements."""
    path = tmp_path / "control"
    server = Server(path, answer)
    server.start()
    client = SimpleNamespace(peer=f"unix:{path}")
    number = driver.run_unordered(client, requests)
    server.join(10)
    assert not server.is_alive()
    return number, server


def test_unordered_commands_are_all_acknowledged(tmp_path: Path) -> None:
    requests = [b"%04d" % k * 100 for k in range(2000)]
    number, server = run(tmp_path, iter(requests), succeed)
    assert number == 2000
    assert server.requests == requests
    assert 1 < server.most_open <= driver.UNDER_WAY
    assert server.acknowledgements == [(driver.SETTINGS, b""), (driver.PING, b"12345678")]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"\0\0\0\0\x04full", "command 3: full"),
        (b"", "BESS did not answer command 3"),
    ],
)
def test_refused_command_is_named(tmp_path: Path, answer: bytes, message: str) -> None:
    def refuse(stream: int, request: bytes) -> bytes:
        if request != b"3":
            return succeed(stream, request)
        return driver.frame(driver.DATA, 0, stream, answer) + driver.frame(
            driver.HEADERS, driver.END_STREAM, stream, b""
        )

    with pytest.raises(RuntimeError, match=message):
        run(tmp_path, (b"%d" % k for k in range(10)), refuse)


def test_aborted_command_is_an_error(tmp_path: Path) -> None:
    def abort(stream: int, _: bytes) -> bytes:
        return driver.frame(driver.RST_STREAM, 0, stream, b"\0\0\0\x07")

    with pytest.raises(RuntimeError, match="BESS aborted command 0: 00000007"):
        run(tmp_path, iter([b"x"]), abort)


def test_closed_connection_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "control"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def accept_and_close() -> None:
            listener.accept()[0].close()

        closing = threading.Thread(target=accept_and_close)
        closing.start()
        client = SimpleNamespace(peer=f"unix:{path}")
        with pytest.raises((RuntimeError, OSError)):
            driver.run_unordered(client, iter([b"x"]))
        closing.join(10)


def test_ordered_commands_wait_for_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    client = SimpleNamespace(run_module_command=lambda *command: calls.append(command))
    monkeypatch.setattr(driver, "run_unordered", lambda _, requests: calls.append(list(requests)))
    add = ["acl", "add", "WildcardMatchCommandAddArg"]
    driver.run_commands(client, [
        ["acl", "set", "WildcardMatchConfig", {}], [*add, {"gate": 0}], [*add, {"gate": 1}],
        ["acl", "end", "EmptyArg", {}],
    ])  # fmt: skip
    assert calls == [
        ("acl", "set", "WildcardMatchConfig", {}),
        [b"acl add {'gate': 0}", b"acl add {'gate': 1}"],
        ("acl", "end", "EmptyArg", {}),
    ]
