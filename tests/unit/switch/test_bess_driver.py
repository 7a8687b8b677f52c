"""The driver of BESS: commands under way, their order and their errors. gRPC is a substitute."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from switchmark.switch.support import bess_driver as driver

CLIENT = SimpleNamespace(
    peer="unix:control", pause_all=lambda: None, resume_all=lambda: None
)  # fmt: skip


class Daemon:
    """Answers commands as BESS does, the latest first."""

    def __init__(self) -> None:
        self.arguments: list[Any] = []
        self.under_way = self.most_under_way = 0
        self.refused: Any = None

    async def call(self, request: Any) -> Any:
        """Answer a command after all commands that were sent with it."""
        self.arguments.append(request.arguments[0])
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        code = 12 if request.arguments[0] == self.refused else 0
        return SimpleNamespace(error=SimpleNamespace(code=code, errmsg="full" if code else ""))


class Channel:
    """The part of an asynchronous channel that the driver uses."""

    async def __aenter__(self) -> Channel:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def command_request(name: str, cmd: str) -> SimpleNamespace:
    """Return the part of `CommandRequest` that the driver uses."""
    arguments: list[object] = []
    arg = SimpleNamespace(Pack=arguments.append)
    return SimpleNamespace(name=name, cmd=cmd, arg=arg, arguments=arguments)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Daemon:
    """Provide the parts of gRPC and of BESS's client library that the driver imports."""
    daemon = Daemon()
    grpc, library, messages = ModuleType("grpc"), ModuleType("pybess"), ModuleType("pybess.bess")
    vars(grpc)["aio"] = SimpleNamespace(insecure_channel=lambda _: Channel())
    kinds = dict.fromkeys(driver.UNORDERED, dict)
    call: Callable[[Any], Awaitable[Any]] = daemon.call
    vars(messages).update(
        bess_msg=SimpleNamespace(CommandRequest=command_request),
        module_pb=SimpleNamespace(**kinds),
        service_pb2_grpc=SimpleNamespace(
            BESSControlStub=lambda _: SimpleNamespace(ModuleCommand=call)
        ),
    )
    for module in (grpc, library, messages):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return daemon


def commands(count: int) -> list[list[Any]]:
    return [["acl", "add", "WildcardMatchCommandAddArg", {"gate": k}] for k in range(count)]


def test_unordered_commands_are_all_acknowledged(daemon: Daemon) -> None:
    assert driver.run_unordered(CLIENT, commands(2000)) == 2000
    assert sorted(argument["gate"] for argument in daemon.arguments) == list(range(2000))
    assert daemon.most_under_way == driver.UNDER_WAY


def test_refused_command_is_an_error(daemon: Daemon) -> None:
    daemon.refused = {"gate": 3}
    with pytest.raises(RuntimeError, match="acl: full"):
        driver.run_unordered(CLIENT, commands(10))


def test_routes_of_a_file_are_added(daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "routes"
    file.write_bytes(bytes([10, 1, 0, 0, 16, 0, 1, 10, 2, 3, 0, 24, 1, 2]))
    assert driver.routes(CLIENT, {"file": str(file)}) == {"added": 2}
    assert daemon.arguments == [
        {"prefix": "10.1.0.0", "prefix_len": 16, "gate": 1},
        {"prefix": "10.2.3.0", "prefix_len": 24, "gate": 258},
    ]


def test_ordered_commands_wait_for_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    client = SimpleNamespace(run_module_command=lambda *command: calls.append(command))
    monkeypatch.setattr(driver, "run_unordered", lambda _, some: calls.append(list(some)))
    entries = commands(2)
    driver.run_commands(client, [
        ["acl", "set", "WildcardMatchConfig", {}], *entries, ["acl", "end", "EmptyArg", {}],
    ])  # fmt: skip
    assert calls == [
        ("acl", "set", "WildcardMatchConfig", {}), entries, ("acl", "end", "EmptyArg", {})
    ]  # fmt: skip
