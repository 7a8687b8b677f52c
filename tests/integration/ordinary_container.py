"""Runs the bench in a real container without privileges: a Docker daemon of the session, an empty
image, and the host's programs mounted read-only, so that no registry is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from switchmark.engine.binary import find_engine
from switchmark.environment.docker import DockerEnvironment
from switchmark.errors import UnavailableError
from switchmark.host.containers import docker_daemon
from switchmark.host.containers.docker_daemon import Daemon
from switchmark.host.session import open_session
from tests.integration.switch_rig import own_state_dir

ROOT = Path(__file__).parents[2]
DEADLINE_S = 300.0  # only a hanging program takes as long
RESULTS = "/results"
# Programs of switches that are not in /usr.
PROGRAMS = (
    "SWITCHMARK_VPP", "SWITCHMARK_BESS", "SWITCHMARK_BESS_PYTHON", "SWITCHMARK_FASTCLICK",
)  # fmt: skip
EMPTY = ("usr", "etc", "root", "proc", "sys", "dev", "var/lib", "var/cache", "run", "results")


@dataclass(frozen=True)
class OrdinaryContainer:
    """A daemon whose containers have access to the host's programs and this source only."""

    daemon: Daemon

    def run(
        self, *args: str, options: Sequence[str] = (), results: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `switchmark` to its end, with these options of `docker run`."""
        shown = ["/usr", "/etc", "/var/lib/dpkg", str(ROOT), sys.prefix, str(find_engine())]
        shown += [str(Path(os.environ[one]).parents[1]) for one in PROGRAMS if one in os.environ]
        mounts = [f"{path}:{path}:ro" for path in dict.fromkeys(shown) if Path(path).exists()]
        mounts += [] if results is None else [f"{results}:{RESULTS}"]
        environment = {
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SWITCHMARK_TRAFFIC": str(find_engine()),
            **{one: os.environ[one] for one in PROGRAMS if one in os.environ},
        }
        command = self.daemon.command(
            *("run", "--rm", "--network", "none", "--workdir", RESULTS, *options),
            *(word for mount in mounts for word in ("--volume", mount)),
            *(word for name, value in environment.items() for word in ("--env", f"{name}={value}")),
            *(self.daemon.image, sys.executable, "-m", "switchmark", *args),
        )
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=DEADLINE_S,
        )  # fmt: skip


@contextmanager
def ordinary_container(folder: Path) -> Iterator[OrdinaryContainer]:
    """Start the daemon for the block. Skips the test if it cannot run here."""
    with pytest.MonkeyPatch.context() as monkeypatch, own_state_dir():
        monkeypatch.setenv("SWITCHMARK_DOCKER", "private")
        monkeypatch.setenv("SWITCHMARK_CACHE_DIR", str(folder / "cache"))
        answer = DockerEnvironment().availability()
        if not answer.available:
            pytest.skip(f"docker: {answer.refusal}")
        try:
            find_engine()
        except UnavailableError as error:
            pytest.skip(str(error))
        with open_session(measuring=False) as session:
            daemon = docker_daemon.daemon_for(session, _empty_root(folder / "root"))
            yield OrdinaryContainer(daemon)


def _empty_root(root: Path) -> Path:
    """Return an empty root file system that every user of a container can use."""
    for name in EMPTY:
        (root / name).mkdir(parents=True)
    for name in ("tmp", "results"):
        (root / name).mkdir(exist_ok=True)
        (root / name).chmod(0o1777)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(f"usr/{name}")
    return root
