"""All threads of a running engine are confined in all environments (engine/tests/test_confinement.c
defines it), also those of DPDK, which have an additional filter of system calls
(engine/tests/test_call_filter.c)."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from switchmark.engine.arguments import port_spec
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.host.session import open_session
from switchmark.model.io import Io
from tests.integration.engine_tools import Engine, engine, needs_engine, veth_pair
from tests.integration.machine import needs_root, node_spec
from tests.integration.test_engine_privileges import (
    OPENED_BY,
    asked_before_and_while_it_sends,
    lacking,
)
from tests.integration.thread_calls import KILL, call_of, landlock_version, needs_ptrace

pytestmark = [
    *needs_engine,
    needs_root,
    needs_ptrace,
    pytest.mark.skipif(landlock_version() < 6, reason="signals are confined from version 6 on"),
]

OPEN, CONNECT, FORK, CHMOD = 2, 42, 57, 90  # x86-64
NO_FILE = 2**64 - 1


REFUSED = {(-errno.EPERM, -errno.EACCES)}


@pytest.fixture(autouse=True)
def readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a variable of the engines to the name of a file that every user may read."""
    monkeypatch.setenv("SM_TEST_READABLE", "/etc/passwd")


def answers(pid: int, least: int = 2) -> set[tuple[int, int]]:
    """Return each thread's errors for a signal to this process and for reading a public file."""
    threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) >= least
    path = address_of(pid, "SM_TEST_READABLE")
    return {
        (call_of(thread, KILL, os.getpid()), call_of(thread, OPEN, path, os.O_RDONLY))
        for thread in threads
    }


@pytest.mark.parametrize("spec", OPENED_BY)
def test_running_engine_reaches_nothing_else(spec: str) -> None:
    def refused(pid: int) -> None:
        assert answers(pid) == REFUSED

    with veth_pair("c") as wire:
        asked_before_and_while_it_sends(spec, wire, refused)


def test_workers_are_confined() -> None:
    with engine("sender", "--port", "null:", "--queues", "2", "--rate", "1k", "--idle",
                "sleep") as running:  # fmt: skip
        running.tell("start duration=60")
        running.wait("started")
        assert answers(running.process.pid, 3) == REFUSED
        running.finish("stop")


@pytest.mark.parametrize("role", ["tcp-client", "tcp-server"])
def test_tcp_roles_reach_nothing_else(role: str) -> None:
    """In all threads, while a server and its client exchange requests in a trial."""
    with veth_pair("ct") as wire:
        address = f"{wire[1].address}:5201"
        server = Engine("tcp-server", ["--listen", address], wire[1].namespace)
        client = Engine(
            "tcp-client",
            ["--connect", address, "--rate", "100", "--interval", "0.1"],
            wire[0].namespace,
        )
        try:
            for running in (server, client):
                running.wait("ready")
                running.tell("start duration=60")
                running.wait("started")
            process = client if role == "tcp-client" else server
            assert answers(process.process.pid) == REFUSED
            while client.wait("tcp_interval")["completed"] == 0:
                pass  # the first request may be under way
            assert client.finish_tcp() > 0
        finally:
            client.close()
            server.close()


def results_of_call(pid: int, number: int, first: int, second: int = 0) -> set[int]:
    """Return the results of a system call in each thread of an engine with DPDK."""
    threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) > 2, "EAL has additional threads"
    return {call_of(thread, number, first, second) for thread in threads}


def address_of(pid: int, variable: str) -> int:
    """Return the address of an environment variable's value in a process."""
    begin = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[47])
    name = f"{variable}=".encode()
    return begin + Path(f"/proc/{pid}/environ").read_bytes().index(name) + len(name)


@contextmanager
def with_dpdk(port: str, *more: str, namespace: str | None = None) -> Iterator[int]:
    """A running engine with this DPDK port; yields its pid."""
    if lacking("dpdk:"):
        pytest.skip("the engine is built without dpdk")
    args = ["--port", f"dpdk:{port}", "--dst-mac", "02:00:00:00:00:01", *more]
    running = Engine("sender", args, namespace)
    try:
        running.wait("ready")
        yield running.process.pid
        assert running.process.stdin is not None
        running.process.stdin.close()
        assert running.process.wait(20) == 0
    finally:
        running.close()


def assert_calls_are_refused(pid: int) -> None:
    """The filter refuses access to other processes and new processes."""
    assert results_of_call(pid, KILL, os.getpid()) == {-errno.EPERM}
    assert results_of_call(pid, FORK, 0) == {-errno.EPERM}


@pytest.mark.parametrize(
    ("port", "connects"),
    [
        ("virtio-user={}/s,server", False),
        ("virtio-user={}/s --eal --file-prefix=sm", True),
        ("vhost={}/s", False),
        ("vhost={}/s,client", True),
        ("memif={}/s,role=server", True),
        ("af-packet={}", False),
    ],
)
def test_threads_of_dpdk_are_confined(
    port: str, connects: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("of the user")
    monkeypatch.setenv("SM_TEST_FILE", str(file))
    with ExitStack() as stack:
        if "af-packet" in port:
            node, _ = stack.enter_context(veth_pair("c"))
            place, namespace = node.device, node.namespace
        else:
            place, namespace = str(tmp_path), None
        arguments = port.format(place).split()
        pid = stack.enter_context(with_dpdk(*arguments, namespace=namespace))
        path = address_of(pid, "SM_TEST_FILE")
        assert_calls_are_refused(pid)
        assert results_of_call(pid, OPEN, path, os.O_RDONLY) == {-errno.EACCES}
        assert results_of_call(pid, OPEN, path, os.O_WRONLY) == {-errno.EPERM}
        assert results_of_call(pid, CHMOD, path, 0o666) == {-errno.EPERM}
        refused = errno.EBADF if connects else errno.EPERM
        assert results_of_call(pid, CONNECT, NO_FILE) == {-refused}
    assert file.stat().st_mode & 0o777 != 0o666
    assert list(tmp_path.iterdir()) == [file], "the engine removes its socket"


@pytest.mark.parametrize(
    ("port", "more"),
    [("vdev=net_null0", ()), ("virtio-user={}/s,server", ("--eal", "-v"))],
)
def test_dpdk_files_are_not_always_known(
    port: str, more: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They depend on the driver of a device and on EAL arguments of the user."""
    file = tmp_path / "file"
    file.write_text("of the user")
    monkeypatch.setenv("SM_TEST_FILE", str(file))
    with with_dpdk(port.format(tmp_path), *more) as pid:
        assert_calls_are_refused(pid)
        path = address_of(pid, "SM_TEST_FILE")
        assert min(results_of_call(pid, OPEN, path, os.O_WRONLY)) > 0


@pytest.mark.parametrize("environment", ["bare", "netns"])
@pytest.mark.usefixtures("state_dir")
def test_engines_of_the_bench_are_confined(environment: str) -> None:
    with open_session() as session:
        node = ENVIRONMENTS[environment]().create(session, node_spec("tx0", 0))
        spec = port_spec(node.spec.port, Io.RAW_MMSG)
        running = node.spawn_engine(["receiver", "--port", spec])
        assert '"ready"' in (running.read_line(20) or "")
        assert answers(running.pid) == REFUSED
        running.close_input()
        assert running.wait(20) == 0
        node.close()
