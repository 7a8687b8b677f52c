"""Containers of a node: each has its own name, and shows an application its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from switchmark.environment import docker
from switchmark.environment.support.container import ContainerNode
from switchmark.errors import UnavailableError
from switchmark.host.containers.docker_daemon import Daemon
from switchmark.host.containers.in_container import Inside
from switchmark.host.host import Spawned
from switchmark.host.undo.entries import CgroupsNamed, DockerObject, UndoEntry
from switchmark.model.node import NodePort, NodeSpec
from switchmark.model.ports import PortKind
from switchmark.port.attached import Attached
from tests.unit.instrument_fakes import FakeProgram

PORT = NodePort(PortKind.VETH, "02:53:4d:00:00:01", "10.64.0.1/24")


class FakeContainers(ContainerNode):
    """Notes what it would start."""

    def __init__(self, folder: Path) -> None:
        spec = NodeSpec("tx0", (PORT,), (0,), ("net_raw",))
        session = cast("Any", SimpleNamespace(run_dir=folder))
        super().__init__(session, Attached(spec, "smabc-tx0"), Path("engine"))
        self.engines: list[str] = []
        self.programs: list[Inside] = []
        self.running = True

    def run_engine(self, name: str, args: Sequence[str]) -> Spawned:
        self.engines.append(name)
        return self._program()

    def run_program(self, inside: Inside) -> Spawned:
        self.programs.append(inside)
        return self._program()

    def _program(self) -> Spawned:
        program = FakeProgram("")
        program.poll = lambda: None if self.running else 0  # type: ignore[method-assign]
        return program


def test_each_container_of_a_node_has_its_own_name(tmp_path: Path) -> None:
    node = FakeContainers(tmp_path)
    node.spawn_engine(["sender"])
    with pytest.raises(UnavailableError, match="an engine runs in it already"):
        node.spawn_engine(["tcp-client"])
    node.running = False
    node.spawn_engine(["tcp-client"])
    node.spawn_program(["true"], {})
    assert node.engines == ["smabc-tx0", "smabc-tx0-2"]
    assert [inside.name for inside in node.programs] == ["smabc-tx0-3"]


def test_application_sees_its_folder_and_names_of_users(tmp_path: Path) -> None:
    """A VNF of the user sees neither."""
    node = FakeContainers(tmp_path)
    node.spawn_program(["env", "x"], {}, folder=tmp_path)
    node.spawn_program(["/usr/bin/env"], {})
    application, vnf = ({path.place: path.writable for path in one.shown} for one in node.programs)
    assert application[tmp_path] is True and application[Path("/etc/passwd")] is False
    assert Path(node.programs[0].args[0]).is_absolute() and node.programs[0].args[1] == "x"
    assert vnf == {}


@pytest.mark.parametrize("host", ["", "unix:///run/own.sock"])
def test_private_docker_daemon_has_a_group_for_each_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """The group is in the ledger before the container, so it is removed after it. Containers
    in the user's daemon stay in the group that its configuration names."""
    entries: list[UndoEntry] = []
    commands: list[list[str]] = []

    def record(entry: UndoEntry) -> int:
        entries.append(entry)
        return len(entries)

    def spawn(command: list[str], **_: object) -> Spawned:
        commands.append(command)
        return FakeProgram("")

    session = cast("Any", SimpleNamespace(
        id="abc", run_dir=tmp_path, ledger=SimpleNamespace(record=record),
        host=SimpleNamespace(spawn=spawn),
    ))  # fmt: skip
    monkeypatch.setattr(docker, "_daemon", lambda _: Daemon(host, "28", "image"))
    node = docker.DockerNode(
        session, Attached(NodeSpec("tx0", (PORT,), (0,)), "smabc-tx0"), Path("engine")
    )
    node.spawn_engine(["tcp-client"])
    group, container = CgroupsNamed("smabc-tx0"), DockerObject("container", "smabc-tx0", host)
    assert entries == ([group, container] if host else [container])
    assert ("--cgroup-parent" in commands[0]) == bool(host)
