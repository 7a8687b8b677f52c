"""A separate PostgreSQL for a test: a cluster in a temporary folder, only on a Unix socket.

Tests that need it are skipped if the programs of PostgreSQL are not installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_OWNER = "postgres"  # PostgreSQL refuses to run as root


def programs() -> Path:
    """Return the folder of initdb and pg_ctl. Skip the test if they are not installed."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if installed:
        return installed[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        pytest.skip("PostgreSQL is not installed (apt: postgresql)")
    return Path(on_path).resolve().parent


class Cluster:
    """A server that can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._bin = programs()
        self._sudo = ["runuser", "-u", _OWNER, "--"] if os.geteuid() == 0 else []
        self.user = _OWNER if self._sudo else os.environ.get("USER", "postgres")

    def make(self) -> None:
        """Set the cluster up and start it."""
        self._run("initdb", "-D", "data", "-A", "trust", "-U", self.user, "--no-sync", "-E", "UTF8",
                  "--locale", "C")  # fmt: skip
        with (self.folder / "data/postgresql.conf").open("a") as settings:
            settings.write(
                "listen_addresses = ''\nfsync = off\nshared_buffers = 32MB\n"
                f"unix_socket_directories = '{self.folder}'\nmax_connections = 40\n"
                "dynamic_shared_memory_type = mmap\n"
            )
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._run("pg_ctl", "-D", "data", "-w", "-t", "120", "-l", "log", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; `immediate` is like a power cut."""
        self._run("pg_ctl", "-D", "data", "-w", "-t", "120", "-m", mode, "stop")

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database."""
        return f"postgresql://{self.user}@/{database}?host={self.folder}"

    def new_database(self, name: str) -> str:
        """Make an empty database, and return its address."""
        self._run("createdb", "-h", str(self.folder), "-U", self.user, name)
        return self.url(name)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._sudo, str(self._bin / program), *arguments],
            cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr or done.stdout}")


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Yield a cluster, and remove all of it afterwards."""
    programs()
    folder = Path(
        tempfile.mkdtemp(prefix="sm-pg-", dir="/tmp")
    )  # the path of a socket must be short
    if os.geteuid() == 0:
        shutil.chown(folder, _OWNER)
    server = Cluster(folder)
    try:
        server.make()
        yield server
    finally:
        if (folder / "data/postmaster.pid").exists():
            server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)
