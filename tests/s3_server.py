"""An S3 server for a test: moto, which stores everything in memory.

`./check` installs it into `.venv-s3`. Tests that need it are skipped by name without it.
tests/s3_disk.py has a server over a folder; `rclone serve s3` 1.75 ignores `If-None-Match`.
"""

from __future__ import annotations

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
    """Yield the address of an empty bucket; skips the test if the server is not installed."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    if not _MOTO.exists():
        pytest.skip("no S3 server in .venv-s3, where ./check installs it")
    command = [str(_MOTO), "-H", "127.0.0.1", "-p", str(port)]
    folder.mkdir(parents=True)
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
        bucket = f"http://127.0.0.1:{port}/{BUCKET}"
        with urllib.request.urlopen(urllib.request.Request(bucket, method="PUT"), timeout=120):
            pass
        yield f"s3://{BUCKET}/a/b?endpoint=http://127.0.0.1:{port}&region=us-east-1"
    finally:
        server.terminate()
        server.wait()
