"""All threads of a running engine are confined (what that means: engine/tests/test_confinement.c),
in all environments; but where a library has threads of its own."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from switchmark.engine.arguments import port_spec
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.model.io import Io
from switchmark.testbed.session import open_session
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


def answers(pid: int, least: int = 2) -> set[int]:
    """What each thread is answered that signals us, who are of its user."""
    threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) >= least
    return {call_of(thread, KILL, os.getpid(), 0) for thread in threads}


@pytest.mark.parametrize("spec", OPENED_BY)
def test_a_running_engine_reaches_nothing_else(spec: str) -> None:
    def refused(pid: int) -> None:
        assert answers(pid) == {-errno.EPERM}

    with veth_pair("c") as wire:
        asked_before_and_while_it_sends(spec, wire, refused)


def test_workers_are_confined() -> None:
    with engine("sender", "--port", "null:", "--queues", "2", "--rate", "1k", "--idle",
                "sleep") as running:  # fmt: skip
        running.tell("start duration=60")
        running.wait("started")
        assert answers(running.process.pid, 3) == {-errno.EPERM}
        running.finish("stop")


def test_a_library_with_threads_is_not(tmp_path: Path) -> None:
    if lacking("dpdk:"):
        pytest.skip("the engine is built without dpdk")
    port = f"dpdk:virtio-user={tmp_path / 's'},server"
    running = Engine("sender", ["--port", port, "--dst-mac", "02:00:00:00:00:01"])
    try:
        running.wait("ready")
        assert answers(running.process.pid) == {0}
    finally:
        running.close()


@pytest.mark.parametrize("environment", ["bare", "netns"])
@pytest.mark.usefixtures("state_dir")
def test_engines_of_the_bench_are(environment: str) -> None:
    with open_session() as session:
        node = ENVIRONMENTS[environment]().create(session, node_spec("tx0", 0))
        spec = port_spec(node.spec.port, Io.RAW_MMSG)
        running = node.spawn_engine(["receiver", "--port", spec])
        assert '"ready"' in (running.read_line(20) or "")
        assert answers(running.pid) == {-errno.EPERM}
        running.close_input()
        assert running.wait(20) == 0
        node.close()
