"""Helpers for the integration tests of the testbed: a separate state directory, a substitute for
the engine, and a search for leftovers of a session."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.environment.registry import ENVIRONMENTS
from switchmark.host.containers.lxc_remains import LXC_LOCK_DIR
from switchmark.host.kernel import procfs
from switchmark.model.node import NodePort, NodeSpec
from switchmark.model.ports import PortKind
from tests.places import needs_namespaces

# The name is older than the question: it is tried whether network namespaces can be made.
needs_root = needs_namespaces

# Runs its arguments: any BusyBox command can play the engine, on the host and in a container.
STAND_IN = '#!/bin/busybox sh\nexec "$@"\n'


def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A state directory with a short path, a cache, and a substitute for the engine."""
    state = Path(f"/tmp/smti{os.getpid()}")
    engine = tmp_path / "engine"
    engine.write_text(STAND_IN)
    engine.chmod(0o755)
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", str(state))
    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", str(engine))
    yield state
    shutil.rmtree(state, ignore_errors=True)


def node_spec(
    name: str, end: int, kind: PortKind = PortKind.VETH, mtu_bytes: int = 1500
) -> NodeSpec:
    """A node with one end of a pair, 0 or 1, on the last core."""
    macs = ("02:53:4d:00:00:01", "02:53:4d:00:00:02")
    ips = ("10.64.0.1/24", "10.64.0.2/24")
    cores = (max(os.sched_getaffinity(0)),)
    port = NodePort(
        kind, macs[end], ips[end], mtu_bytes, peer_mac=macs[1 - end], peer_ip=ips[1 - end]
    )
    return NodeSpec(name, (port,), cores)


def remains(state: Path, session_id: str) -> list[str]:
    """Return everything on the machine whose name contains the session's name."""
    found = [str(path) for path in state.glob(f"*{session_id}*")]
    for folder in (Path("/run/netns"), Path("/sys/class/net"), Path("/dev/shm")):
        if folder.is_dir():
            found += [str(path) for path in folder.iterdir() if session_id in path.name]
    for top in ("/sys/fs/cgroup", LXC_LOCK_DIR):
        found += [  # `rglob` fails if a folder disappears
            f"{folder}/{name}"
            for folder, folders, files in os.walk(top)
            for name in (folders if top != LXC_LOCK_DIR else [*folders, *files])
            if session_id in name
        ]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found += [line for line in mounts if session_id in line]
    found += [f"process {one.pid}" for one in procfs.session_processes(session_id)]
    for pid in procfs.pids():
        if procfs.ProcessIdentity.of(pid) is None:
            continue
        try:
            command = Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            continue
        if f"sm{session_id}" in command:
            found.append(f"process {pid}: {command}")
    return found


def every_environment() -> list[object]:
    """Return the environments on the host's kernel, for the `params` of a fixture.

    Virtual machines have separate tests (tests/vm)."""
    return [
        pytest.param(name, marks=pytest.mark.slow) if name == "docker" else name
        for name in ENVIRONMENTS
        if name != "qemu"
    ]
