"""Podman with folders of the session, in a private host.

Podman has no daemon: each command is a program that starts in the private host. Its storage and its
configuration are in folders of the session, and folders of the session take the place of /run and
/var/lib, so that the user's Podman is neither used nor changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from switchmark.host.containers.docker_daemon import Daemon
from switchmark.host.host import Session
from switchmark.host.process_output import stdout_of
from switchmark.host.state import cache_dir, cache_folder
from switchmark.host.undo.entries import CgroupsNamed, Directory, MountsBelow

PROGRAM = "podman"
RUN = Path("/run")  # as the private host has it
# A file of locks in /dev/shm would be that of the user's Podman.
CONFIGURATION = """\
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
tmp_dir = "/run/libpod"
[network]
network_config_dir = "/run/networks"
"""
# runc would raise a limit beyond that of the bench, which it has no right to.
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
AT_ONCE = ("--stop-timeout", "0")  # as `docker rm -f` ends containers


def version() -> str | None:
    """Return the version of Podman; None if it prints none."""
    found = re.search(r"\d+(\.\d+)+", stdout_of([PROGRAM, "--version"]) or "")
    return found[0] if found else None


def prepare(
    session: Session, name: str, run: Path, prefix: Sequence[str], image: str
) -> tuple[Daemon, ExitStack]:
    """Return the means to run Podman by commands that begin with the prefix, and a stack that
    removes its files. `run` is the folder that is /run in the private host."""
    ledger, data = session.ledger, cache_dir() / f"podman-{name}"
    with ExitStack() as undo:
        for entry in (Directory(str(data)), MountsBelow(str(data)), CgroupsNamed(name)):
            undo.callback(ledger.undo, ledger.record(entry))
        cache_folder(data.name)
        (run / "containers.conf").write_text(CONFIGURATION)
        client = (
            *prefix, "env", f"CONTAINERS_CONF={RUN}/containers.conf", PROGRAM,
            "--root", str(data), "--runroot", f"{RUN}/storage", "--storage-driver", "vfs",
        )  # fmt: skip
        options = (*LIMITS, *AT_ONCE, "--cgroup-parent", f"/{name}")
        daemon = Daemon("", version() or "unknown", image, client, options)
        return daemon, undo.pop_all()
