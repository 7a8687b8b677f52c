"""An S3 server for a test that stores objects on disk, applies `If-None-Match`, and can be killed:
the Versity gateway over a folder.

    go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

It is searched on PATH or at SWITCHMARK_VERSITYGW; tests that need it are skipped by name without
it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.s3_server import BUCKET, CREDENTIALS


class DiskS3Server:
    """The server, which can be killed and restarted at the same port."""

    def __init__(self, folder: Path, program: str) -> None:
        self._folder = folder
        self._program = program
        (folder / "data" / BUCKET).mkdir(parents=True)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        listen = f"127.0.0.1:{self.port}"
        command = [self._program, "--port", listen, "--region", "us-east-1", "posix", "data"]
        keys = {
            "ROOT_ACCESS_KEY": CREDENTIALS["AWS_ACCESS_KEY_ID"],
            "ROOT_SECRET_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        }
        with (self._folder / "server.log").open("ab") as log:
            self._running = subprocess.Popen(
                command, env=os.environ | keys, cwd=self._folder, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        deadline = time.monotonic() + 120
        while True:
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", self.port)):
                    return
            if self._running.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._folder / "server.log").read_text())
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it with SIGKILL and wait for its end."""
        running, self._running = self._running, None
        if running is not None:
            running.kill()
            running.wait()


@contextmanager
def disk_s3_server(folder: Path) -> Iterator[DiskS3Server]:
    """A running server with an empty bucket; skips the test if it is not installed."""
    program = os.environ.get("SWITCHMARK_VERSITYGW") or shutil.which("versitygw")
    if program is None:
        pytest.skip(
            "no S3 server over a folder (versitygw; tests/s3_disk.py has the command to install it)"
        )
    server = DiskS3Server(folder, program)
    try:
        server.start()
        yield server
    finally:
        server.kill()
