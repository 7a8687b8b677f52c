"""What a user has on the host already, named much as the bench names its own: none of it may be
touched."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NAME = f"smdecoy{secrets.token_hex(4)}"  # control groups are seen by all own hosts


@contextmanager
def decoys() -> Iterator[None]:
    """A bridge, a namespace with an address, a route, files, a mount, a cgroup and a process that
    is called as the engine is."""
    bridge = f"smb{os.getpid()}"
    program = Path("/run") / NAME / "switchmark-traffic"
    group = Path("/sys/fs/cgroup/cpu") / NAME
    _ip("link", "add", bridge, "type", "bridge")
    Path(f"/proc/sys/net/ipv6/conf/{bridge}/disable_ipv6").write_text("1")  # it says nothing
    _ip("address", "add", "198.51.100.1/24", "dev", bridge)
    _ip("link", "set", bridge, "up")
    _ip("route", "add", "203.0.113.0/24", "via", "198.51.100.2")
    _ip("netns", "add", NAME)
    _ip("-n", NAME, "link", "set", "lo", "up")
    _ip("-n", NAME, "address", "add", "198.51.100.9/32", "dev", "lo")
    program.parent.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", NAME, str(program.parent)], check=True)
    shutil.copy("/bin/sleep", program)
    for folder in ("/tmp", "/dev/shm", "/run"):
        (Path(folder) / f"{NAME}.socket").write_text("a user's")
    with suppress(OSError):
        group.mkdir()
    process = subprocess.Popen([program, "100000"], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()
        with suppress(OSError):
            group.rmdir()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
