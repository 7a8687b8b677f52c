"""An S3 server for a test: `rclone serve s3` over a folder, else moto, which has it all in memory.

rclone is found on PATH or by SWITCHMARK_TEST_RCLONE (`go install github.com/rclone/rclone@latest`;
the distributions' are too old); moto is in `.venv-s3`, where `./check` installs it. Tests that need
a server skip by name without either.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "switchmarktest01",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-test",
}
BUCKET = "bench"
_MOTO = Path(__file__).parents[1] / ".venv-s3/bin/moto_server"


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """The address of an empty bucket; skips the test where this server is not installed."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    command = _command(folder, port)
    (folder / BUCKET).mkdir(parents=True)
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL,
        stdout=(folder / "server.log").open("wb"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / "server.log").read_text())
            time.sleep(0.05)
        if command[0] == str(_MOTO):  # (rclone has a bucket for each folder)
            bucket = f"http://127.0.0.1:{port}/{BUCKET}"
            with urllib.request.urlopen(urllib.request.Request(bucket, method="PUT"), timeout=120):
                pass
        yield f"s3://{BUCKET}/a/b?endpoint=http://127.0.0.1:{port}&region=us-east-1"
    finally:
        server.terminate()
        server.wait()


def _command(folder: Path, port: int) -> list[str]:
    found = os.environ.get("SWITCHMARK_TEST_RCLONE") or shutil.which("rclone")
    if found is None and _MOTO.exists():
        return [str(_MOTO), "-H", "127.0.0.1", "-p", str(port)]
    if found is None:
        pytest.skip("neither rclone (SWITCHMARK_TEST_RCLONE) nor .venv-s3, which ./check installs")
    keys = f"{CREDENTIALS['AWS_ACCESS_KEY_ID']},{CREDENTIALS['AWS_SECRET_ACCESS_KEY']}"
    return [
        *(found, "serve", "s3", str(folder), "--addr", f"127.0.0.1:{port}", "--auth-key", keys),
        *("--vfs-cache-mode", "writes", "--cache-dir", str(folder.parent / "rclone-cache")),
    ]
