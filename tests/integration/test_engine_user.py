"""An engine without DPDK is no longer root once its ports are open, so that no thread can use files
and sockets of root. If it may not change its user it stays root. The bench can still end it.
engine/tests/test_user.c tests the change itself."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from switchmark.engine.arguments import port_spec
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.host.session import open_session
from switchmark.model.io import Io
from tests.integration.engine_tools import Engine, engine, engine_path, needs_engine, veth_pair
from tests.integration.machine import needs_root, node_spec
from tests.integration.test_engine_confinement import CHMOD, CONNECT, address_of
from tests.integration.test_engine_privileges import (
    OPENED_BY,
    asked_before_and_while_it_sends,
    lacking,
)
from tests.integration.thread_calls import call_of, needs_ptrace

pytestmark = [*needs_engine, needs_root]

NOBODYS = 65525  # engine/confinement/user.h
PERFMON = 1 << 38  # linux/capability.h
SOCKET, CHOWN, UTIMES = 41, 92, 235  # x86-64
ADDRESS_BYTES = 110  # size of a sockaddr_un


def threads_of(pid: int) -> list[int]:
    return [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]


def ids(pid: int) -> set[tuple[str, ...]]:
    """Return the users, groups and further groups of all threads of a process."""
    return {
        tuple(re.findall(r"^(?:Uid|Gid|Groups):\t(.*?) *$", path.read_text(), re.MULTILINE))
        for path in Path(f"/proc/{pid}/task").glob("*/status")
    }


def of_user(number: int, groups: str = "") -> set[tuple[str, ...]]:
    each = "\t".join([str(number)] * 4)
    return {(each, each, groups)}


@dataclass
class OfRoot:
    """A file and a socket of root, closed to others, in a folder that others may enter."""

    file: Path
    door: Path

    def answers(self, pid: int) -> dict[str, set[int]]:
        """Return each thread's errors for changing the file's mode, owner and times and for
        connecting to the socket. The arguments are written into the environment of the process."""
        path, address = address_of(pid, "SM_TEST_FILE"), address_of(pid, "SM_TEST_DOOR")
        door = socket.AF_UNIX.to_bytes(2, "little") + bytes(self.door) + b"\0"
        with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
            memory.seek(address)
            memory.write(door.ljust(ADDRESS_BYTES, b"\0"))
        found: dict[str, set[int]] = {"mode": set(), "owner": set(), "times": set(), "door": set()}
        for thread in threads_of(pid):
            found["mode"].add(call_of(thread, CHMOD, path, 0o600))
            found["owner"].add(call_of(thread, CHOWN, path))
            found["times"].add(call_of(thread, UTIMES, path))
            end = call_of(thread, SOCKET, socket.AF_UNIX, socket.SOCK_STREAM)
            assert end >= 0
            found["door"].add(call_of(thread, CONNECT, end, address, ADDRESS_BYTES))
        return found


REFUSED = {
    "mode": {-errno.EPERM},
    "owner": {-errno.EPERM},
    "times": {-errno.EACCES},
    "door": {-errno.EACCES},
}


@pytest.fixture
def of_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[OfRoot]:
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as listener:
        folder = Path(name)
        folder.chmod(0o711)
        of_root = OfRoot(folder / "file", folder / "door")
        of_root.file.touch(mode=0o600)
        listener.bind(str(of_root.door))
        of_root.door.chmod(0o600)
        listener.listen(16)
        monkeypatch.setenv("SM_TEST_FILE", str(of_root.file))
        monkeypatch.setenv("SM_TEST_DOOR", "x" * ADDRESS_BYTES)
        yield of_root


@needs_ptrace
@pytest.mark.parametrize("spec", OPENED_BY)
def test_files_of_root_are_closed_to_a_running_engine(spec: str, of_root: OfRoot) -> None:
    def refused(pid: int) -> None:
        assert ids(pid) == of_user(NOBODYS)
        assert of_root.answers(pid) == REFUSED

    with veth_pair("u") as wire:
        asked_before_and_while_it_sends(spec, wire, refused)


@needs_ptrace
def test_ports_that_need_files_of_root_are_opened_before(of_root: OfRoot, tmp_path: Path) -> None:
    """The file that the engine makes belongs to root."""
    running = Engine("sender", ["--port", f"pcap:write={tmp_path / 'out.pcap'}"])
    try:
        running.wait("ready")
        assert ids(running.process.pid) == of_user(NOBODYS)
        assert of_root.answers(running.process.pid) == REFUSED
    finally:
        running.close()
    assert (tmp_path / "out.pcap").stat().st_uid == os.geteuid()


def test_workers_are_not_root() -> None:
    with engine("sender", "--port", "null:", "--queues", "2", "--rate", "1k", "--idle",
                "sleep") as running:  # fmt: skip
        running.tell("start duration=60")
        running.wait("started")
        assert len(threads_of(running.process.pid)) >= 3
        assert ids(running.process.pid) == of_user(NOBODYS)
        running.finish("stop")


def test_engine_keeps_hardware_counters() -> None:
    with engine("sender", "--port", "null:", "--rate", "1k", "--idle", "sleep",
                "--hardware-counters") as running:  # fmt: skip
        pid = running.process.pid
        assert ids(pid) == of_user(NOBODYS)
        capabilities = re.search(
            r"^CapEff:\t(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
        )
        assert capabilities is not None and int(capabilities[1], 16) == PERFMON
        running.tell("start duration=0.5")
        result, code = running.finish("wait")
        assert result["hardware"] is not None and code == 0


@needs_ptrace
@pytest.mark.parametrize("lacks", ["setuid", "setgid"])
def test_engine_that_may_not_change_user_stays_root(lacks: str, of_root: OfRoot) -> None:
    """It prints nothing; files of root are open to it then."""
    path = engine_path()
    assert path is not None
    with subprocess.Popen(
        ["setpriv", "--bounding-set", f"-{lacks}", "--inh-caps", "-all", path, "receiver",
         "--port", "null:"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        assert running.stdout is not None and '"ready"' in running.stdout.readline()
        assert {users for users, _, _ in ids(running.pid)} == {"0\t0\t0\t0"}
        assert of_root.answers(running.pid) == {one: {0} for one in REFUSED}
        _, stderr = running.communicate("stop\n", timeout=30)
        assert running.returncode == 0 and stderr == ""


def test_dpdk_has_threads_that_stay_root(tmp_path: Path) -> None:
    """Therefore all of its threads do; a filter of system calls closes those files instead."""
    if lacking("dpdk:"):
        pytest.skip("the engine is built without dpdk")
    port = f"dpdk:virtio-user={tmp_path / 's'},server"
    with engine("sender", "--port", port, "--dst-mac", "02:00:00:00:00:01") as running:
        assert {users for users, _, _ in ids(running.process.pid)} == {"0\t0\t0\t0"}


@pytest.mark.parametrize("environment", ["bare", "netns"])
@pytest.mark.usefixtures("state_dir")
def test_bench_ends_an_engine_of_another_user(environment: str) -> None:
    with open_session() as session:
        node = ENVIRONMENTS[environment]().create(session, node_spec("tx0", 0))
        running = node.spawn_engine(["receiver", "--port", port_spec(node.spec.port, Io.RAW_MMSG)])
        assert '"ready"' in (running.read_line(20) or "")
        assert ids(running.pid) == of_user(NOBODYS)
        node.close()
        assert running.wait(20) == 0
